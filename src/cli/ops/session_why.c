/*
 * conclave sessions why and kill. Each server knows only its part of a session's end, so all servers are asked by HTTP;
 * of their causes the one with the greatest weight counts.
 */
#include "base/json.h"
#include "cli/common/connection.h"
#include "cli/ops/admin_ports.h"
#include "cli/ops/admin_request.h"
#include "cli/ops/session_answer.h"
#include "cli/ops/sessions.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 50, LOOKS_MAX = 10 };

struct inquiry {
    const struct sessions_options *options;
    uint64_t id;
    struct admin_ports ports;
    struct session_answer answers[ADMIN_PORTS_MAX]; /* one per port; json is NULL: there is none */
};

/* --- the questions ---------------------------------------------------------------------------- */

static void take_answer(void *ctx, struct admin_port *p, unsigned status, struct buf *body)
{
    struct inquiry *q = ctx;
    struct session_answer *a = &q->answers[p - q->ports.items];
    if (status != 200 || !session_answer_read(body->data, body->len, a)) {
        (void)text_fail(&p->why, 0, "%s: it does not answer this (HTTP %u)", p->address, status);
        session_answer_finish(a);
    } else if (p->server >= 0 && p->server != a->server) {
        (void)text_fail(&p->why, 0, "%s: another server, %" PRId64 ", answers there", p->address,
                        a->server);
        session_answer_finish(a);
    } else {
        p->server = a->server;
    }
}

/* Asks all that have no fault yet. */
static int ask_servers(struct inquiry *q)
{
    char target[64];
    for (size_t i = 0; i < q->ports.count; i++) {
        session_answer_finish(&q->answers[i]);
    }
    snprintf(target, sizeof target, "/sessions/why?id=0x%" PRIx64, q->id);
    return admin_ports_ask(SESSIONS_USAGE.name, &q->options->common, &q->ports, "GET", target, NULL,
                           take_answer, q);
}

static void inquiry_finish(struct inquiry *q)
{
    for (size_t i = 0; i < q->ports.count; i++) {
        session_answer_finish(&q->answers[i]);
    }
    admin_ports_finish(&q->ports);
}

static int inquiry_begin(struct inquiry *q, const struct sessions_options *options, const char *id)
{
    char *end = NULL;
    *q = (struct inquiry){.options = options};
    errno = 0;
    q->id = strtoull(id, &end, 16);
    if (errno != 0 || end == id || *end != '\0' || q->id == 0) {
        return usage_error(&SESSIONS_USAGE, "\"%s\" is no session's id, such as 0x1a2b3c", id);
    }
    int code = admin_ports_find(SESSIONS_USAGE.name, &options->common, options->admin, &q->ports);
    return code == 0 ? ask_servers(q) : code;
}

static const char *fault_of(const struct admin_port *p)
{
    return p->why != NULL ? p->why : "out of memory";
}

static bool has_answer(const struct inquiry *q, size_t i)
{
    return q->answers[i].json != NULL;
}

/* --- why -------------------------------------------------------------------------------------- */

/* The record that says most; NULL: there is none. */
static const struct session_answer *best_record(const struct inquiry *q)
{
    const struct session_answer *best = NULL;
    for (size_t i = 0; i < q->ports.count; i++) {
        const struct session_answer *a = &q->answers[i];
        if (has_answer(q, i) && a->recorded && (best == NULL || a->weight > best->weight)) {
            best = a;
        }
    }
    return best;
}

/* Whether this server knows that the session is over. */
static bool knows_end(const struct session_answer *a)
{
    return !a->lives && a->recorded && strcmp(a->cause, "lives") != 0 &&
           strcmp(a->cause, "moved") != 0;
}

/* A server that the others do not reach learns of an end later. */
static bool lives(const struct inquiry *q)
{
    bool any = false;
    for (size_t i = 0; i < q->ports.count; i++) {
        if (has_answer(q, i) && knows_end(&q->answers[i])) {
            return false;
        }
        any = any || (has_answer(q, i) && q->answers[i].lives);
    }
    return any;
}

/* Whether a server says that the session lives, and another one that it is over. */
static bool disagree(const struct inquiry *q)
{
    bool any = false;
    for (size_t i = 0; i < q->ports.count; i++) {
        any = any || (has_answer(q, i) && q->answers[i].lives);
    }
    return any && !lives(q);
}

static const char *verdict_of(const struct inquiry *q, const struct session_answer *best)
{
    return lives(q)       ? "The session is alive."
           : best != NULL ? best->verdict
                          : "No server that answered remembers this session.";
}

static const char *cause_of(const struct inquiry *q, const struct session_answer *best)
{
    return lives(q) ? "lives" : best != NULL ? best->cause : NULL;
}

static int print_json(const struct inquiry *q)
{
    const struct session_answer *best = best_record(q);
    struct json j;
    json_line_begin(&j);
    json_member_hex(&j, "session", (int64_t)q->id);
    json_member_string_or_null(&j, "cause", cause_of(q, best));
    json_member_string(&j, "verdict", verdict_of(q, best));
    json_member_bool(&j, "lives", lives(q));
    json_key(&j, "servers");
    json_array_begin(&j);
    for (size_t i = 0; i < q->ports.count; i++) {
        const struct admin_port *p = &q->ports.items[i];
        if (has_answer(q, i)) {
            json_ready(&j, slice_str(q->answers[i].json));
            continue;
        }
        json_object_begin(&j);
        if (p->server >= 0) {
            json_member_int(&j, "server", p->server);
        } else {
            json_member_null(&j, "server");
        }
        json_member_string(&j, "error", fault_of(p));
        json_object_end(&j);
    }
    json_array_end(&j);
    int error = json_line_print(&j, stdout);
    return error == 0 ? 0 : fail(SESSIONS_USAGE.name, NULL, error);
}

