/*
 * Input of the admin port: bytes of HTTP requests, through the HTTP library and the routes, to a server that runs;
 * four-letter words; the headers that reveal a forged request. The first byte of the input chooses.
 * Invariants: nothing asserts; each answer is HTTP; a name that the port does not know is refused.
 *
 * The server is one for all inputs: it has a data folder of its own, which is removed at the end of the process.
 */
#define _GNU_SOURCE /* SOCK_NONBLOCK */
#include "admin/four_letter_words.h"
#include "admin/http/cross_site.h"
#include "admin/http/http_routes.h"
#include "base/log.h"
#include "fuzz/cost.h"
#include "fuzz/input.h"

#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TURNS = 6, PIECES_MAX = 4, ANSWER_ROOM = 1 << 16 };

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
    (void)info;
    (void)type;
    (void)where;
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
    (void)s;
    *(bool *)ctx = true;
}

static void on_failed(void *ctx, int error, const char *text)
{
    (void)ctx;
    (void)error;
    (void)text;
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

/* All that has been answered; false at the end of the connection. */
static bool take_answer(int fd, struct buf *answer)
{
    static char room[ANSWER_ROOM];
    ssize_t n;
    while ((n = recv(fd, room, sizeof room, 0)) > 0) {
        buf_append(answer, room, (size_t)n);
    }
    return n < 0;
}

static void on_closed(void *ctx)
{
    --*(int *)ctx;
}

struct stage {
    struct admission admission;
    struct site site;
    struct http *http;
    int open; /* parts that are to be closed */
};

static void stage_open(struct stage *s, uint8_t how)
{
    const char *reason = NULL;
    server_service(server)->skip_acl = how % 2 == 0;
    options.change_by_get = how / 2 % 2 == 0;
    s->site = (struct site){.view = &view};
    admission_init(&s->site.admission);
    s->site.transfer = (struct transfer){.view = &view, .admission = &s->site.admission};
    s->site.backup = backup_create(&loop, &view, &s->site.admission);
    s->site.tokens = tokens_create(&loop, &view);
    must(s->site.backup != NULL && s->site.tokens != NULL);
    must(http_open(&loop, NULL, 1000, how / 4 % 4 != 3 ? routes_answer : routes_answer_metrics,
                   &s->site, &s->http, &reason) == 0);
    s->open = 3;
}

static void stage_close(struct stage *s)
{
    backup_close(s->site.backup, on_closed, &s->open);
    tokens_close(s->site.tokens, on_closed, &s->open);
    http_close(s->http, on_closed, &s->open);
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

static void fuzz_request(struct slice bytes)
{
    const struct net_address peer = {.host = "127.0.0.1", .port = 4711};
    struct input in = input_make(bytes);
    struct stage s;
    struct buf answer;
    int ends[2];
    uint8_t how = take(&in);
    struct slice subject = how >= 128 ? slice_str("CN=ops,O=example") : slice_str("");
    buf_init(&answer, 0);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    stage_open(&s, how);
    must(http_adopt(s.http, ends[0], &peer, subject) == 0);
    turns();
    bool open = true;
    for (int i = how / 16 % PIECES_MAX; open && !input_ended(&in); i--) {
        struct slice piece = i > 0 ? take_bytes(&in, 255) : take_rest(&in);
        open = send(ends[1], piece.data, piece.len, MSG_NOSIGNAL) == (ssize_t)piece.len;
        turns();
        open = take_answer(ends[1], &answer) && open;
    }
    must(buf_ok(&answer) && (answer.len == 0 || memcmp(answer.data, "HTTP/1.", 7) == 0));
    cost_stands_for(answer.len);
    stage_close(&s);
    close(ends[1]);
    buf_finish(&answer);
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
    static const fuzz_target targets[] = {fuzz_request, fuzz_request, fuzz_word, fuzz_headers};
    if (server == NULL) {
        cost_pause();
        start_server();
        cost_resume();
    }
    fuzz_choose(targets, sizeof targets / sizeof targets[0], data, size);
}
