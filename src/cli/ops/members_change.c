/*
 * conclave members add, remove and promote: one reconfig request, which the leader answers when the change is complete.
 * Meanwhile another thread asks the leader for its progress.
 */
#include "base/json.h"
#include "cli/common/connection.h"
#include "cli/common/ensemble_view.h"
#include "cli/common/values.h"
#include "cli/ops/members.h"
#include "cli/ops/members_explain.h"

#include <conclave/client.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 300, ASK_MS = 1000, LINE_MAX_LEN = 1200 };

#define CONFIG_NODE "/zookeeper/config"

/* Tells on stderr how far a member got, when that changes. */
struct progress {
    struct common_options options;
    uint64_t id; /* 0: none */
    atomic_bool stop;
    pthread_t thread;
    char told[ROSTER_TEXT_MAX + 96];
    char problem[ROSTER_TEXT_MAX];   /* why the leader had no link to it, when last asked */
    char client[EXPLAIN_CLIENT_MAX]; /* where it serves clients; "": not known */
};

static void progress_tell(struct progress *p, const struct ensemble_view_server *best)
{
    char text[sizeof p->told] = "";
    const struct ensemble_view_member *m = NULL;
    for (size_t i = 0; i < best->members_count; i++) {
        m = best->members[i].id == p->id ? &best->members[i] : m;
    }
    if (m == NULL) {
        snprintf(text, sizeof text, "not a member yet");
    } else if (!m->linked) {
        snprintf(text, sizeof text, "no link to it: %s",
                 m->problem[0] != '\0' ? m->problem : "is it running?");
    } else if (m->snapshot_total > 0) {
        snprintf(text, sizeof text, "takes over a snapshot, %" PRIu64 " of %" PRIu64 " KiB",
                 m->snapshot_sent >> 10, m->snapshot_total >> 10);
    } else if (m->voter) {
        snprintf(text, sizeof text, "votes");
    } else {
        snprintf(text, sizeof text, "has %" PRIu64 " of %" PRIu64 " log entries", m->match_index,
                 best->last);
    }
    if (m != NULL) {
        memcpy(p->problem, m->problem, sizeof p->problem);
    }
    if (strcmp(text, p->told) != 0) {
        memcpy(p->told, text, sizeof text);
        fprintf(stderr, "server %" PRIu64 ": %s\n", ensemble_view_number(p->id), text);
    }
}

/* Asks the leader how far the member got, and prints that. */
static void progress_look(struct progress *p)
{
    struct ensemble_view roster;
    if (ensemble_view_gather(MEMBERS_USAGE.name, &p->options, ASK_MS, &roster) == 0) {
        const struct ensemble_view_server *best = ensemble_view_best(&roster);
        if (best != NULL && best->id == best->leader && !atomic_load(&p->stop)) {
            progress_tell(p, best);
        }
    }
    ensemble_view_finish(&roster);
}

static void *progress_run(void *arg)
{
    struct progress *p = arg;
    while (!atomic_load(&p->stop)) {
        progress_look(p);
        (void)usleep(LOOK_MS * 1000);
    }
    return NULL;
}

static int tell_config(const struct conclave_reply *reply, bool as_json)
{
    struct json j;
    if (!as_json) {
        printf("%.*s\n", (int)reply->data_len,
               reply->data_len > 0 ? (const char *)reply->data : "");
        return 0;
    }
    json_line_begin(&j);
    json_member_text(&j, "config", slice_make(reply->data, reply->data_len));
    return json_line_print(&j, stdout);
}

