#include "cluster/links/link_connection.h"

#include "base/transition.h"
#include "net/connector.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READ_ROOM = 256 * 1024, /* a peer may send a snapshot */
    LINGER_MS = 1000,       /* time for the reason to arrive at the other side */
    WHY_MAX = TLS_TEXT_MAX + 64,
};

static int64_t conn_now(const struct conn *c)
{
    return (int64_t)uv_now(c->settings->loop);
}

static struct conn *conn_create(struct conn_settings *s)
{
    struct conn *c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->settings = s;
        c->begun_ms = c->heard_ms = conn_now(c);
        buf_init(&c->queue, 0);
        list_push_back(&s->conns, &c->node);
    }
    return c;
}

/* As the drawing in the header. */
static const uint16_t CONN_NEXT[] = {
    [CONN_CONNECTING] =
        TRANSITION_TO(CONN_SECURING) | TRANSITION_TO(CONN_ASKING) | TRANSITION_TO(CONN_OVER),
    [CONN_SECURING] =
        TRANSITION_TO(CONN_SAYING) | TRANSITION_TO(CONN_ASKING) | TRANSITION_TO(CONN_OVER),
    [CONN_SAYING] = TRANSITION_TO(CONN_READY) | TRANSITION_TO(CONN_OVER),
    [CONN_ASKING] = TRANSITION_TO(CONN_READY) | TRANSITION_TO(CONN_OVER),
    [CONN_READY] = TRANSITION_TO(CONN_OVER),
    [CONN_OVER] = TRANSITION_TO(CONN_OVER),
};

static void conn_enter(struct conn *c, enum conn_stage stage)
{
    transition_check(CONN_NEXT, c->stage, stage);
    assert(c->stream != NULL || stage == CONN_OVER);
    c->stage = stage;
}

static void conn_free(struct conn *c)
{
    struct conn_settings *s = c->settings;
    assert(c->stage == CONN_OVER || (c->stage == CONN_CONNECTING && c->connector == NULL));
    list_remove(&c->node);
    buf_finish(&c->queue);
    tls_context_release(c->client);
    free(c);
    s->events->freed(s->ctx);
}

/* The end */

static void conn_over(struct conn *c, const char *why, bool foul)
{
    if (c->stage != CONN_OVER) {
        conn_enter(c, CONN_OVER);
        c->settings->events->ended(c->settings->ctx, c, why, foul);
    }
}

static void conn_fail(struct conn *c, const char *why, bool foul)
{
    struct stream *s = c->stream;
    conn_over(c, why, foul);
    stream_close(s);
}

void conn_close(struct conn *c)
{
    if (c->stage == CONN_OVER) {
        return;
    }
    bool connecting = c->stage == CONN_CONNECTING;
    conn_enter(c, CONN_OVER);
    if (connecting) {
        connector_cancel(c->connector);
        conn_free(c);
    } else {
        stream_close(c->stream);
    }
}

/* New connections are appended, so the list is ordered by age. */
struct conn *conns_oldest(const struct conn_settings *s)
{
    LIST_FOREACH (it, &s->conns) {
        struct conn *c = CONTAINER_OF(it, struct conn, node);
        if (c->stage < CONN_READY) {
            return c;
        }
    }
    return NULL;
}

struct conn *conns_oldest_stranger(const struct conn_settings *s, size_t *ret_count)
{
    struct conn *oldest = NULL;
    *ret_count = 0;
    LIST_FOREACH (it, &s->conns) {
        struct conn *c = CONTAINER_OF(it, struct conn, node);
        if (c->stage < CONN_READY && !c->out) {
            oldest = oldest != NULL ? oldest : c;
            (*ret_count)++;
        }
    }
    return oldest;
}

void conn_give_up(struct conn *c, const char *why)
{
    bool connecting = c->stage == CONN_CONNECTING;
    conn_over(c, why, !c->out);
    if (connecting) {
        connector_cancel(c->connector);
        conn_free(c);
    } else {
        stream_close(c->stream);
    }
}

