#include "support/peer_node.h"

#include "base/clock.h"
#include "base/endian.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { NUMBERED = 7 /* the channel of numbered frames */ };

static void on_link(void *ctx, uint64_t id, bool up)
{
    struct replica *n = ctx;
    assert_true(id < NODE_PEERS);
    assert_int_equal(n->links[id], !up); /* never reported twice */
    n->links[id] = up;
    n->ups[id] += up;
    n->sent[id] = n->next[id] = 0;
    if (n->on_link != NULL) {
        n->on_link(n, id, up);
    }
}

static void on_hello(void *ctx, const struct peer_identity *who)
{
    struct replica *n = ctx;
    assert_true(who->id < NODE_PEERS);
    n->hellos[who->id]++;
    n->who[who->id] = *who;
}

static void on_message(void *ctx, uint64_t from, uint8_t channel, struct slice bytes)
{
    struct replica *n = ctx;
    assert_true(n->links[from]);
    n->frames++;
    n->bytes += bytes.len;
    if (channel == NUMBERED) {
        assert_true(bytes.len >= 8);
        assert_int_equal(get_be64(bytes.data), n->next[from]);
        n->next[from]++;
    }
    if (n->on_message != NULL) {
        n->on_message(n, from, channel, bytes);
    }
}

static void on_refused(void *ctx, const char *address, const char *reason, uint64_t count)
{
    struct replica *n = ctx;
    assert_true(count > 0);
    assert_true(address[0] != '\0');
    n->refusals++;
    snprintf(n->refused, sizeof n->refused, "%s", reason != NULL ? reason : "");
}

void node_init(struct replica *n, uint64_t id)
{
    memset(n, 0, sizeof *n);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(uv_loop_init(&n->loop), 0);
    n->id = id;
    n->reservation = -1;
    n->address = (struct net_address){.host = "127.0.0.1"};
    n->options = (struct peer_options){.identity = {.id = id}, .silence_ms = 60000};
}

/* Takes a port that no other process gets while this node is stopped: a socket that is bound, and does not listen, lets
 * only a socket with SO_REUSEADDR that asks for this very port in. */
static void reserve_port(struct replica *n)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    n->reservation = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(n->reservation >= 0);
    assert_int_equal(setsockopt(n->reservation, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)),
                     0);
    assert_int_equal(bind(n->reservation, (struct sockaddr *)&sa, len), 0);
    assert_int_equal(getsockname(n->reservation, (struct sockaddr *)&sa, &len), 0);
    n->address.port = ntohs(sa.sin_port);
}

void node_start(struct replica *n)
{
    const struct peer_callbacks callbacks = {
        .ctx = n, .link = on_link, .hello = on_hello, .message = on_message, .refused = on_refused};
    char *text = NULL;
    if (n->reservation < 0) {
        reserve_port(n);
    }
    n->options.listen = &n->address;
    n->options.n_listen = 1;
    uv_update_time(&n->loop);
    if (peers_open(&n->loop, &n->options, &callbacks, &n->peers, &text) != 0) {
        fail_msg("%s", text);
    }
    assert_true(peers_address(n->peers, 0, &n->address));
    n->closed = false;
}

static void on_closed(void *ctx)
{
    struct replica *n = ctx;
    n->closed = true;
}

void node_stop(struct replica *n)
{
    if (n->peers == NULL) {
        return;
    }
    peers_close(n->peers, on_closed, n);
    n->peers = NULL;
    while (!n->closed) {
        uv_run(&n->loop, UV_RUN_ONCE);
    }
    memset(n->links, 0, sizeof n->links);
    memset(n->sent, 0, sizeof n->sent);
    memset(n->next, 0, sizeof n->next);
}

void node_finish(struct replica *n)
{
    node_stop(n);
    if (n->reservation >= 0) {
        close(n->reservation);
    }
    uv_run(&n->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&n->loop), 0);
}

void nodes_introduce(struct replica *const nodes[], size_t n)
{
    struct peer_member members[NODE_PEERS];
    for (size_t i = 0; i < n; i++) {
        members[i] = (struct peer_member){nodes[i]->id, &nodes[i]->address, 1};
    }
    for (size_t i = 0; i < n; i++) {
        if (nodes[i]->peers != NULL) {
            assert_int_equal(peers_set_members(nodes[i]->peers, members, n), 0);
        }
    }
}

bool nodes_run(struct replica *const nodes[], size_t n, int ms, bool (*done)(void *ctx), void *ctx)
{
    int64_t end = clock_monotonic_ms(clock_system()) + ms;
    do {
        for (size_t i = 0; i < n; i++) {
            uv_run(&nodes[i]->loop, UV_RUN_NOWAIT);
            if (nodes[i]->peers != NULL) {
                peers_turn(nodes[i]->peers);
            }
        }
        if (done != NULL && done(ctx)) {
            return true;
        }
        struct timespec pause = {.tv_nsec = 200000};
        nanosleep(&pause, NULL);
    } while (clock_monotonic_ms(clock_system()) < end);
    return done != NULL && done(ctx);
}

bool nodes_linked(struct replica *const nodes[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            if (i != j && !nodes[i]->links[nodes[j]->id]) {
                return false;
            }
        }
    }
    return true;
}

int node_send(struct replica *n, uint64_t to, size_t size)
{
    struct buf b;
    buf_init(&b, 0);
    buf_append_i64(&b, (int64_t)n->sent[to]);
    if (size > b.len) {
        assert_int_equal(buf_reserve(&b, size - b.len), 0);
        memset(b.data + b.len, 'x', size - b.len);
        b.len = size;
    }
    int rc = peers_send(n->peers, to, NUMBERED, &b);
    n->sent[to] += rc == 0;
    return rc;
}
