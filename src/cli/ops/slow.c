/*
 * conclave slow: the slow requests of all servers, and where their time went. Each server keeps its own clients' requests,
 * so all are asked by HTTP.
 */
#include "base/json.h"
#include "cli/common/connection.h"
#include "cli/common/ensemble_view.h"
#include "cli/common/server_query.h"
#include "cli/ops/admin_request.h"
#include "cli/ops/slow_answer.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct slow_options {
    struct common_options common;
    const char *admin;
    int64_t count;
};

static const struct option_row ROWS[] = {
    {"admin", 0, OPTION_STRING, offsetof(struct slow_options, admin), "HOST:PORT",
     "Ask these HTTP ports, separated by commas, instead of those that the servers name."},
    {"count", 'n', OPTION_INTEGER, offsetof(struct slow_options, count), "N",
     "Show at most this many requests, the newest ones (20)."},
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "slow",
    .forms = (const char *const[]){"[options]", NULL},
    .about =
        "Shows requests that took longer than slowlog.threshold (100 ms), the newest first, and "
        "where their time went:\n"
        "\n"
        "  queue    waiting for their batch to leave, or behind earlier writes\n"
        "  forward  from a follower to the leader, and back in the log\n"
        "  disk     until the server has synced the log\n"
        "  quorum   until a majority has it\n"
        "  apply    applying it, or answering a read\n"
        "  send     until the client has taken the answer\n"
        "\n"
        "The HTTP ports of all servers are asked, because each knows the requests of its own "
        "clients.",
    .rows = ROWS,
    .more = "With --json: {\"servers\":[the answers of /slow, or {\"admin\",\"error\"}]}.\n",
    .client = true,
};

enum { SLOW_ASKED_MAX = 32, SLOW_SHOWN = 20 };

struct slow_port {
    char admin[ROSTER_ADDRESS_MAX];
    char *why; /* why there is no answer; NULL: there is one */
    struct slow_answer answer;
};

struct slow_view {
    const struct slow_options *options;
    struct slow_port ports[SLOW_ASKED_MAX];
    size_t count;
    struct slow_rows rows;
};

static struct slow_port *slow_add(struct slow_view *v, const char *admin, size_t len)
{
    if (v->count == SLOW_ASKED_MAX) {
        return NULL;
    }
    struct slow_port *p = &v->ports[v->count++];
    *p = (struct slow_port){.answer = {.server = -1}};
    snprintf(p->admin, sizeof p->admin, "%.*s", (int)len, admin);
    return p;
}

/* A server that listens on every address is asked at the one by which it was reached. */
static void slow_add_server(struct slow_view *v, const struct ensemble_view_server *s)
{
    struct server_query client;
    struct server_query admin;
    struct slow_port *p = slow_add(v, s->admin, strlen(s->admin));
    if (p == NULL) {
        return;
    }
    if (!s->answered) {
        (void)text_fail(&p->why, 0, "%s: %s", s->address, s->state);
    } else if (!server_query_address(&admin, s->admin) ||
               !server_query_address(&client, s->address)) {
        (void)text_fail(&p->why, 0, "%s: it reports no HTTP port; name it with --admin HOST:PORT",
                        s->address);
    } else if (strcmp(admin.host, "0.0.0.0") == 0 || strcmp(admin.host, "::") == 0) {
        bool v6 = strchr(client.host, ':') != NULL;
        snprintf(p->admin, sizeof p->admin, v6 ? "[%.240s]:%u" : "%.240s:%u", client.host,
                 (unsigned)admin.port);
    }
}

static int slow_find(struct slow_view *v)
{
    const struct slow_options *o = v->options;
    struct ensemble_view view;
    if (o->admin != NULL) {
        for (const char *at = o->admin; *at != '\0'; at += *at == ',') {
            size_t len = strcspn(at, ",");
            (void)slow_add(v, at, len);
            at += len;
        }
        return 0;
    }
    int code = ensemble_view_gather(USAGE.name, &o->common, o->common.timeout_ms, &view);
    for (size_t i = 0; code == 0 && i < view.count; i++) {
        slow_add_server(v, &view.servers[i]);
    }
    ensemble_view_finish(&view);
    return code;
}

static void slow_take(struct slow_view *v, struct slow_port *p, struct server_query *ask)
{
    unsigned status = 0;
    struct buf body;
    buf_init(&body, 0);
    if (ask->error != 0) {
        (void)text_fail(&p->why, 0, "%s: %s", p->admin, ask->why);
    } else if (!admin_request_read(&ask->answer, &status, &body)) {
        (void)text_fail(&p->why, 0, "%s: this is not the HTTP port of a server", p->admin);
    } else if (status != 200 || !slow_answer_read(body.data, body.len, &p->answer, &v->rows)) {
        (void)text_fail(&p->why, 0, "%s: it does not answer this (HTTP %u)", p->admin, status);
        slow_answer_finish(&p->answer);
    }
    buf_finish(&body);
}

