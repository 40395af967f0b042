#include "cli/ops/members_admin.h"

#include "cli/common/connection.h"
#include "cli/common/server_query.h"
#include "cli/ops/admin_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ADMIN_ASK_MS = 3000, QUORUM_ADDRESS_MAX = 300 };

static bool names_this_machine(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]:", 6) == 0 ||
           strncmp(address, "localhost:", 10) == 0;
}

/* "host:port" of the leader's first peer address, by which its ensemble is known; "": not known. */
static void quorum_address(const struct ensemble_view *view, uint64_t leader,
                           char ret[QUORUM_ADDRESS_MAX])
{
    const struct ensemble_view_server *best = ensemble_view_best(view);
    ret[0] = '\0';
    for (size_t i = 0; best != NULL && i < best->members_count; i++) {
        const char *address = best->members[i].address;
        const char *host_end = address[0] == '[' ? strchr(address, ']') : address;
        const char *port = host_end != NULL ? strchr(host_end, ':') : NULL;
        if (best->members[i].id == leader && port != NULL) {
            int len = (int)(port - address) + 1 + (int)strspn(port + 1, "0123456789");
            snprintf(ret, QUORUM_ADDRESS_MAX, "%.*s", len, address);
        }
    }
}

/* Why the port of a server does not do; NULL: it does. `text` holds the reason. */
static const char *admin_objection(const struct ensemble_view_server *s, struct server_query *ask,
                                   const char *quorum, char text[ROSTER_TEXT_MAX])
{
    struct buf body;
    char quoted[QUORUM_ADDRESS_MAX + 2];
    unsigned status = 0;
    const char *why = NULL;
    if (ask->error != 0) {
        snprintf(text, ROSTER_TEXT_MAX, "%s", ask->why);
        return text;
    }
    buf_init(&body, 0);
    snprintf(quoted, sizeof quoted, "\"%s\"", quorum);
    if (!admin_request_read(&ask->answer, &status, &body)) {
        why = "this is not the HTTP port of a server";
    } else if (names_this_machine(s->admin) && !names_this_machine(s->address) &&
               (quorum[0] == '\0' || buf_cstr(&body) == NULL ||
                strstr(buf_cstr(&body), quoted) == NULL)) {
        why = "it serves only its own machine, and here another server has that port";
    }
    buf_finish(&body);
    return why;
}

static void tell_no_admin(const char *command, const struct ensemble_view *view,
                          const struct admin_wanted *wanted, const char *const *reasons)
{
    fprintf(stderr,
            "conclave %s: found no HTTP port of the ensemble that answers, and only there this can "
            "be asked:\n",
            command);
    for (size_t i = 0; i < view->count; i++) {
        const struct ensemble_view_server *s = &view->servers[i];
        fprintf(stderr, "  %s: %s%s%s\n", s->address, s->admin, s->admin[0] != '\0' ? ": " : "",
                reasons[i]);
    }
    fprintf(stderr,
            "Run this command on the machine of a server, let the port serve other machines "
            "(admin.serverAddress), or name one with --admin HOST:PORT.%s\n",
            wanted->spare_leader ? ""
                                 : " A leader also hands over when it is stopped with SIGTERM.");
}

/* The wanted server with the highest rank that is not excluded by a reason; count: none. */
static size_t best_without(const struct ensemble_view *view, const struct admin_wanted *wanted,
                           const char *const *reasons)
{
    size_t best = view->count;
    int best_rank = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct ensemble_view_server *s = &view->servers[i];
        bool leads = s->id == wanted->leader && wanted->leader != 0;
        int rank = wanted->spare_leader ? 1 + s->serves + (s->serves && !leads) : 1 + leads;
        if (reasons[i] == NULL && rank > best_rank) {
            best = i;
            best_rank = rank;
        }
    }
    return best;
}

/* What the search needs, per server of the view. */
struct admin_search {
    struct server_query *asks;
    const char **reasons;
    char (*texts)[ROSTER_TEXT_MAX];
};

static int search_all(const char *command, const struct common_options *options,
                      const struct ensemble_view *view, const struct admin_wanted *wanted,
                      struct admin_search *a)
{
    char quorum[QUORUM_ADDRESS_MAX];
    size_t n = 0;
    quorum_address(view, wanted->leader, quorum);
    for (size_t i = 0; i < view->count; i++) {
        const struct ensemble_view_server *s = &view->servers[i];
        if (!s->answered) {
            a->reasons[i] = s->state;
        } else if (wanted->only != 0 && s->id != wanted->only) {
            a->reasons[i] = "it is another server";
        } else if (s->brief) {
            a->reasons[i] = "it does not tell its HTTP port, as a Conclave server does";
        } else if (s->admin[0] == '\0' || !server_query_address(&a->asks[n], s->admin)) {
            a->reasons[i] = "it has no HTTP port (--admin off)";
        } else {
            a->asks[n].question =
                slice_str("GET /commands/voting_view HTTP/1.0\r\nHost: localhost\r\n"
                          "Connection: close\r\n\r\n");
            a->asks[n++].index = i;
        }
    }
    int code = server_query_all(command, options, ADMIN_ASK_MS, a->asks, n);
    for (size_t k = 0; k < n; k++) {
        size_t i = a->asks[k].index;
        if (code == 0) {
            a->reasons[i] = admin_objection(&view->servers[i], &a->asks[k], quorum, a->texts[i]);
        }
        buf_finish(&a->asks[k].answer);
    }
    return code;
}

int members_admin_find(const char *command, const struct common_options *options,
                       const struct ensemble_view *view, const struct admin_wanted *wanted,
                       char ret[ROSTER_ADDRESS_MAX])
{
    struct admin_search a = {
        .asks = calloc(view->count + 1, sizeof *a.asks),
        .reasons = calloc(view->count + 1, sizeof *a.reasons),
        .texts = calloc(view->count + 1, sizeof *a.texts),
    };
    int code = CLI_EXIT_INTERNAL;
    if (a.asks == NULL || a.reasons == NULL || a.texts == NULL) {
        fprintf(stderr, "conclave %s: out of memory\n", command);
    } else {
        code = search_all(command, options, view, wanted, &a);
        size_t best = code == 0 ? best_without(view, wanted, a.reasons) : view->count;
        if (best < view->count) {
            memcpy(ret, view->servers[best].admin, ROSTER_ADDRESS_MAX);
        } else if (code == 0) {
            tell_no_admin(command, view, wanted, a.reasons);
            code = CLI_EXIT_UNAVAILABLE;
        }
    }
    free(a.asks);
    free(a.reasons);
    free(a.texts);
    return code;
}
