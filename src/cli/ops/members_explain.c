#include "cli/ops/members_explain.h"

#include "cli/common/ensemble_view.h"
#include "cli/ops/members.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 2000 };

const char *explain_advice(const char *problem)
{
    static const struct {
        const char *part; /* of the reason */
        const char *advice;
    } ROWS[] = {
        {"another secret", "its clusterSecretFile differs from that of the members: copy theirs to "
                           "it, and restart it"},
        {"not use TLS", "it has no clusterSecretFile and no sslQuorum, or another program has that "
                        "port: give it the members' secret or certificates, and restart it"},
        {"certificate", "the members do not accept its certificate, or it does not accept theirs: "
                        "compare ssl.quorum.* and the names in the certificates"},
        {"another cluster",
         "its data folder belongs to another ensemble: stop it, move that folder "
         "away, and start it with an empty one"},
        {"link protocol", "it runs another version: install the members' version on it"},
        {"server.N lines", "another server has that address or number: compare the server.N lines "
                           "and the myid files"},
        {"myid", "two servers have that number: compare the myid files"},
        {"refused",
         "nothing listens on the first port of its line: start it, with the lines of the "
         "members and its own in its configuration"},
        {"connect back", "it cannot reach the leader, or does not know it: open the members' first "
                         "ports to it, and give it the lines of all members"},
        {"timed out", "a firewall drops the connections, or the machine is down: open the first "
                      "port of its line between all servers"},
        {"unreachable", "there is no route to it: check the host in its line, and the network"},
        {"unknown", "its host name has no address: correct the name, or the DNS of the members"},
        {"not known", "its host name has no address: correct the name, or the DNS of the members"},
        {"closed the connection", "it is no server of this kind (Apache ZooKeeper?), has no secret "
                                  "while the members have one, or the other way round"},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        if (strstr(problem, ROWS[i].part) != NULL) {
            return ROWS[i].advice;
        }
    }
    return NULL;
}

void explain_client(const char *line, char ret[EXPLAIN_CLIENT_MAX])
{
    const char *client = strchr(line, ';');
    const char *host = strchr(line, '=');
    ret[0] = '\0';
    if (client == NULL || host == NULL || client[1] == '\0' || host > client) {
        return;
    }
    client++;
    host++;
    const char *port = strrchr(client, ':');
    bool every = strncmp(client, "0.0.0.0:", 8) == 0 || strncmp(client, "[::]:", 5) == 0;
    if (port != NULL && !every) {
        snprintf(ret, EXPLAIN_CLIENT_MAX, "%s", client);
        return;
    }
    const char *end = host[0] == '[' ? strchr(host, ']') : NULL;
    int len = end != NULL ? (int)(end - host) + 1 : (int)strcspn(host, ":|;");
    snprintf(ret, EXPLAIN_CLIENT_MAX, "%.*s:%s", len, host, port != NULL ? port + 1 : client);
}

/* Asks one address. True with the state, and the version, "" when it does not answer. */
static bool look_at(const struct common_options *options, const char *client,
                    char state[ROSTER_TEXT_MAX], char version[48])
{
    struct common_options one = *options;
    struct ensemble_view view;
    bool found = false;
    one.server = client;
    if (client[0] == '\0') {
        return false;
    }
    if (ensemble_view_gather(MEMBERS_USAGE.name, &one, LOOK_MS, &view) == 0 && view.count > 0) {
        snprintf(state, ROSTER_TEXT_MAX, "%s", view.servers[0].state);
        snprintf(version, 48, "%s", view.servers[0].answered ? view.servers[0].version : "");
        found = true;
    }
    ensemble_view_finish(&view);
    return found;
}

void explain_before(const struct common_options *options, uint64_t number, const char *client)
{
    char state[ROSTER_TEXT_MAX];
    char version[48];
    if (look_at(options, client, state, version) && version[0] == '\0' &&
        strstr(state, "refused") != NULL) {
        fprintf(stderr,
                "server %" PRIu64 ": nothing answers at %s (%s): start it now, the ensemble waits "
                "for it for some seconds\n",
                number, client, state);
    }
}

void explain_failure(const struct common_options *options, uint64_t number, const char *problem,
                     const char *client)
{
    char state[ROSTER_TEXT_MAX];
    char version[48];
    const char *advice = explain_advice(problem);
    if (problem[0] != '\0') {
        fprintf(stderr, "  the leader has no link to server %" PRIu64 ": %s\n", number, problem);
    }
    bool looked = look_at(options, client, state, version);
    if (looked && version[0] != '\0') {
        fprintf(stderr, "  server %" PRIu64 " (%s) says: %s\n", number, version, state);
    } else if (looked) {
        fprintf(stderr, "  at its client address %s: %s\n", client, state);
    }
    if (looked && strncmp(version, "zookeeper", 9) == 0) {
        advice = "an ensemble has either Apache's servers or Conclave's: start Conclave there";
    }
    fprintf(stderr, "  what to do: %s; then try again. Its own log says more\n",
            advice != NULL ? advice : "start it, with the lines of all members and its own");
}
