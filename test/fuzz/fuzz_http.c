/*
 * Input of the admin port: bytes of HTTP requests, through the exchange and the routes, to a server that runs; the same
 * bytes through the parser alone, whole and in pieces; four-letter words; the headers that reveal a forged request. The
 * first byte of the input chooses.
 * Invariants: nothing asserts; each answer is HTTP; where the bytes are cut changes nothing of what the parser reads; a name
 * that the port does not know is refused.
 *
 * The server is one for all inputs: it has a data folder of its own, which is removed at the end of the process.
 */
#define _GNU_SOURCE /* nftw */
#include "admin/four_letter_words.h"
#include "admin/http/cross_site.h"
#include "admin/http/http_parser.h"
#include "admin/http/http_routes.h"
#include "base/log.h"
#include "cluster/server_options.h"
#include "daemon/server.h"
#include "front/service.h"
#include "fuzz/cost.h"
#include "fuzz/input.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TURNS = 6, PIECES_MAX = 4 };

const struct cost_bound fuzz_bound = {
    .cpu_us = 200000,
    .cpu_ns_per_byte = 5000,
    .alloc_bytes = 8 << 20,
    .alloc_per_byte = 200,
};

/* --- the server ----------------------------------------------------------------------------------- */

static uv_loop_t loop;
static struct server *server;
static struct admin_options options;
static struct view view;
static char folder[512];

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    return remove(path);
}

static void on_server_closed(void *ctx)
{
    *(bool *)ctx = true;
}

