/*
 * conclave slow: the slow requests of all servers, and where their time went. Each server keeps its own clients' requests,
 * so all are asked by HTTP.
 */
#include "base/json.h"
#include "cli/common/connection.h"
#include "cli/ops/admin_ports.h"
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

enum { SLOW_SHOWN = 20 };

struct slow_view {
    const struct slow_options *options;
    struct admin_ports ports;
    struct slow_answer answers[ADMIN_PORTS_MAX];
    struct slow_rows rows;
};

static void slow_take(void *ctx, struct admin_port *p, unsigned status, struct buf *body)
{
    struct slow_view *v = ctx;
    struct slow_answer *answer = &v->answers[p - v->ports.items];
    if (status != 200 || !slow_answer_read(body->data, body->len, answer, &v->rows)) {
        (void)text_fail(&p->why, 0, "%s: it does not answer this (HTTP %u)", p->address, status);
        slow_answer_finish(answer);
    }
}

static int slow_print_json(const struct slow_view *v)
{
    struct json j;
    json_list_begin(&j, "servers");
    for (size_t i = 0; i < v->ports.count; i++) {
        const struct admin_port *p = &v->ports.items[i];
        if (v->answers[i].json != NULL) {
            json_ready(&j, slice_str(v->answers[i].json));
            continue;
        }
        json_object_begin(&j);
        json_member_string(&j, "admin", p->address);
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
    for (size_t i = 0; i < v->ports.count; i++) {
        const struct admin_port *p = &v->ports.items[i];
        if (p->why != NULL) {
            fprintf(stderr, "conclave slow: %s\n", p->why);
        } else if (v->answers[i].threshold_ms == 0) {
            fprintf(stderr, "conclave slow: server %" PRId64 " keeps none: slowlog.threshold=0\n",
                    v->answers[i].server);
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
    code = admin_ports_find(USAGE.name, &options.common, options.admin, &v.ports);
    if (code == 0) {
        code = admin_ports_ask(USAGE.name, &options.common, &v.ports, "GET", "/slow", NULL,
                               slow_take, &v);
    }
    if (code == 0) {
        bool any = false;
        code = options.common.json ? slow_print_json(&v) : slow_print_text(&v);
        for (size_t i = 0; i < v.ports.count; i++) {
            any = any || v.answers[i].json != NULL;
        }
        code = code == 0 && !any ? CLI_EXIT_UNAVAILABLE : code;
    }
    for (size_t i = 0; i < v.ports.count; i++) {
        slow_answer_finish(&v.answers[i]);
    }
    admin_ports_finish(&v.ports);
    free(v.rows.items);
    return code;
}
