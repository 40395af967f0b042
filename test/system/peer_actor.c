/*
 * One end of peer links as a process: for peer_test.py.
 *
 *     peer_actor ID PORT... [--secret FILE] [--silence MS]     the Nth port is that of server N
 *
 * Prints a line per event: "listening", "up N", "down N", "refused ADDRESS REASON", "got COUNT
 * BYTES" when a burst is complete. Reads lines: "burst N COUNT SIZE" sends so many numbered frames
 * to N, and says "sent" when the last was taken; "quit" ends it.
 */
#include "base/endian.h"
#include "cluster/links/peer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SERVERS_MAX = 8,
    PER_TURN = 5000, /* frames of a burst in one turn of the loop */
    CHANNEL = 1,
};

struct actor {
    uv_loop_t loop;
    uv_prepare_t turn;
    uv_idle_t busy; /* while a burst is being sent */
    uv_pipe_t input;
    struct peers *peers;
    char line[256]; /* of the input, as far as it came */
    size_t line_len;
    uint64_t to; /* the burst */
    uint64_t count;
    uint64_t sent;
    size_t size;
    uint64_t got; /* frames of the burst that comes in */
    uint64_t got_bytes;
};

static void check(int rc, const char *what)
{
    if (rc != 0) {
        fprintf(stderr, "peer_actor: %s: %d\n", what, rc);
        exit(1);
    }
}

static void on_link(void *ctx, uint64_t id, bool up)
{
    struct actor *a = ctx;
    a->got = a->got_bytes = 0;
    printf("%s %llu\n", up ? "up" : "down", (unsigned long long)id);
}

static void on_hello(void *ctx, const struct peer_identity *who)
{
}

/* Each frame says which it is, and how many they are. */
static void on_message(void *ctx, uint64_t from, uint8_t channel, struct slice bytes)
{
    struct actor *a = ctx;
    check(channel != CHANNEL || bytes.len < 16, "a frame of another kind");
    check(get_be64(bytes.data) != a->got, "a frame out of order");
    a->got++;
    a->got_bytes += bytes.len;
    if (a->got == get_be64(bytes.data + 8)) {
        printf("got %llu %llu\n", (unsigned long long)a->got, (unsigned long long)a->got_bytes);
        a->got = a->got_bytes = 0;
    }
}

static void on_refused(void *ctx, const char *address, const char *reason, uint64_t count)
{
    printf("refused %s %s\n", address, reason != NULL ? reason : "again");
}

static void on_busy(uv_idle_t *idle)
{
    struct actor *a = idle->data;
    for (int i = 0; i < PER_TURN && a->sent < a->count; i++) {
        struct buf b;
        buf_init(&b, 0);
        buf_append_i64(&b, (int64_t)a->sent);
        buf_append_i64(&b, (int64_t)a->count);
        check(buf_reserve(&b, a->size), "memory");
        memset(b.data + b.len, 'x', a->size - b.len);
        b.len = a->size;
        int rc = peers_send(a->peers, a->to, CHANNEL, &b);
        if (rc == CONCLAVE_EBUSY) {
            return; /* again when the other side has taken some */
        }
        check(rc, "peers_send");
        a->sent++;
    }
    if (a->sent == a->count) {
        uv_idle_stop(&a->busy);
        printf("sent\n");
    }
}

static void on_turn(uv_prepare_t *prepare)
{
    struct actor *a = prepare->data;
    peers_turn(a->peers);
}

static void on_line(struct actor *a)
{
    unsigned long long to, count, size;
    if (sscanf(a->line, "burst %llu %llu %llu", &to, &count, &size) == 3 &&
        size >= 16) { /* NOLINT */
        a->to = to;
        a->count = count;
        a->size = size;
        a->sent = 0;
        check(uv_idle_start(&a->busy, on_busy), "uv_idle_start");
    } else if (strcmp(a->line, "quit") == 0) {
        exit(0);
    } else {
        check(1, a->line);
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct actor *a = handle->data;
    *buf = uv_buf_init(a->line + a->line_len, 1);
}

static void on_input(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct actor *a = stream->data;
    if (n < 0) {
        exit(0);
    }
    if (n == 1 && a->line[a->line_len] == '\n') {
        a->line[a->line_len] = '\0';
        a->line_len = 0;
        on_line(a);
    } else if (n == 1) {
        check(++a->line_len == sizeof a->line, "a line too long");
    }
}

static size_t read_secret(const char *path, uint8_t *room, size_t cap)
{
    FILE *file = fopen(path, "r");
    check(file == NULL, path);
    size_t n = fread(room, 1, cap, file);
    check(fclose(file), path);
    return n;
}

static void start(struct actor *a, int argc, char **argv)
{
    static struct net_address hosts[SERVERS_MAX];
    struct peer_member members[SERVERS_MAX];
    const struct peer_callbacks callbacks = {
        .ctx = a, .link = on_link, .hello = on_hello, .message = on_message, .refused = on_refused};
    uint8_t secret[256];
    struct peer_options o = {.identity = {.id = strtoull(argv[1], NULL, 10)}, .n_listen = 1};
    size_t n = 0;
    char *text = NULL;
    for (int i = 2; i < argc && n < SERVERS_MAX; i++) {
        if (strcmp(argv[i], "--secret") == 0 && i + 1 < argc) {
            o.security = PEER_SECURITY_SECRET;
            o.secret = slice_make(secret, read_secret(argv[++i], secret, sizeof secret));
            continue;
        }
        if (strcmp(argv[i], "--silence") == 0 && i + 1 < argc) {
            o.silence_ms = (int)strtol(argv[++i], NULL, 10);
            continue;
        }
        hosts[n] =
            (struct net_address){.host = "127.0.0.1", .port = (uint16_t)strtoul(argv[i], NULL, 10)};
        members[n] = (struct peer_member){.id = n + 1, .hosts = &hosts[n], .n_hosts = 1};
        n++;
    }
    check(o.identity.id < 1 || o.identity.id > n, "the id");
    o.listen = &hosts[o.identity.id - 1];
    int rc = peers_open(&a->loop, &o, &callbacks, &a->peers, &text);
    check(rc, text != NULL ? text : "peers_open");
    check(peers_set_members(a->peers, members, n), "peers_set_members");
}

int main(int argc, char **argv)
{
    static struct actor a;
    check(argc < 3, "usage: peer_actor ID PORT... [--secret FILE] [--silence MS]");
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    check(uv_loop_init(&a.loop), "uv_loop_init");
    start(&a, argc, argv);
    check(uv_prepare_init(&a.loop, &a.turn) | uv_idle_init(&a.loop, &a.busy) |
              uv_pipe_init(&a.loop, &a.input, 0) | uv_pipe_open(&a.input, 0),
          "handles");
    a.turn.data = a.busy.data = a.input.data = &a;
    check(uv_prepare_start(&a.turn, on_turn), "uv_prepare_start");
    check(uv_read_start((uv_stream_t *)&a.input, on_alloc, on_input), "uv_read_start");
    printf("listening\n");
    return uv_run(&a.loop, UV_RUN_DEFAULT);
}
