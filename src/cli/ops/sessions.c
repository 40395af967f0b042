/* conclave sessions: the sessions of the ensemble, and their servers. */
#include "cli/ops/sessions.h"

#include "base/json.h"
#include "cli/common/connection.h"
#include "cli/common/ensemble_view.h"
#include "cli/common/server_query.h"
#include "cli/ops/admin_request.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row ROWS[] = {
    {"admin", 0, OPTION_STRING, offsetof(struct sessions_options, admin), "HOST:PORT",
     "Ask the HTTP port of one server instead; why, kill: of these servers, separated by commas."},
    {.name = NULL},
};

enum sessions_verb { SESSIONS_LIST, SESSIONS_WHY, SESSIONS_KILL };
static const struct command_verb VERBS[] = {
    {"list", 0, 0, false}, {"why", 1, 1, false}, {"kill", 1, 1, false}, {.name = NULL}};

const struct command_usage SESSIONS_USAGE = {
    .name = "sessions",
    .forms =
        (const char *const[]){"[list] [options]", "why ID [options]", "kill ID [options]", NULL},
    .about =
        "Shows the sessions of the ensemble, why one ended, and ends one.\n"
        "\n"
        "  list  the sessions; also without a verb\n"
        "  why   why a session ended: what each server noted, and the cause\n"
        "  kill  ends a session, as an administrator (--auth)\n"
        "\n"
        "The list shows:\n"
        "\n"
        "  server      id of the server that its client is connected to; 0: of none since\n"
        "              the servers were started\n"
        "  timeout     session timeout\n"
        "  idle        time since the last sign of life that the leader knows of, to the\n"
        "              tick\n"
        "  ephemerals  nodes that go with it\n"
        "  client      address of the client\n"
        "\n"
        "For the list, all servers are asked by the four-letter word sess, which they must allow: "
        "\"4lw.commands.whitelist=srvr,sess\". With --admin one is asked, by HTTP: the clients "
        "of the others are not shown then, and the idle times are right only where the leader "
        "is asked.\n"
        "\n"
        "why and kill ask the HTTP ports of all servers, because each knows only its part.",
    .rows = ROWS,
    .more = "With --json: {\"sessions\":[{\"id\",\"server\",\"timeout_ms\",\"idle_ms\","
            "\"ephemerals\",\"client\"}]}; why: {\"session\",\"cause\",\"verdict\",\"lives\","
            "\"servers\"}; kill: {\"session\",\"lives\"}.\n",
    .client = true,
    .verbs = VERBS,
    .first_verb_default = true,
};

enum { FIELDS = 6 };

struct listed_session {
    char *fields
        [FIELDS]; /* id, server, timeout, idle, ephemerals, client; in the text of the answer */
};

struct shown_sessions {
    struct listed_session *items;
    size_t count;
    uint64_t more; /* left out by the server */
};

/* Reads an answer, whose text it cuts. False when memory is out. */
static bool list_read(struct shown_sessions *l, struct buf *text)
{
    server_query_clean(text);
    char *at = buf_cstr(text) != NULL ? (char *)text->data : NULL;
    size_t lines = 0;
    for (size_t i = 0; i < text->len; i++) {
        lines += text->data[i] == '\n';
    }
    l->items = calloc(lines + 1, sizeof *l->items);
    if (at == NULL || l->items == NULL) {
        return false;
    }
    while (at != NULL && *at != '\0') {
        char *line = strsep(&at, "\n");
        struct listed_session *s = &l->items[l->count];
        size_t n = 0;
        while (line != NULL && n < FIELDS) {
            s->fields[n++] = strsep(&line, "\t");
        }
        l->count += n == FIELDS && strncmp(s->fields[0], "0x", 2) == 0;
        if (n == 2 && strcmp(s->fields[0], "more") == 0) {
            l->more = strtoull(s->fields[1], NULL, 10);
        }
    }
    return true;
}

/* The servers list sessions by id, so both are in one order. */
static void add_clients(struct shown_sessions *to, const struct shown_sessions *from)
{
    size_t k = 0;
    for (size_t i = 0; i < from->count; i++) {
        while (k < to->count && strcmp(to->items[k].fields[0], from->items[i].fields[0]) != 0) {
            k++;
        }
        if (k == to->count) {
            k = 0; /* it is new, or gone: the next one is looked for from the front */
        } else if (strcmp(from->items[i].fields[5], "-") != 0) {
            to->items[k].fields[5] = from->items[i].fields[5];
        }
    }
}

static int sessions_list_json(const struct shown_sessions *l)
{
    static const char *const KEYS[FIELDS] = {"id",      "server",     "timeout_ms",
                                             "idle_ms", "ephemerals", "client"};
    struct json j;
    json_list_begin(&j, "sessions");
    for (size_t i = 0; i < l->count; i++) {
        char *const *fields = l->items[i].fields;
        json_object_begin(&j);
        for (size_t k = 0; k < FIELDS; k++) {
            json_key(&j, KEYS[k]);
            if (k == 0 || (k == FIELDS - 1 && strcmp(fields[k], "-") != 0)) {
                json_string(&j, fields[k]);
            } else if (k == FIELDS - 1) {
                json_null(&j);
            } else {
                json_int(&j, strtoll(fields[k], NULL, 10));
            }
        }
        json_object_end(&j);
    }
    return json_list_print(&j, stdout);
}