void conns_abort(struct conn_settings *s)
{
    LIST_FOREACH (it, &s->conns) {
        struct conn *c = CONTAINER_OF(it, struct conn, node);
        if (c->stage != CONN_OVER) {
            conn_close(c);
        } else if (c->stream != NULL) {
            stream_close(c->stream);
        }
    }
}

/* Hello */

static void conn_say(struct conn *c)
{
    assert(c->out);
    conn_enter(c, CONN_SAYING);
    hello_append(&c->queue, &c->mine);
    if (!buf_ok(&c->queue)) {
        conn_fail(c, "out of memory", false);
        return;
    }
    conn_flush(c);
}

void conn_welcome(struct conn *c, const struct hello *answer)
{
    assert(!c->out && c->stage == CONN_ASKING);
    hello_append(&c->queue, answer);
    if (!buf_ok(&c->queue)) {
        conn_fail(c, "out of memory", false);
        return;
    }
    conn_enter(c, CONN_READY);
    stream_set_room(c->stream, READ_ROOM);
    conn_flush(c);
}

void conn_refuse(struct conn *c, enum hello_reason reason)
{
    refuse_append(&c->queue, reason);
    conn_flush(c);
    conn_enter(c, CONN_OVER);
    stream_finish(c->stream, LINGER_MS);
}

static void conn_on_hello(struct conn *c, struct slice rest)
{
    struct hello h;
    if (hello_read(rest, &h) != 0) {
        conn_fail(c, "its hello is malformed", true);
        return;
    }
    if (c->out) {
        conn_enter(c, CONN_READY);
    }
    c->settings->events->hello(c->settings->ctx, c, &h);
}

static void conn_on_refusal(struct conn *c, struct slice rest)
{
    unsigned reason;
    char why[WHY_MAX];
    if (refuse_read(rest, &reason) != 0) {
        conn_fail(c, "its refusal is malformed", true);
        return;
    }
    snprintf(why, sizeof why, "it refused this server: %s", hello_reason_text(reason));
    conn_fail(c, why, true);
}

/* Frames */

static void conn_on_control(struct conn *c, const struct peer_frame *f)
{
    struct peer_identity now;
    struct slice rest = SLICE_NULL;
    unsigned kind = control_kind(f->bytes, &rest);
    bool first = c->stage == CONN_SAYING || c->stage == CONN_ASKING;
    bool reads = c->stage == CONN_READY && !c->out;
    if (first && kind == CONTROL_HELLO) {
        conn_on_hello(c, rest);
    } else if (c->stage == CONN_SAYING && kind == CONTROL_REFUSE) {
        conn_on_refusal(c, rest);
    } else if (reads && kind == CONTROL_AGE && age_read(rest, &now) == 0) {
        c->settings->events->age(c->settings->ctx, c, &now);
    } else if (!reads || kind != CONTROL_PING) {
        conn_fail(c, "it broke the link protocol", true);
    }
}

static size_t conn_on_data(void *owner, struct slice bytes)
{
    struct conn *c = owner;
    struct slice rest = bytes;
    struct peer_frame f;
    c->heard_ms = conn_now(c);
    while (c->stage != CONN_OVER) {
        struct slice before = rest;
        int rc = frame_take(&rest, c->stage == CONN_READY ? PEER_FRAME_MAX : HELLO_FRAME_MAX, &f);
        if (rc == 0) {
            break;
        }
        if (rc < 0) {
            conn_fail(c, "it does not use the link protocol", true);
        } else if (f.channel == 0) {
            conn_on_control(c, &f);
        } else if (c->out || c->stage != CONN_READY) {
            conn_fail(c, "it broke the link protocol", true);
        } else if (c->gated) {
            /* The owner does not know yet that the link is up: the frame stays in the stream's buffer. */
            rest = before;
            stream_pause(c->stream);
            break;
        } else {
            c->settings->events->frame(c->settings->ctx, c, &f);
        }
    }
    return c->stage == CONN_OVER ? bytes.len : bytes.len - rest.len;
}