static int slow_ask(struct slow_view *v)
{
    struct server_query asks[SLOW_ASKED_MAX];
    struct buf questions[SLOW_ASKED_MAX];
    size_t n = 0;
    int code = 0;
    for (size_t i = 0; i < v->count; i++) {
        struct slow_port *p = &v->ports[i];
        asks[n] = (struct server_query){.index = i};
        if (p->why != NULL) {
            continue;
        }
        if (!server_query_address(&asks[n], p->admin)) {
            (void)text_fail(&p->why, 0, "\"%s\" is not HOST:PORT", p->admin);
            continue;
        }
        buf_init(&questions[n], 0);
        buf_printf(&questions[n], "GET /slow HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n",
                   p->admin);
        code = buf_ok(&questions[n]) ? code : fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
        asks[n].question = buf_slice(&questions[n]);
        n++;
    }
    if (code == 0 && n > 0) {
        code = server_query_all(USAGE.name, &v->options->common, v->options->common.timeout_ms,
                                asks, n);
    }
    for (size_t i = 0; i < n; i++) {
        if (code == 0) {
            slow_take(v, &v->ports[asks[i].index], &asks[i]);
        }
        buf_finish(&asks[i].answer);
        buf_finish(&questions[i]);
    }
    return code;
}

static int slow_print_json(const struct slow_view *v)
{
    struct json j;
    json_list_begin(&j, "servers");
    for (size_t i = 0; i < v->count; i++) {
        const struct slow_port *p = &v->ports[i];
        if (p->answer.json != NULL) {
            json_ready(&j, slice_str(p->answer.json));
            continue;
        }
        json_object_begin(&j);
        json_member_string(&j, "admin", p->admin);
        json_member_string(&j, "error", p->why != NULL ? p->why : "out of memory");
        json_object_end(&j);
    }
    int error = json_list_print(&j, stdout);
    return error == 0 ? 0 : fail(USAGE.name, NULL, error);
}

static int by_newest(const void *a, const void *b)
{
    const struct slow_row *x = a;
    const struct slow_row *y = b;
    return (x->at_ms < y->at_ms) - (x->at_ms > y->at_ms);
}

static void slow_print_row(const struct slow_row *r)
{
    time_t seconds = (time_t)(r->at_ms / 1000);
    struct tm tm;
    char when[32] = "?";
    if (gmtime_r(&seconds, &tm) != NULL) {
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    }
    printf("%s.%03d  %6" PRId64 " %10.1f  %-8s %-12s %-19s %s  %s  (%s)\n", when,
           (int)(r->at_ms % 1000), r->server, r->ms, r->slowest, r->operation, r->session,
           r->client[0] != '\0' ? r->client : "-", r->path[0] != '\0' ? r->path : "-", r->parts);
}

static int slow_print_text(struct slow_view *v)
{
    for (size_t i = 0; i < v->count; i++) {
        const struct slow_port *p = &v->ports[i];
        if (p->why != NULL) {
            fprintf(stderr, "conclave slow: %s\n", p->why);
        } else if (p->answer.threshold_ms == 0) {
            fprintf(stderr, "conclave slow: server %" PRId64 " keeps none: slowlog.threshold=0\n",
                    p->answer.server);
        }
    }
    if (v->rows.count == 0) {
        puts("no slow requests");
        return 0;
    }
    qsort(v->rows.items, v->rows.count, sizeof *v->rows.items, by_newest);
    printf("%-23s  %6s %10s  %-8s %-12s %-19s %s\n", "TIME (UTC)", "SERVER", "MS", "SLOWEST",
           "OPERATION", "SESSION", "CLIENT  PATH  (PARTS, MS)");
    for (size_t i = 0; i < v->rows.count && (int64_t)i < v->options->count; i++) {
        slow_print_row(&v->rows.items[i]);
    }
    return 0;
}

int command_slow(int argc, char **argv)
{
    struct slow_options options = {.common = COMMON_OPTIONS_INIT, .count = SLOW_SHOWN};
    struct slow_view v = {.options = &options};
    struct operands operands;
    int code = options_parse(&USAGE, argc, argv, &options, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    if (options.count < 1) {
        return usage_error(&USAGE, "--count is a number from 1");
    }
    code = slow_find(&v);
    code = code == 0 ? slow_ask(&v) : code;
    if (code == 0) {
        bool any = false;
        code = options.common.json ? slow_print_json(&v) : slow_print_text(&v);
        for (size_t i = 0; i < v.count; i++) {
            any = any || v.ports[i].answer.json != NULL;
        }
        code = code == 0 && !any ? CLI_EXIT_UNAVAILABLE : code;
    }
    for (size_t i = 0; i < v.count; i++) {
        slow_answer_finish(&v.ports[i].answer);
        free(v.ports[i].why);
    }
    free(v.rows.items);
    return code;
}