static int sessions_list_print(const struct shown_sessions *l, bool as_json)
{
    if (as_json) {
        return sessions_list_json(l);
    }
    printf("%-18s %6s %9s %9s %10s  %s\n", "SESSION", "SERVER", "TIMEOUT", "IDLE", "EPHEMERALS",
           "CLIENT");
    for (size_t i = 0; i < l->count; i++) {
        char *const *fields = l->items[i].fields;
        printf("%-18s %6s %7sms %7sms %10s  %s\n", fields[0], fields[1], fields[2], fields[3],
               fields[4], fields[5]);
    }
    if (l->more > 0) {
        printf("... and %" PRIu64 " more\n", l->more);
    }
    return 0;
}

static int show(struct shown_sessions *l, bool as_json)
{
    int error = sessions_list_print(l, as_json);
    return error == 0 ? 0 : fail(SESSIONS_USAGE.name, NULL, error);
}

static int by_http(const struct sessions_options *options)
{
    struct shown_sessions list = {0};
    struct buf body;
    unsigned status = 0;
    int code = admin_request(SESSIONS_USAGE.name, &options->common, options->admin, "GET",
                             "/sessions", NULL, &status, &body);
    if (code == 0 && status != 200) {
        fprintf(stderr, "conclave %s: %s: the server does not serve (HTTP %u)\n",
                SESSIONS_USAGE.name, options->admin, status);
        code = CLI_EXIT_FAILED;
    } else if (code == 0) {
        code = list_read(&list, &body) ? show(&list, options->common.json)
                                       : fail(SESSIONS_USAGE.name, NULL, CONCLAVE_ENOMEM);
    }
    free(list.items);
    buf_finish(&body);
    return code;
}

/* Asks those that serve; the leader's list comes first and counts, the others' clients are added. */
static int ask_servers(const struct sessions_options *options, const struct ensemble_view *r,
                       const struct ensemble_view_server *best)
{
    struct server_query *asks = calloc(r->count, sizeof *asks);
    struct shown_sessions *lists = calloc(r->count, sizeof *lists);
    size_t n = 0;
    size_t first = 0;
    int code = asks == NULL || lists == NULL ? fail(SESSIONS_USAGE.name, NULL, CONCLAVE_ENOMEM) : 0;
    for (size_t i = 0; code == 0 && i < r->count; i++) {
        const struct ensemble_view_server *s = &r->servers[i];
        if (s->serves && server_query_address(&asks[n], s->address)) {
            first = s == best ? n : first;
            asks[n++].question = slice_str("sess");
        }
    }
    if (n > 0) {
        code = server_query_all(SESSIONS_USAGE.name, &options->common, options->common.timeout_ms,
                                asks, n);
    }
    for (size_t i = 0; code == 0 && i < n; i++) {
        struct slice s = buf_slice(&asks[i].answer);
        if (s.len >= 21 && memcmp(s.data, "sess is not executed ", 21) == 0) {
            fprintf(stderr,
                    "conclave %s: %s does not allow it; set 4lw.commands.whitelist=srvr,sess, or "
                    "ask its HTTP port with --admin HOST:PORT\n",
                    SESSIONS_USAGE.name, asks[i].host);
            code = CLI_EXIT_AUTH;
        } else if (!list_read(&lists[i], &asks[i].answer)) {
            code = fail(SESSIONS_USAGE.name, NULL, CONCLAVE_ENOMEM);
        }
    }
    for (size_t i = 0; code == 0 && i < n; i++) {
        if (i != first) {
            add_clients(&lists[first], &lists[i]);
        }
    }
    code = code == 0 ? show(&lists[first], options->common.json) : code;
    for (size_t i = 0; i < n; i++) {
        free(lists[i].items);
        buf_finish(&asks[i].answer);
    }
    free(asks);
    free(lists);
    return code;
}

static int by_words(const struct sessions_options *options)
{
    struct ensemble_view roster;
    int code = ensemble_view_gather(SESSIONS_USAGE.name, &options->common,
                                    options->common.timeout_ms, &roster);
    const struct ensemble_view_server *best = code == 0 ? ensemble_view_best(&roster) : NULL;
    if (code == 0 && (best == NULL || !best->serves || best->brief)) {
        fprintf(stderr, "conclave %s: no Conclave server serves; see \"conclave status\"\n",
                SESSIONS_USAGE.name);
        code = CLI_EXIT_UNAVAILABLE;
    } else
        code = code == 0 ? ask_servers(options, &roster, best) : code;
    ensemble_view_finish(&roster);
    return code;
}

int command_sessions(int argc, char **argv)
{
    struct sessions_options options = {.common = COMMON_OPTIONS_INIT};
    struct operands operands;
    int code = options_parse(&SESSIONS_USAGE, argc, argv, &options, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    switch ((enum sessions_verb)operands.verb) {
    case SESSIONS_LIST:
        code = options.admin != NULL ? by_http(&options) : by_words(&options);
        break;
    case SESSIONS_WHY:
        code = session_why(&options, operands.words[1]);
        break;
    case SESSIONS_KILL:
        code = session_kill(&options, operands.words[1]);
        break;
    }
    return output_end(SESSIONS_USAGE.name, code);
}