static int tell_failure(int error, int64_t timeout_ms)
{
    static const struct {
        int error;
        int exit_code;
        const char *text;
    } FAILURES[] = {
        {CONCLAVE_NO_AUTH, CLI_EXIT_AUTH,
         "not permitted (NO_AUTH): this needs write permission on " CONFIG_NODE
         ", e.g. the superuser's: --auth digest:super:PASSWORD"},
        {CONCLAVE_RECONFIG_DISABLED, CLI_EXIT_CONFIG, "the servers have reconfigEnabled=false"},
        {CONCLAVE_UNIMPLEMENTED, CLI_EXIT_CONFIG,
         "this is a standalone server: to grow it into an ensemble, list server.N lines in its "
         "configuration"},
        {CONCLAVE_NEW_CONFIG_NO_QUORUM, CLI_EXIT_FAILED,
         "not done, and the members are as before (NEW_CONFIG_NO_QUORUM): a server that was to vote "
         "is not running, cannot be reached by the leader, or did not catch up"},
        {CONCLAVE_RECONFIG_IN_PROGRESS, CLI_EXIT_FAILED,
         "another change of the members is under way, maybe that of a command that was ended "
         "(RECONFIG_IN_PROGRESS): the servers complete it or take it back; see \"conclave members "
         "list\", and try again in a minute"},
        {CONCLAVE_CONNECTION_LOSS, CLI_EXIT_FAILED,
         "the connection was lost before the answer (CONNECTION_LOSS): the servers complete the "
         "change or take it back; see \"conclave members list\", and try again if it is not there"},
        {CONCLAVE_BAD_VERSION, CLI_EXIT_FAILED,
         "the configuration has changed meanwhile: see its version with \"conclave get " CONFIG_NODE
         "\""},
    };
    for (size_t i = 0; i < sizeof FAILURES / sizeof FAILURES[0]; i++) {
        if (FAILURES[i].error == error) {
            fprintf(stderr, "conclave members: %s\n", FAILURES[i].text);
            return FAILURES[i].exit_code;
        }
    }
    if (error != CONCLAVE_OPERATION_TIMEOUT && error != CONCLAVE_REQUEST_TIMEOUT) {
        return fail(MEMBERS_USAGE.name, NULL, error);
    }
    fprintf(stderr,
            "conclave members: not done within %" PRId64 " s; the servers continue, and undo it if "
            "it cannot be completed: see \"conclave members list\"\n",
            timeout_ms / 1000);
    return CLI_EXIT_TIMEOUT;
}

/* Carries it out, and prints the progress of the member `watched` (0: none). */
static int reconfig_run(const struct members_options *options, struct conclave_client *client,
                        const struct conclave_reconfig *reconfig, uint64_t watched,
                        const char *client_address)
{
    struct conclave_op op = {.size = sizeof op,
                             .type = CONCLAVE_OP_RECONFIG,
                             .reconfig = reconfig,
                             .timeout_ms = options->common.timeout_ms};
    struct conclave_reply *reply = NULL;
    struct progress progress = {.options = options->common, .id = watched};
    snprintf(progress.client, sizeof progress.client, "%s", client_address);
    atomic_init(&progress.stop, false);
    bool told =
        watched != 0 && pthread_create(&progress.thread, NULL, progress_run, &progress) == 0;
    int error = conclave_call(client, &op, &reply);
    if (told) {
        atomic_store(&progress.stop, true);
        pthread_join(progress.thread, NULL);
        atomic_store(&progress.stop, false);
    }
    if (error == 0 && watched != 0 && progress.told[0] == '\0') {
        progress_look(&progress); /* it was done before the first look */
    }
    int code = error == 0 ? 0 : tell_failure(error, options->common.timeout_ms);
    if (error == CONCLAVE_NEW_CONFIG_NO_QUORUM && watched != 0) {
        explain_failure(&options->common, ensemble_view_number(watched), progress.problem,
                        progress.client);
    }
    if (error == 0 && tell_config(reply, options->common.json) != 0) {
        code = CLI_EXIT_IO;
    }
    conclave_reply_free(reply);
    return code;
}

int members_add(const struct members_options *options, const struct operands *operands)
{
    char line[LINE_MAX_LEN];
    const char *text = operands->words[1];
    const char *given = strncmp(text, "server.", 7) == 0 ? text + 7 : text;
    const char *equal = strchr(given, '=');
    char id[16];
    int64_t number;
    if (equal == NULL || (size_t)(equal - given) >= sizeof id || strlen(given) > LINE_MAX_LEN / 2) {
        return usage_error(&MEMBERS_USAGE, "add wants ID=HOST:PORT:PORT;CLIENT, not \"%s\"", text);
    }
    snprintf(id, sizeof id, "%.*s", (int)(equal - given), given);
    if (!integer_parse(id, 0, 255, &number)) {
        return usage_error(&MEMBERS_USAGE, "\"%s\" is no id from 0 to 255", id);
    }
    size_t servers = strcspn(given, ";");
    if (options->observer && strstr(given, ":observer") == NULL) {
        snprintf(line, sizeof line, "server.%.*s:observer%s", (int)servers, given, given + servers);
    } else {
        snprintf(line, sizeof line, "server.%s", given);
    }
    struct conclave_client *client;
    struct conclave_reconfig reconfig = {
        .size = sizeof reconfig, .joining = line, .config_version = options->version};
    int code = connection_open(MEMBERS_USAGE.name, &options->common, NULL, NULL, &client);
    if (code == 0) {
        char address[EXPLAIN_CLIENT_MAX];
        explain_client(line, address);
        explain_before(&options->common, (uint64_t)number, address);
        code = reconfig_run(options, client, &reconfig, ensemble_view_id(number), address);
        connection_close(client);
    }
    return code;
}

