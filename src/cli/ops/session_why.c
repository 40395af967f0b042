/*
 * conclave sessions why and kill. Each server knows only its part of a session's end, so all servers are asked by HTTP;
 * of their causes the one with the greatest weight counts.
 */
#include "base/json.h"
#include "cli/common/connection.h"
#include "cli/common/ensemble_view.h"
#include "cli/common/server_query.h"
#include "cli/ops/admin_request.h"
#include "cli/ops/session_answer.h"
#include "cli/ops/sessions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ASKED_MAX = 32, LOOK_MS = 50, LOOKS_MAX = 10 };

/* One server. */
struct asked {
    char admin[ROSTER_ADDRESS_MAX]; /* HOST:PORT of its HTTP port; "": none */
    int64_t server;                 /* its number; -1: unknown */
    char *why;                      /* why there is no answer; NULL: none is known */
    struct session_answer answer;   /* its json is NULL: there is none */
};

struct inquiry {
    const struct sessions_options *options;
    uint64_t id;
    struct asked asked[ASKED_MAX];
    size_t count;
};

/* --- which servers ---------------------------------------------------------------------------- */

static struct asked *add_asked(struct inquiry *q, const char *admin, size_t len, int64_t server)
{
    if (q->count == ASKED_MAX) {
        return NULL;
    }
    struct asked *a = &q->asked[q->count++];
    *a = (struct asked){.server = server};
    snprintf(a->admin, sizeof a->admin, "%.*s", (int)len, admin);
    return a;
}

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

/* The HTTP port as this machine can reach it: a server names the address that it listens on. */
static void add_member(struct inquiry *q, const struct ensemble_view_server *s)
{
    struct server_query client;
    struct server_query admin;
    struct asked *a = add_asked(q, s->admin, strlen(s->admin),
                                s->id != 0 ? (int64_t)ensemble_view_number(s->id) : -1);
    if (a == NULL) {
        return;
    }
    if (!s->answered) {
        (void)text_fail(&a->why, 0, "%s: %s", s->address, s->state);
    } else if (s->admin[0] == '\0' || !server_query_address(&admin, s->admin) ||
               !server_query_address(&client, s->address)) {
        (void)text_fail(&a->why, 0, "%s: it reports no HTTP port", s->address);
    } else if (strcmp(admin.host, "0.0.0.0") == 0 || strcmp(admin.host, "::") == 0) {
        bool v6 = strchr(client.host, ':') != NULL;
        snprintf(a->admin, sizeof a->admin, v6 ? "[%.256s]:%u" : "%.256s:%u", client.host,
                 (unsigned)admin.port);
    } else if (is_loopback(admin.host) && !is_loopback(client.host)) {
        (void)text_fail(
            &a->why, 0,
            "%s: its HTTP port serves only its own machine (%s): run this command there, or set "
            "admin.serverAddress",
            s->address, s->admin);
    }
}

static int find_servers(struct inquiry *q)
{
    const struct sessions_options *o = q->options;
    struct ensemble_view roster;
    if (o->admin != NULL) {
        for (const char *at = o->admin; *at != '\0'; at += *at == ',') {
            size_t len = strcspn(at, ",");
            (void)add_asked(q, at, len, -1);
            at += len;
        }
        return 0;
    }
    int code = ensemble_view_gather(SESSIONS_USAGE.name, &o->common, o->common.timeout_ms, &roster);
    for (size_t i = 0; code == 0 && i < roster.count; i++) {
        add_member(q, &roster.servers[i]);
    }
    ensemble_view_finish(&roster);
    return code;
}

/* --- the questions ---------------------------------------------------------------------------- */

static void take_answer(struct asked *a, struct server_query *ask)
{
    unsigned status = 0;
    struct buf body;
    buf_init(&body, 0);
    session_answer_finish(&a->answer);
    if (ask->error != 0) {
        (void)text_fail(&a->why, 0, "%s: %s", a->admin, ask->why);
    } else if (!admin_request_read(&ask->answer, &status, &body)) {
        (void)text_fail(&a->why, 0, "%s: this is not the HTTP port of a server", a->admin);
    } else if (status != 200 || !session_answer_read(body.data, body.len, &a->answer)) {
        (void)text_fail(&a->why, 0, "%s: it does not answer this (HTTP %u)", a->admin, status);
        session_answer_finish(&a->answer);
    } else if (a->server >= 0 && a->server != a->answer.server) {
        (void)text_fail(&a->why, 0, "%s: another server, %" PRId64 ", answers there", a->admin,
                        a->answer.server);
        session_answer_finish(&a->answer);
    } else {
        a->server = a->answer.server;
    }
    buf_finish(&body);
}

/* Asks all that have no fault yet. */
static int ask_servers(struct inquiry *q)
{
    struct server_query asks[ASKED_MAX];
    struct buf questions[ASKED_MAX];
    size_t n = 0;
    int code = 0;
    for (size_t i = 0; i < q->count; i++) {
        struct asked *a = &q->asked[i];
        asks[n] = (struct server_query){.index = i};
        if (a->why != NULL || !server_query_address(&asks[n], a->admin)) {
            if (a->why == NULL) {
                (void)text_fail(&a->why, 0, "\"%s\" is not HOST:PORT", a->admin);
            }
            continue;
        }
        buf_init(&questions[n], 0);
        buf_printf(&questions[n],
                   "GET /sessions/why?id=0x%" PRIx64
                   " HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n",
                   q->id, a->admin);
        code = buf_ok(&questions[n]) ? code : fail(SESSIONS_USAGE.name, NULL, CONCLAVE_ENOMEM);
        asks[n].question = buf_slice(&questions[n]);
        n++;
    }
    if (code == 0 && n > 0) {
        code = server_query_all(SESSIONS_USAGE.name, &q->options->common,
                                q->options->common.timeout_ms, asks, n);
    }
    for (size_t i = 0; i < n; i++) {
        if (code == 0) {
            take_answer(&q->asked[asks[i].index], &asks[i]);
        }
        buf_finish(&asks[i].answer);
        buf_finish(&questions[i]);
    }
    return code;
}