void conn_let_through(struct conn *c)
{
    assert(!c->out && c->stage == CONN_READY);
    c->gated = false;
    stream_resume(c->stream);
}

/* The stream */

static void conn_on_sent(void *owner)
{
    conn_flush(owner);
}

static void conn_on_secured(void *owner)
{
    struct conn *c = owner;
    if (c->stage != CONN_SECURING) {
        return;
    }
    if (!c->out) {
        conn_enter(c, CONN_ASKING);
    } else if (c->settings->verify_hosts && !stream_peer_is_for(c->stream, c->address.host)) {
        char why[WHY_MAX];
        snprintf(why, sizeof why, "its certificate is not for %.255s", c->address.host);
        conn_fail(c, why, true);
    } else {
        conn_say(c);
    }
}

static void conn_on_ended(void *owner, int error)
{
    struct conn *c = owner;
    struct stream *s = c->stream;
    const char *problem = stream_tls_problem(s);
    char why[WHY_MAX];
    /* Before a hello there is no better reason than the error of the socket. */
    snprintf(why, sizeof why, "%s",
             problem != NULL ? problem
             : error != 0    ? uv_strerror(error)
                             : "it closed the connection");
    conn_over(c, why, problem != NULL);
    if (problem != NULL) {
        stream_finish(s, LINGER_MS); /* so that the TLS alert arrives */
    } else {
        stream_close(s);
    }
}

static void conn_on_closed(void *owner)
{
    conn_free(owner);
}

static const struct stream_handler conn_handler = {
    .data = conn_on_data,
    .sent = conn_on_sent,
    .secured = conn_on_secured,
    .ended = conn_on_ended,
    .closed = conn_on_closed,
};

struct conn *conn_accept(struct conn_settings *s, struct stream *stream)
{
    struct conn *c = conn_create(s);
    if (c == NULL) {
        stream_close(stream);
        return NULL;
    }
    c->stream = stream;
    c->gated = true;
    conn_enter(c, s->server != NULL ? CONN_SECURING : CONN_ASKING);
    bool ok =
        s->server == NULL || stream_use_tls(stream, s->server, STREAM_TLS_ONLY, s->worker) == 0;
    if (stream_start(stream, &conn_handler, c) != 0 || !ok) {
        conn_enter(c, CONN_OVER);
        stream_close(stream);
        return NULL;
    }
    c->address = *stream_peer(stream);
    return c;
}

static void conn_on_connected(void *ctx, struct stream *stream, int error)
{
    struct conn *c = ctx;
    c->connector = NULL;
    if (stream == NULL) {
        conn_over(c, uv_strerror(error), false);
        conn_free(c);
        return;
    }
    c->stream = stream;
    conn_enter(c, CONN_SECURING);
    bool ok =
        c->client == NULL || stream_use_tls_client(stream, c->client, c->address.host, false) == 0;
    if (stream_start(stream, &conn_handler, c) != 0 || !ok) {
        conn_fail(c, ok ? "it closed the connection" : "out of memory", false);
    } else if (c->client == NULL) {
        conn_say(c);
    }
}

struct conn *conn_connect(struct conn_settings *s, const struct net_address *to, unsigned first,
                          const struct hello *h)
{
    struct conn *c = conn_create(s);
    if (c == NULL || connector_start(s->loop, to, first, s->read_buffer, conn_on_connected, c,
                                     &c->connector) != 0) {
        if (c != NULL) {
            conn_free(c);
        }
        return NULL;
    }
    c->out = true;
    c->address = *to;
    c->mine = *h;
    c->client = s->client != NULL ? tls_context_share(s->client) : NULL;
    return c;
}

bool conn_is_for(const struct conn *c, const char *host)
{
    return stream_peer_is_for(c->stream, host);
}

void conn_flush(struct conn *c)
{
    if (c->stage != CONN_OVER) {
        stream_send(c->stream, &c->queue);
    }
}

size_t conn_queued(const struct conn *c)
{
    return c->queue.len + stream_sending(c->stream);
}