/* The line of a member in a configuration's text, or NULL. */
static const char *find_line(const char *config, const char *id)
{
    char start[32];
    snprintf(start, sizeof start, "server.%s=", id);
    for (const char *at = config; at != NULL; at = strchr(at, '\n'), at += at != NULL) {
        if (strncmp(at, start, strlen(start)) == 0) {
            return at;
        }
    }
    return NULL;
}

/* The configuration's text, to be freed, in which all ids have a line. 0, or the exit code of a printed error. */
static int read_config(struct conclave_client *client, char *const *ids, int n_ids, char **ret)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, CONFIG_NODE, 0);
    struct conclave_reply *reply = NULL;
    int error = conclave_call(client, &op, &reply);
    int code = 0;
    *ret = error == 0 ? strndup(reply->data_len > 0 ? reply->data : "", reply->data_len) : NULL;
    conclave_reply_free(reply);
    if (*ret == NULL) {
        return fail(MEMBERS_USAGE.name, CONFIG_NODE, error != 0 ? error : CONCLAVE_ENOMEM);
    }
    for (int i = 0; code == 0 && i < n_ids; i++) {
        if (find_line(*ret, ids[i]) == NULL) {
            fprintf(stderr,
                    "conclave members: there is no member %s; see \"conclave members list\"\n",
                    ids[i]);
            code = CLI_EXIT_FAILED;
        }
    }
    if (code != 0) {
        free(*ret);
        *ret = NULL;
    }
    return code;
}

/* OPTIONS_GO_ON when all are ids of members, as the configuration writes them. */
static int check_ids(char *const *ids, int count)
{
    for (int i = 0; i < count; i++) {
        int64_t number;
        char text[16];
        if (!integer_parse(ids[i], 0, 255, &number)) {
            return usage_error(&MEMBERS_USAGE, "\"%s\" is no id from 0 to 255", ids[i]);
        }
        snprintf(text, sizeof text, "%" PRId64, number);
        if (strcmp(text, ids[i]) != 0) {
            return usage_error(&MEMBERS_USAGE, "write the id \"%s\" as %s", ids[i], text);
        }
    }
    return OPTIONS_GO_ON;
}

int members_remove(const struct members_options *options, const struct operands *operands)
{
    char list[256] = ""; /* holds as many ids as the command takes */
    size_t len = 0;
    char *config = NULL;
    struct conclave_client *client;
    struct conclave_reconfig reconfig = {
        .size = sizeof reconfig, .leaving = list, .config_version = options->version};
    char *const *ids = &operands->words[1];
    int count = operands->count - 1;
    int code = check_ids(ids, count);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    for (int i = 0; i < count; i++) {
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", i > 0 ? "," : "", ids[i]);
    }
    code = connection_open(MEMBERS_USAGE.name, &options->common, NULL, NULL, &client);
    if (code != 0) {
        return code;
    }
    code = read_config(client, ids, count, &config);
    code = code == 0 ? reconfig_run(options, client, &reconfig, 0, "") : code;
    free(config);
    connection_close(client);
    return code;
}

/* A member's line of the configuration, with the role participant. */
static void line_as_voter(const char *at, char out[LINE_MAX_LEN])
{
    int line = (int)strcspn(at, "\n");
    const char *role = strstr(at, ":observer");
    int before = role != NULL && role < at + line ? (int)(role - at) : line;
    const char *rest = before < line ? role + strlen(":observer") : at + line;
    snprintf(out, LINE_MAX_LEN, "%.*s%s%.*s", before, at, before < line ? ":participant" : "",
             (int)(at + line - rest), rest);
}

int members_promote(const struct members_options *options, const struct operands *operands)
{
    struct conclave_client *client;
    char line[LINE_MAX_LEN];
    char *config = NULL;
    char *id = operands->words[1];
    int code = check_ids(&id, 1);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    code = connection_open(MEMBERS_USAGE.name, &options->common, NULL, NULL, &client);
    if (code != 0) {
        return code;
    }
    code = read_config(client, &id, 1, &config);
    if (code == 0) {
        struct conclave_reconfig reconfig = {
            .size = sizeof reconfig, .joining = line, .config_version = options->version};
        line_as_voter(find_line(config, id), line);
        code = reconfig_run(options, client, &reconfig,
                            ensemble_view_id((int64_t)strtoull(id, NULL, 10)), "");
    }
    free(config);
    connection_close(client);
    return code;
}
