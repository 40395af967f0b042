#include "redis/sentinel/sentinel_server.h"

#include "base/list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { BACKLOG = 128, LINGER_MS = 1000, KEEP_ALIVE_S = 60 };

struct sentinel_server {
    struct sentinel_server_settings s;
    struct listener *listener; /* NULL: closed */
    struct list clients;       /* node of struct client; the one that was silent longest first */
    size_t client_count;       /* with those whose stream is closing */
    uint64_t last_id;
    bool listening;
    bool closing;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

struct sentinel_client {
    struct list node;
    struct sentinel_server *server;
    struct stream *stream;
    struct sentinel_session session;
    struct buf out; /* not taken by the stream yet */
    bool ending;    /* its stream is closing */
};

/* --- ends */

static void server_check_gone(struct sentinel_server *server)
{
    if (server->closing && !server->listening && server->client_count == 0) {
        void (*closed)(void *) = server->closed;
        void *ctx = server->closed_ctx;
        assert(list_empty(&server->clients));
        free(server);
        if (closed != NULL) {
            closed(ctx);
        }
    }
}

static void sentinel_client_on_closed(void *owner)
{
    struct sentinel_client *c = owner;
    struct sentinel_server *server = c->server;
    assert(c->ending && server->client_count > 0);
    server->client_count--;
    sentinel_session_finish(&c->session);
    buf_finish(&c->out);
    free(c);
    server_check_gone(server);
}

/* The stream is freed later, in sentinel_client_on_closed. finish: sends what the stream has taken first. */
static void client_end(struct sentinel_client *c, bool finish)
{
    if (c->ending) {
        return;
    }
    c->ending = true;
    list_remove(&c->node);
    if (finish) {
        stream_finish(c->stream, LINGER_MS);
    } else {
        stream_close(c->stream);
    }
}

/* --- bytes */

/* Sends what was written; call it after everything that writes. */
static void client_send(struct sentinel_client *c)
{
    if (c->ending) {
        return;
    }
    if (!buf_ok(&c->out) || stream_sending(c->stream) + c->out.len > SENTINEL_UNSENT_MAX) {
        client_end(c, false);
        return;
    }
    if (c->out.len > 0) {
        stream_send(c->stream, &c->out);
    }
    if (c->session.state == SENTINEL_OVER && c->out.len == 0) {
        client_end(c, true);
    } else if (c->session.state == SENTINEL_WAITING || c->out.len > 0) {
        stream_pause(c->stream); /* no further answers for a client that does not read */
    }
}

/* Takes bytes while their answers leave at once. */
static size_t sentinel_client_on_data(void *owner, struct slice bytes)
{
    struct sentinel_client *c = owner;
    size_t taken = 0;
    if (c->ending) {
        return bytes.len;
    }
    list_remove(&c->node);
    list_push_back(&c->server->clients, &c->node);
    for (;;) {
        size_t more = sentinel_session_take(
            &c->session, slice_make(bytes.data + taken, bytes.len - taken), &c->out);
        taken += more;
        client_send(c);
        if (more == 0 || c->ending || stream_paused(c->stream)) {
            return c->ending ? bytes.len : taken;
        }
    }
}

static void client_go_on(struct sentinel_client *c)
{
    client_send(c);
    if (!c->ending && c->out.len == 0 && c->session.state == SENTINEL_OPEN) {
        stream_resume(c->stream);
    }
}

static void sentinel_client_on_sent(void *owner)
{
    client_go_on(owner);
}

static void sentinel_client_on_ended(void *owner, int error)
{
    client_end(owner, stream_tls_problem(((struct sentinel_client *)owner)->stream) != NULL);
}

static const struct stream_handler CLIENT_HANDLER = {.data = sentinel_client_on_data,
                                                     .sent = sentinel_client_on_sent,
                                                     .ended = sentinel_client_on_ended,
                                                     .closed = sentinel_client_on_closed};

void sentinel_server_publish(struct sentinel_server *server, const char *channel,
                             const char *message)
{
    LIST_FOREACH (node, &server->clients) {
        struct sentinel_client *c = CONTAINER_OF(node, struct sentinel_client, node);
        if (c->session.channel_count > 0 && c->session.state != SENTINEL_OVER) {
            sentinel_session_publish(&c->session, channel, message, &c->out);
            client_send(c);
        }
    }
}

void sentinel_server_requested(struct sentinel_server *server, uint64_t session_id, int error)
{
    LIST_FOREACH (node, &server->clients) {
        struct sentinel_client *c = CONTAINER_OF(node, struct sentinel_client, node);
        if (c->session.id == session_id && c->session.state == SENTINEL_WAITING) {
            sentinel_session_requested(&c->session, error, &c->out);
            client_go_on(c);
            return;
        }
    }
}

/* --- connections */

/* Ends a connection if there are too many: one without a subscription if there is any. */
static void make_room(struct sentinel_server *server)
{
    if (server->client_count < SENTINEL_CLIENTS_MAX || list_empty(&server->clients)) {
        return; /* empty: all are about to end */
    }
    LIST_FOREACH (node, &server->clients) {
        struct sentinel_client *c = CONTAINER_OF(node, struct sentinel_client, node);
        if (c->session.channel_count == 0) {
            client_end(c, false);
            return;
        }
    }
    client_end(CONTAINER_OF(server->clients.next, struct sentinel_client, node), false);
}

static void sentinel_on_accepted(void *ctx, struct stream *stream)
{
    struct sentinel_server *server = ctx;
    struct sentinel_client *c = calloc(1, sizeof *c);
    if (server->closing || c == NULL ||
        (server->s.tls != NULL &&
         stream_use_tls(stream, server->s.tls, STREAM_TLS_ONLY, NULL) != 0)) {
        free(c);
        stream_close(stream);
        return;
    }
    make_room(server);
    c->server = server;
    c->stream = stream;
    buf_init(&c->out, SENTINEL_UNSENT_MAX);
    sentinel_session_init(&c->session, &server->s.backend, ++server->last_id);
    list_push_back(&server->clients, &c->node);
    server->client_count++;
    (void)uv_tcp_keepalive((uv_tcp_t *)stream_handle(stream), 1, KEEP_ALIVE_S);
    if (stream_start(stream, &CLIENT_HANDLER, c) != 0) {
        client_end(c, false);
    }
}

static void sentinel_on_refused(void *ctx, int error)
{
    /* The client is gone, or there is no descriptor for it; the listener goes on. */
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
    assert(settings->port >= 0 && settings->port <= UINT16_MAX);
    server->s = *settings;
    list_init(&server->clients);
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
    struct listener_callbacks callbacks = {
        .accepted = sentinel_on_accepted, .refused = sentinel_on_refused, .ctx = server};
    server->listening = true;
    rc = listener_start(server->listener, BACKLOG, &callbacks, ret_detail);
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

static void sentinel_on_listener_closed(void *ctx)
{
    struct sentinel_server *server = ctx;
    server->listening = false;
    server_check_gone(server);
}

void sentinel_server_close(struct sentinel_server *server, void (*closed)(void *ctx), void *ctx)
{
    assert(!server->closing);
    server->closing = true;
    server->closed = closed;
    server->closed_ctx = ctx;
    while (!list_empty(&server->clients)) {
        client_end(CONTAINER_OF(server->clients.next, struct sentinel_client, node), false);
    }
    listener_close(server->listener, sentinel_on_listener_closed, server);
    server->listener = NULL;
}
