#include "redis/sentinel/sentinel_server.h"

#include "base/list.h"
#include "base/refusals.h"
#include "net/turns.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    BACKLOG = 128,
    SOCKETS_MAX = 2 * SENTINEL_CLIENTS_MAX, /* with those that are closing */
    LINGERING_MAX = 64,
    LINGER_MS = 1000,
    SWEEP_MS = 200, /* between two looks for late clients */
    KEEP_ALIVE_S = 60,
    SECURING_NICE =
        5, /* nice value of the handshake thread: the session of the manager goes first */
};

struct sentinel_server {
    struct sentinel_server_settings s;
    struct listener *listener; /* NULL: closed */
    struct worker worker;      /* thread for TLS handshakes, while `working` */
    bool working;
    uv_timer_t sweep; /* runs while there are clients */
    struct turns turns;
    struct list clients; /* node of struct sentinel_client; the one that was silent longest first */
    struct list lingering; /* the same for those that read their last answer, oldest first */
    size_t lingering_count;
    size_t client_count; /* with those whose stream is closing */
    struct sentinel_limits limits;
    struct refusals refusals;
    uint64_t last_id;
    int parts; /* listener, timer, turns, worker: not closed yet */
    bool closing;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

struct sentinel_client {
    struct list node;
    struct sentinel_server *server;
    struct stream *stream;
    struct sentinel_session session;
    struct turn turn; /* to take more bytes */
    struct buf out;   /* not taken by the stream yet */
    struct sentinel_share share;
    bool throttled;    /* its network asks too often: it is read again when that may ask */
    size_t sending;    /* unsent bytes of the stream at the last sweep */
    uint64_t moved_ms; /* when it last did what was expected of it */
    bool ending;       /* its stream is closing */
    bool lingering;    /* ... when the peer has read everything */
};

/* --- ends */

static void server_part_closed(void *ctx);

static void server_check_gone(struct sentinel_server *server)
{
    if (!server->closing || server->parts > 0 || server->client_count > 0) {
        return;
    }
    /* Connections may use the worker until they are closed, so it closes after them. */
    if (server->working) {
        server->working = false;
        server->parts = 1;
        worker_close(&server->worker, server_part_closed, server);
        return;
    }
    void (*closed)(void *) = server->closed;
    void *ctx = server->closed_ctx;
    assert(list_empty(&server->clients) && list_empty(&server->lingering));
    refusals_finish(&server->refusals, NULL, NULL);
    sentinel_limits_finish(&server->limits);
    free(server);
    if (closed != NULL) {
        closed(ctx);
    }
}

static void server_part_closed(void *ctx)
{
    struct sentinel_server *server = ctx;
    assert(server->parts > 0);
    server->parts--;
    server_check_gone(server);
}

static void server_on_timer_closed(uv_handle_t *handle)
{
    server_part_closed(handle->data);
}

static void sentinel_client_on_closed(void *owner)
{
    struct sentinel_client *c = owner;
    struct sentinel_server *server = c->server;
    assert(c->ending && server->client_count > 0);
    server->client_count--;
    server->lingering_count -= c->lingering;
    list_remove(&c->node);
    sentinel_session_finish(&c->session);
    buf_finish(&c->out);
    free(c);
    server_check_gone(server);
}

/* why: NULL for nothing to tell. */
static void client_tell_refusal(const struct sentinel_client *c, const char *why)
{
    struct sentinel_server *server = c->server;
    if (why != NULL && server->s.refused != NULL &&
        refusals_add(&server->refusals, c->share.name, why, (int64_t)uv_now(server->s.loop), NULL,
                     NULL)) {
        server->s.refused(server->s.backend.ctx, stream_peer(c->stream)->host, why);
    }
}

static void lingering_close(struct sentinel_client *c)
{
    assert(c->lingering);
    c->lingering = false;
    c->server->lingering_count--;
    list_remove(&c->node);
    stream_close(c->stream);
}

static struct sentinel_client *client_at(struct list *node)
{
    return CONTAINER_OF(node, struct sentinel_client, node);
}

static void client_linger(struct sentinel_client *c)
{
    struct sentinel_server *server = c->server;
    if (server->lingering_count ==
        LINGERING_MAX) { /* they must not take the descriptors of others */
        lingering_close(client_at(server->lingering.next));
    }
    c->lingering = true;
    server->lingering_count++;
    list_push_back(&server->lingering, &c->node);
    stream_finish(c->stream, LINGER_MS);
}

/* The stream is freed later, in sentinel_client_on_closed. finish: the peer reads what was sent first. */
static void client_end(struct sentinel_client *c, bool finish)
{
    if (c->ending) {
        return;
    }
    c->ending = true;
    sentinel_limits_leave(&c->server->limits, &c->share);
    list_remove(&c->node);
    turn_drop(&c->turn);
    client_tell_refusal(c, c->session.refusal);
    if (!finish) {
        stream_close(c->stream);
        return;
    }
    client_linger(c);
}

static void client_refuse(struct sentinel_client *c, const char *why)
{
    if (!c->ending) {
        c->session.refusal = c->session.refusal != NULL ? c->session.refusal : why;
        client_end(c, false);
    }
}

/* --- what all use together */

static void client_count(struct sentinel_client *c)
{
    sentinel_limits_count(&c->server->limits, &c->share, c->out.len + stream_sending(c->stream),
                          c->session.channel_count);
}

/* Ends clients until all are within the bounds. Not while the list is walked. */
static void server_enforce(struct sentinel_server *server)
{
    static const char *const why[] = {
        [SENTINEL_EXCESS_UNSENT] = "the clients leave too much unread, those of its address most",
        [SENTINEL_EXCESS_CHANNELS] = "there are too many subscriptions, most of its address",
    };
    enum sentinel_excess excess = sentinel_limits_excess(&server->limits);
    if (excess == SENTINEL_EXCESS_NONE) {
        return;
    }
    LIST_FOREACH (node, &server->clients) { /* the kernel may have sent some meanwhile */
        client_count(client_at(node));
    }
    while ((excess = sentinel_limits_excess(&server->limits)) != SENTINEL_EXCESS_NONE) {
        struct sentinel_client *worst = client_at(server->clients.next);
        LIST_FOREACH (node, &server->clients) {
            struct sentinel_client *c = client_at(node);
            worst = sentinel_limits_worse(&c->share, &worst->share, excess) ? c : worst;
        }
        client_refuse(worst, why[excess]);
    }
}

/* --- bytes */

/* Whether its peer, or the kernel, has all that was written. */
static bool client_has_sent(const struct sentinel_client *c)
{
    return c->out.len == 0 && stream_sending(c->stream) == 0;
}

/* Sends what was written, then reads on in the next turn, waits, or ends. Call it after everything that writes. */
static void client_go_on(struct sentinel_client *c)
{
    if (c->ending) {
        return;
    }
    if (!buf_ok(&c->out) || stream_sending(c->stream) + c->out.len > SENTINEL_UNSENT_MAX) {
        client_refuse(c, "it leaves too much unread");
        return;
    }
    stream_send(c->stream, &c->out);
    if (c->ending) {
        return; /* the connection was broken */
    }
    client_count(c);
    bool sent = client_has_sent(c);
    if (c->session.state == SENTINEL_OVER) {
        if (sent) {
            client_end(c, true);
        }
    } else if (!sent || c->session.state == SENTINEL_WAITING) {
        stream_pause(c->stream); /* no further answers for a client that does not read */
    } else if (stream_paused(c->stream) && !c->throttled) {
        turns_ask(&c->server->turns, &c->turn);
    }
}

static void client_take_turn(struct turn *turn)
{
    struct sentinel_client *c = CONTAINER_OF(turn, struct sentinel_client, turn);
    assert(!c->ending);
    if (client_has_sent(c)) { /* an event may have come meanwhile */
        stream_resume(c->stream);
    }
}

static int64_t server_now_ns(const struct sentinel_server *server)
{
    return (int64_t)uv_now(server->s.loop) * 1000000;
}

static bool client_may_ask(const struct sentinel_client *c)
{
    return sentinel_limits_may_ask(&c->server->limits, &c->share, server_now_ns(c->server));
}

static size_t sentinel_client_on_data(void *owner, struct slice bytes)
{
    struct sentinel_client *c = owner;
    if (c->ending) {
        return bytes.len;
    }
    if (!client_may_ask(c)) {
        c->throttled = true;
        stream_pause(c->stream);
        client_tell_refusal(c, "its address asks too often; its requests wait");
        return 0;
    }
    c->throttled = false;
    size_t taken = sentinel_session_take(&c->session, bytes, &c->out);
    sentinel_limits_asked(&c->server->limits, &c->share, c->session.answered,
                          server_now_ns(c->server));
    if (taken > 0) {
        list_remove(&c->node);
        list_push_back(&c->server->clients, &c->node);
        stream_pause(c->stream); /* once per turn, so that others get theirs */
    }
    client_go_on(c);
    server_enforce(c->server);
    return c->ending ? bytes.len : taken;
}

static void sentinel_client_on_sent(void *owner)
{
    client_go_on(owner);
}

static void sentinel_client_on_ended(void *owner, int error)
{
    struct sentinel_client *c = owner;
    /* A peer that has closed its side only has all answers: as long as some wait, nothing is read, not even its end. */
    client_end(c, error == 0 || stream_tls_problem(c->stream) != NULL);
}

static const struct stream_handler CLIENT_HANDLER = {.data = sentinel_client_on_data,
                                                     .sent = sentinel_client_on_sent,
                                                     .ended = sentinel_client_on_ended,
                                                     .closed = sentinel_client_on_closed};

void sentinel_server_publish(struct sentinel_server *server, const char *channel,
                             const char *message)
{
    LIST_FOREACH (node, &server->clients) {
        struct sentinel_client *c = client_at(node);
        if (c->session.channel_count > 0 && c->session.state != SENTINEL_OVER) {
            sentinel_session_publish(&c->session, channel, message, &c->out);
            client_go_on(c);
        }
    }
    server_enforce(server);
}

void sentinel_server_requested(struct sentinel_server *server, uint64_t session_id, int error)
{
    LIST_FOREACH (node, &server->clients) {
        struct sentinel_client *c = client_at(node);
        if (c->session.id == session_id && c->session.state == SENTINEL_WAITING) {
            sentinel_session_requested(&c->session, error, &c->out);
            client_go_on(c);
            return;
        }
    }
}

/* --- connections */

/* Whether a client has taken too long to log in or to read. */
static bool client_is_late(struct sentinel_client *c, uint64_t now_ms)
{
    size_t sending = stream_sending(c->stream);
    bool in = c->session.logged_in && !stream_in_handshake(c->stream);
    if (in && (sending == 0 || sending != c->sending)) {
        c->moved_ms = now_ms;
    }
    c->sending = sending;
    return now_ms - c->moved_ms >= (uint64_t)c->server->s.patience_ms;
}

static void server_on_sweep(uv_timer_t *timer)
{
    struct sentinel_server *server = timer->data;
    LIST_FOREACH (node, &server->clients) {
        struct sentinel_client *c = client_at(node);
        if (client_is_late(c, uv_now(server->s.loop))) {
            client_refuse(c, c->sending > 0 ? "it reads nothing" : NULL);
        } else if (c->throttled && client_may_ask(c)) {
            c->throttled = false;
            client_go_on(c);
        }
    }
    if (list_empty(&server->clients)) {
        (void)uv_timer_stop(&server->sweep);
    }
}

/* Ends a connection if there are too many: one of the address that has the most, so that an address alone cannot end those of
 * others. */
static void make_room(struct sentinel_server *server)
{
    struct sentinel_client *gone = NULL; /* silent longest, of the largest network */
    if (server->client_count < SENTINEL_CLIENTS_MAX) {
        return;
    }
    LIST_FOREACH (node, &server->clients) {
        struct sentinel_client *c = client_at(node);
        if (gone == NULL || c->share.network->clients > gone->share.network->clients ||
            (c->share.network == gone->share.network && c->session.channel_count == 0 &&
             gone->session.channel_count > 0)) {
            gone = c;
        }
    }
    if (gone != NULL) { /* else all are about to end */
        client_end(gone, false);
    }
}

static void sentinel_on_accepted(void *ctx, struct stream *stream)
{
    struct sentinel_server *server = ctx;
    struct worker *worker = server->working ? &server->worker : NULL;
    bool room = !server->closing && server->client_count < SOCKETS_MAX;
    struct sentinel_client *c = room ? calloc(1, sizeof *c) : NULL;
    if (c == NULL || (server->s.tls != NULL &&
                      stream_use_tls(stream, server->s.tls, STREAM_TLS_ONLY, worker) != 0)) {
        free(c);
        stream_close(stream);
        return;
    }
    make_room(server);
    c->server = server;
    c->stream = stream;
    c->moved_ms = uv_now(server->s.loop);
    buf_init(&c->out, SENTINEL_UNSENT_MAX);
    turn_init(&c->turn, client_take_turn);
    sentinel_session_init(&c->session, &server->s.backend, ++server->last_id);
    list_push_back(&server->clients, &c->node);
    server->client_count++;
    (void)uv_tcp_keepalive((uv_tcp_t *)stream_handle(stream), 1, KEEP_ALIVE_S);
    int rc = stream_start(stream, &CLIENT_HANDLER, c);
    sentinel_limits_join(&server->limits, &c->share, stream_peer(stream)->host);
    if (rc != 0) {
        client_end(c, false);
    } else if (!sentinel_limits_connects(&server->limits, &c->share, server_now_ns(server))) {
        client_refuse(c, "its address connects too often");
    }
    if (!uv_is_active((uv_handle_t *)&server->sweep)) {
        (void)uv_timer_start(&server->sweep, server_on_sweep, SWEEP_MS, SWEEP_MS);
    }
}

static void sentinel_on_refused(void *ctx, int error)
{
    /* The client is gone, or there is no descriptor for it; the listener goes on. */
}

static int server_start(struct sentinel_server *server, int *ret_detail)
{
    const struct worker_options options = {.threads = 1, .nice = SECURING_NICE};
    const struct listener_callbacks callbacks = {
        .accepted = sentinel_on_accepted, .refused = sentinel_on_refused, .ctx = server};
    if (server->s.tls != NULL) {
        int rc = worker_init(&server->worker, server->s.loop, &options);
        if (rc != 0) {
            return rc;
        }
        server->working = true;
    }
    return listener_start(server->listener, BACKLOG, &callbacks, ret_detail);
}

int sentinel_server_open(const struct sentinel_server_settings *settings,
                         struct sentinel_server **ret, int *ret_detail)
{
    struct net_address at = {.port = (uint16_t)settings->port};
    struct sentinel_server *server = calloc(1, sizeof *server);
    int rc = 0;
    *ret_detail = 0;
    if (server == NULL) {
        return CONCLAVE_ENOMEM;
    }
    assert(settings->port >= 0 && settings->port <= UINT16_MAX && settings->patience_ms > 0);
    server->s = *settings;
    list_init(&server->clients);
    list_init(&server->lingering);
    sentinel_limits_init(&server->limits, &settings->rates);
    refusals_init(&server->refusals);
    if (strlen(settings->host) >= sizeof at.host) {
        rc = CONCLAVE_EINVAL;
    } else {
        memcpy(at.host, settings->host, strlen(settings->host) + 1);
        rc = listener_open(settings->loop, &at, &server->listener, ret_detail);
    }
    if (rc != 0) {
        free(server);
        return rc;
    }
    if (uv_timer_init(settings->loop, &server->sweep) != 0) {
        abort(); /* cannot fail: it allocates nothing */
    }
    server->sweep.data = server;
    turns_init(&server->turns, settings->loop);
    server->parts = 3;
    rc = server_start(server, ret_detail);
    if (rc != 0) {
        sentinel_server_close(server, NULL, NULL);
        return rc;
    }
    *ret = server;
    return 0;
}

int sentinel_server_port(const struct sentinel_server *server)
{
    struct net_address at;
    listener_address(server->listener, &at);
    return at.port;
}

void sentinel_server_close(struct sentinel_server *server, void (*closed)(void *ctx), void *ctx)
{
    assert(!server->closing);
    server->closing = true;
    server->closed = closed;
    server->closed_ctx = ctx;
    while (!list_empty(&server->clients)) {
        client_end(client_at(server->clients.next), false);
    }
    while (!list_empty(&server->lingering)) {
        lingering_close(client_at(server->lingering.next));
    }
    listener_close(server->listener, server_part_closed, server);
    server->listener = NULL;
    uv_close((uv_handle_t *)&server->sweep, server_on_timer_closed);
    turns_close(&server->turns, server_part_closed, server);
}