static void stop_server(void)
{
    bool closed = false;
    server_close(server, on_server_closed, &closed);
    while (!closed) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    must(uv_loop_close(&loop) == 0);
    (void)nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void on_ready(void *ctx, struct server *s)
{
    *(bool *)ctx = true;
}

static void on_failed(void *ctx, int error, const char *text)
{
    abort();
}

static void start_server(void)
{
    static bool ready;
    struct server_options o = server_options_default();
    const struct server_callbacks callbacks = {&ready, on_ready, on_failed};
    char *text = NULL;
    const char *tmp = getenv("TMPDIR");
    log_set_level(LOG_ERROR);
    (void)snprintf(folder, sizeof folder, "%s/conclave-fuzz-XXXXXX", tmp != NULL ? tmp : "/tmp");
    must(mkdtemp(folder) != NULL && uv_loop_init(&loop) == 0);
    o.data_dir = folder;
    (void)snprintf(o.listen.host, sizeof o.listen.host, "127.0.0.1");
    o.listen.port = 0;
    o.command_options |= COMMAND_FENCING;
    must(server_open(&loop, &o, &callbacks, &server, &text) == 0);
    while (!ready || server_why_not_ready(server) != NULL) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    options = admin_options_default();
    options.restore = true;
    options.words = "*";
    options.allowed_hosts = "ops.example, other.example";
    view = (struct view){.options = &options, .server = server, .has_http = true};
    must(atexit(stop_server) == 0);
}

/* --- requests ------------------------------------------------------------------------------------- */

static void on_closed(void *ctx)
{
    --*(int *)ctx;
}

struct stage {
    struct admission admission;
    struct site site;
    struct http_answerer answerer;
    struct http_exchange *exchange;
    int open; /* parts that are to be closed */
};

static void on_output(void *ctx)
{
    (void)ctx; /* the pieces are fetched in any case */
}

static void stage_open(struct stage *s, uint8_t how)
{
    const struct http_holder holder = {.output = on_output,
                                       .peer = "127.0.0.1",
                                       .subject = slice_str(how >= 128 ? "CN=ops,O=example" : "")};
    server_service(server)->skip_acl = how % 2 == 0;
    options.change_by_get = how / 2 % 2 == 0;
    s->site = (struct site){.view = &view};
    admission_init(&s->site.admission);
    s->site.transfer = (struct transfer){.view = &view, .admission = &s->site.admission};
    s->site.drain = (struct drain_route){.view = &view, .admission = &s->site.admission};
    s->site.sessions = (struct session_route){.view = &view, .admission = &s->site.admission};
    s->site.console = (struct console_site){.view = &view};
    options.console = false; /* its streams never end */
    s->site.backup = backup_create(&loop, &view, &s->site.admission);
    s->site.tokens = tokens_create(&loop, &view);
    must(s->site.backup != NULL && s->site.tokens != NULL);
    s->answerer = (struct http_answerer){
        .fn = how / 4 % 4 != 3 ? routes_answer : routes_answer_metrics, .ctx = &s->site};
    s->exchange = http_exchange_create(&s->answerer, &holder);
    must(s->exchange != NULL);
    s->open = 2;
}

static void stage_close(struct stage *s)
{
    backup_close(s->site.backup, on_closed, &s->open);
    tokens_close(s->site.tokens, on_closed, &s->open);
    http_exchange_destroy(s->exchange);
    while (s->open > 0) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    admission_finish(&s->site.admission);
}

static void turns(void)
{
    for (int i = 0; i < TURNS; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
}

/* Gives it a piece, and takes what it answers. False: it is the last answer, or one that takes longer. */
static bool stage_take(struct stage *s, struct slice piece, struct buf *answer)
{
    while (piece.len > 0) {
        size_t taken = http_exchange_take(s->exchange, piece);
        size_t before;
        piece = slice_make(piece.data + taken, piece.len - taken);
        turns();
        do {
            before = answer->len;
            if (!http_exchange_fill(s->exchange, answer)) {
                return false;
            }
        } while (answer->len > before);
        enum http_exchange_state state = http_exchange_state(s->exchange);
        if (state != HTTP_HEAD && state != HTTP_BODY) {
            return false;
        }
    }
    return true;
}

static void fuzz_request(struct slice bytes)
{
    struct input in = input_make(bytes);
    struct stage s;
    struct buf answer;
    uint8_t how = take(&in);
    buf_init(&answer, 0);
    stage_open(&s, how);
    bool open = true;
    for (int i = how / 16 % PIECES_MAX; open && !input_ended(&in); i--) {
        open = stage_take(&s, i > 0 ? take_bytes(&in, 255) : take_rest(&in), &answer);
    }
    must(buf_ok(&answer) && (answer.len == 0 || memcmp(answer.data, "HTTP/1.", 7) == 0));
    cost_stands_for(answer.len);
    stage_close(&s);
    buf_finish(&answer);
}

/* All that a parser makes of bytes, as text; `step` at a time. */
static void read_all(struct slice bytes, size_t step, struct buf *out)
{
    struct http_parser p;
    enum http_event event = HTTP_EVENT_MORE;
    http_parser_init(&p);
    for (size_t at = 0; at < bytes.len && event != HTTP_EVENT_FAILED; at += step) {
        struct slice part =
            slice_make(bytes.data + at, bytes.len - at < step ? bytes.len - at : step);
        struct slice piece;
        while ((event = http_parser_read(&p, &part, &piece)) != HTTP_EVENT_MORE &&
               event != HTTP_EVENT_FAILED) {
            if (event == HTTP_EVENT_HEAD) {
                const char *to = http_parser_argument(&p, "to");
                const char *host = http_parser_field(&p, "Host");
                buf_printf(out, "%s %s %s %s %d\n", http_parser_method(&p), http_parser_path(&p),
                           to != NULL ? to : "-", host != NULL ? host : "-", p.keep_alive);
            } else if (event == HTTP_EVENT_BODY) {
                must(piece.len > 0);
                buf_append_slice(out, piece);
            } else {
                buf_append_str(out, "\n");
                http_parser_next(&p);
            }
        }
        must(event == HTTP_EVENT_FAILED || part.len == 0);
    }
    if (event == HTTP_EVENT_FAILED) {
        buf_printf(out, "%u %s\n", p.status, p.problem);
    }
    http_parser_finish(&p);
}

static void fuzz_parser(struct slice bytes)
{
    struct input in = input_make(bytes);
    struct buf whole;
    struct buf parts;
    size_t step = 1 + take(&in);
    struct slice rest = take_rest(&in);
    buf_init(&whole, 0);
    buf_init(&parts, 0);
    read_all(rest, rest.len + 1, &whole);
    read_all(rest, step, &parts);
    must(slice_equal(buf_slice(&whole), buf_slice(&parts)));
    buf_finish(&whole);
    buf_finish(&parts);
}

/* --- words and headers ---------------------------------------------------------------------------- */

static void fuzz_word(struct slice bytes)
{
    struct buf out;
    buf_init(&out, 0);
    int used = four_letter_answer(&view, bytes, &out);
    must(used == -1 || used == 0 || used == 4 || used == 12); /* -1: of stmk too little came */
    must(used <= (int)bytes.len && buf_ok(&out) && (used > 0 || out.len == 0));
    cost_stands_for(out.len);
    buf_finish(&out);
}

static char *header_text(struct input *in)
{
    return take(in) % 4 == 0 ? NULL : take_text(in, 80);
}

static void fuzz_headers(struct slice bytes)
{
    struct input in = input_make(bytes);
    char *host = header_text(&in), *origin = header_text(&in), *site = header_text(&in);
    const struct http_request request = {
        .method = "GET", .path = "/", .host = host, .origin = origin, .fetch_site = site};
    const char *why = forgery_reason(&options, &request);
    if (host != NULL && why == NULL && strspn(host, "gh.") > 0 &&
        host[strspn(host, "gh.")] == '\0') {
        abort(); /* neither an address nor a name of the port */
    }
    must(origin == NULL || why != NULL || (host != NULL && strlen(origin) > strlen(host)));
    free(host);
    free(origin);
    free(site);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    static const fuzz_target targets[] = {fuzz_request, fuzz_parser, fuzz_word, fuzz_headers};
    if (server == NULL) {
        cost_pause();
        start_server();
        cost_resume();
    }
    fuzz_choose(targets, sizeof targets / sizeof targets[0], data, size);
}