/* The lines of notes, indented. */
static void print_notes(const char *notes)
{
    for (const char *at = notes; *at != '\0';) {
        int len = (int)strcspn(at, "\n");
        printf("  %.*s\n", len, at);
        at += len + (at[len] == '\n');
    }
}

static void print_server(const struct inquiry *q, size_t i)
{
    const struct session_answer *r = &q->answers[i];
    time_t seconds = (time_t)(r->at_ms / 1000);
    struct tm tm;
    char when[40] = "";
    if (!has_answer(q, i)) {
        printf("\nNo answer: %s\n", fault_of(&q->ports.items[i]));
        return;
    }
    printf("\nServer %" PRId64 " (%s)", r->server, r->mode);
    if (!r->recorded) {
        puts(!r->recording ? ": keeps no records (maxEndedSessions=0)."
             : r->lives    ? ": the session is alive."
                           : ": remembers nothing of this session.");
        return;
    }
    if (gmtime_r(&seconds, &tm) != NULL) {
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    }
    printf(", %s.%03d UTC: %s\n  %s\n", when, (int)(r->at_ms % 1000), r->cause, r->verdict);
    print_notes(r->notes);
}

static int print_text(const struct inquiry *q)
{
    const struct session_answer *best = best_record(q);
    const char *cause = cause_of(q, best);
    printf("0x%" PRIx64 ": %s\n%s\n", q->id, cause != NULL ? cause : "unknown",
           verdict_of(q, best));
    for (size_t i = 0; i < q->ports.count; i++) {
        print_server(q, i);
    }
    return 0;
}

int session_why(const struct sessions_options *options, const char *id)
{
    struct inquiry q;
    int code = inquiry_begin(&q, options, id);
    /* The client's server, which knows most, may learn of the end a moment later than others. */
    for (int looks = 0; code == 0 && disagree(&q) && looks < LOOKS_MAX; looks++) {
        (void)usleep(LOOK_MS * 1000);
        code = ask_servers(&q);
    }
    if (code == 0) {
        code = options->common.json ? print_json(&q) : print_text(&q);
    }
    if (code == 0 && cause_of(&q, best_record(&q)) == NULL) {
        bool any = false;
        for (size_t i = 0; i < q.ports.count; i++) {
            any = any || has_answer(&q, i);
        }
        code = any ? CLI_EXIT_FAILED : CLI_EXIT_UNAVAILABLE;
    }
    inquiry_finish(&q);
    return code;
}

/* --- kill ------------------------------------------------------------------------------------- */

static int kill_at(const struct inquiry *q, const char *address)
{
    char target[64];
    char header[ADMIN_AUTH_MAX];
    struct buf body;
    unsigned status = 0;
    snprintf(target, sizeof target, "/sessions/kill?id=0x%" PRIx64, q->id);
    int code = admin_request(SESSIONS_USAGE.name, &q->options->common, address, "POST", target,
                             admin_authorization(&q->options->common, header), &status, &body);
    if (code == 0 && status != 200) {
        code = admin_request_refused(SESSIONS_USAGE.name, address, status, &body);
    }
    buf_finish(&body);
    return code;
}

/* Waits until the server has applied the end. */
static int wait_end(const struct inquiry *q, const struct admin_port *at)
{
    struct inquiry one = {.options = q->options, .id = q->id, .ports = {.count = 1}};
    struct admin_port *p = &one.ports.items[0];
    *p = *at;
    assert(p->why == NULL);
    int code = 0;
    for (int64_t waited = 0; code == 0 && waited < q->options->common.timeout_ms;
         waited += LOOK_MS) {
        code = ask_servers(&one);
        if (code == 0 && has_answer(&one, 0) && !one.answers[0].lives) {
            inquiry_finish(&one);
            return 0;
        }
        free(p->why);
        p->why = NULL;
        (void)usleep(LOOK_MS * 1000);
    }
    inquiry_finish(&one);
    fprintf(stderr,
            "conclave sessions: the session did not end in time; see \"conclave status\", and try "
            "again\n");
    return CLI_EXIT_TIMEOUT;
}

int session_kill(const struct sessions_options *options, const char *id)
{
    struct inquiry q;
    int code = inquiry_begin(&q, options, id);
    const struct admin_port *at = NULL;
    bool any = false;
    for (size_t i = 0; code == 0 && at == NULL && i < q.ports.count; i++) {
        any = any || has_answer(&q, i);
        at = has_answer(&q, i) && q.answers[i].lives ? &q.ports.items[i] : NULL;
    }
    if (code == 0 && at == NULL) {
        fprintf(stderr,
                any ? "conclave sessions: there is no session 0x%" PRIx64 "\n"
                    : "conclave sessions: no server answers about 0x%" PRIx64
                      "; name an HTTP port with --admin HOST:PORT\n",
                q.id);
        code = any ? CLI_EXIT_FAILED : CLI_EXIT_UNAVAILABLE;
    }
    code = code == 0 ? kill_at(&q, at->address) : code;
    code = code == 0 ? wait_end(&q, at) : code;
    if (code == 0 && !options->common.json) {
        printf("0x%" PRIx64 " ended\n", q.id);
    } else if (code == 0) {
        struct json j;
        json_line_begin(&j);
        json_member_hex(&j, "session", (int64_t)q.id);
        json_member_bool(&j, "lives", false);
        int error = json_line_print(&j, stdout);
        code = error == 0 ? 0 : fail(SESSIONS_USAGE.name, NULL, error);
    }
    inquiry_finish(&q);
    return code;
}