static void inquiry_finish(struct inquiry *q)
{
    for (size_t i = 0; i < q->count; i++) {
        session_answer_finish(&q->asked[i].answer);
        free(q->asked[i].why);
    }
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
    int code = find_servers(q);
    return code == 0 ? ask_servers(q) : code;
}

static const char *fault_of(const struct asked *a)
{
    return a->why != NULL ? a->why : "out of memory";
}

static bool has_answer(const struct asked *a)
{
    return a->answer.json != NULL;
}

/* --- why -------------------------------------------------------------------------------------- */

/* The record that says most; NULL: there is none. */
static const struct session_answer *best_record(const struct inquiry *q)
{
    const struct session_answer *best = NULL;
    for (size_t i = 0; i < q->count; i++) {
        const struct session_answer *a = &q->asked[i].answer;
        if (has_answer(&q->asked[i]) && a->recorded && (best == NULL || a->weight > best->weight)) {
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
    for (size_t i = 0; i < q->count; i++) {
        if (has_answer(&q->asked[i]) && knows_end(&q->asked[i].answer)) {
            return false;
        }
        any = any || (has_answer(&q->asked[i]) && q->asked[i].answer.lives);
    }
    return any;
}

/* Whether a server says that the session lives, and another one that it is over. */
static bool disagree(const struct inquiry *q)
{
    bool any = false;
    for (size_t i = 0; i < q->count; i++) {
        any = any || (has_answer(&q->asked[i]) && q->asked[i].answer.lives);
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
    for (size_t i = 0; i < q->count; i++) {
        const struct asked *a = &q->asked[i];
        if (has_answer(a)) {
            json_ready(&j, slice_str(a->answer.json));
            continue;
        }
        json_object_begin(&j);
        if (a->server >= 0) {
            json_member_int(&j, "server", a->server);
        } else {
            json_member_null(&j, "server");
        }
        json_member_string(&j, "error", fault_of(a));
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

static void print_server(const struct asked *a)
{
    const struct session_answer *r = &a->answer;
    time_t seconds = (time_t)(r->at_ms / 1000);
    struct tm tm;
    char when[40] = "";
    if (!has_answer(a)) {
        printf("\nNo answer: %s\n", fault_of(a));
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
    for (size_t i = 0; i < q->count; i++) {
        print_server(&q->asked[i]);
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
        for (size_t i = 0; i < q.count; i++) {
            any = any || has_answer(&q.asked[i]);
        }
        code = any ? CLI_EXIT_FAILED : CLI_EXIT_UNAVAILABLE;
    }
    inquiry_finish(&q);
    return code;
}

/* --- kill ------------------------------------------------------------------------------------- */

static int kill_at(const struct inquiry *q, const struct asked *a)
{
    char target[64];
    char header[ADMIN_AUTH_MAX];
    struct buf body;
    unsigned status = 0;
    snprintf(target, sizeof target, "/sessions/kill?id=0x%" PRIx64, q->id);
    int code = admin_request(SESSIONS_USAGE.name, &q->options->common, a->admin, "POST", target,
                             admin_authorization(&q->options->common, header), &status, &body);
    if (code == 0 && status != 200) {
        code = admin_request_refused(SESSIONS_USAGE.name, a->admin, status, &body);
    }
    buf_finish(&body);
    return code;
}

/* Waits until the server has applied the end. */
static int wait_end(struct inquiry *q, struct asked *a)
{
    struct inquiry one = {.options = q->options, .id = q->id, .count = 1};
    one.asked[0] = (struct asked){.server = a->server};
    memcpy(one.asked[0].admin, a->admin, sizeof a->admin);
    int code = 0;
    for (int64_t waited = 0; code == 0 && waited < q->options->common.timeout_ms;
         waited += LOOK_MS) {
        code = ask_servers(&one);
        if (code == 0 && has_answer(&one.asked[0]) && !one.asked[0].answer.lives) {
            inquiry_finish(&one);
            return 0;
        }
        free(one.asked[0].why);
        one.asked[0].why = NULL;
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
    struct asked *at = NULL;
    bool any = false;
    for (size_t i = 0; code == 0 && at == NULL && i < q.count; i++) {
        any = any || has_answer(&q.asked[i]);
        at = has_answer(&q.asked[i]) && q.asked[i].answer.lives ? &q.asked[i] : NULL;
    }
    if (code == 0 && at == NULL) {
        fprintf(stderr,
                any ? "conclave sessions: there is no session 0x%" PRIx64 "\n"
                    : "conclave sessions: no server answers about 0x%" PRIx64
                      "; name an HTTP port with --admin HOST:PORT\n",
                q.id);
        code = any ? CLI_EXIT_FAILED : CLI_EXIT_UNAVAILABLE;
    }
    code = code == 0 ? kill_at(&q, at) : code;
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
