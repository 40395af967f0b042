#include "admin/http/http_server.h"

#include "admin/http/connection_slots.h"
#include "base/log.h"
#include "base/transition.h"
#include "net/listener.h"
#include "net/peer_user.h"
#include "net/turns.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    BACKLOG = 128,
    CLIENTS_MAX = 1024, /* including lingering and new connections */
    LINGERING_MAX = 64,
    LINGER_MS = 1000,
    SWEEP_MS = 200, /* between two looks for late connections */
    IDLE_MS_MIN = 1000,
    SUBJECT_MAX = 4096,
    SECURING_NICE = 5, /* nice value of the handshake thread: consensus goes first */
    READ_TURNS = 2,    /* turns of the loop until the first bytes of a new connection are read */
};

struct http {
    uv_loop_t *loop;
    struct http_options options;
    struct http_answerer answerer;
    struct listener *listener;
    struct worker worker; /* thread for TLS handshakes, while `working` */
    bool working;
    uv_timer_t sweep;      /* runs while there are connections */
    struct turns turns;    /* of clients that continue, and of `count` */
    struct turn count;     /* counts the slots, when count_in is 0 */
    unsigned count_in;     /* turns until then */
    struct list clients;   /* slot of struct http_client, the longest wait first */
    struct list lingering; /* the same for clients that read their last answer, oldest first */
    size_t lingering_count;
    size_t client_count; /* clients whose stream is not closed */
    unsigned open_parts; /* listener, timers, worker, until closed */
    bool closing;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

enum client_stage {
    CLIENT_OPEN,
    CLIENT_BROKEN,    /* the connection is gone, but http_answer is still due */
    CLIENT_LINGERING, /* the last answer was written: the stream closes when the client has read it */
    CLIENT_CLOSED,    /* the stream is closing */
};

struct http_client {
    struct slot slot; /* its node: in http.clients, then http.lingering */
    struct http *http;
    struct stream *stream;
    struct http_exchange *exchange;
    enum client_stage stage;
    struct turn turn;
    struct buf out;     /* not taken by the stream yet */
    struct buf subject; /* of its certificate */
    uint64_t answers;   /* answers of the exchange at the last look */
    size_t sending;     /* unsent bytes of the stream at the last sweep */
    uint64_t moved_ms;  /* when bytes were read or sent */
};

static const uint16_t CLIENT_NEXT[] = {
    [CLIENT_OPEN] = TRANSITION_TO(CLIENT_BROKEN) | TRANSITION_TO(CLIENT_LINGERING) |
                    TRANSITION_TO(CLIENT_CLOSED),
    [CLIENT_BROKEN] = TRANSITION_TO(CLIENT_BROKEN) | TRANSITION_TO(CLIENT_CLOSED),
    [CLIENT_LINGERING] = TRANSITION_TO(CLIENT_CLOSED),
    [CLIENT_CLOSED] = 0,
};

static void http_client_enter(struct http_client *c, enum client_stage stage)
{
    transition_check(CLIENT_NEXT, c->stage, stage);
    c->http->lingering_count += stage == CLIENT_LINGERING;
    c->http->lingering_count -= c->stage == CLIENT_LINGERING;
    c->stage = stage;
}

static struct http_client *http_client_at(struct list *node)
{
    return CONTAINER_OF(node, struct http_client, slot.node);
}

/* Ends */

static void http_part_closed(void *ctx);

static void http_check_gone(struct http *h)
{
    if (!h->closing || h->open_parts > 0 || h->client_count > 0) {
        return;
    }
    /* Connections may use the worker until they are closed, so it closes after them. */
    if (h->working) {
        h->working = false;
        h->open_parts = 1;
        worker_close(&h->worker, http_part_closed, h);
        return;
    }
    tls_context_release(h->options.tls);
    if (h->closed != NULL) {
        h->closed(h->closed_ctx);
    }
    free(h);
}

static void http_part_closed(void *ctx)
{
    struct http *h = ctx;
    assert(h->open_parts > 0);
    h->open_parts--;
    http_check_gone(h);
}

static void http_on_handle_closed(uv_handle_t *handle)
{
    http_part_closed(handle->data);
}

static void http_client_on_closed(void *owner)
{
    struct http_client *c = owner;
    struct http *h = c->http;
    if (c->stage == CLIENT_LINGERING) {
        http_client_enter(c,
                          CLIENT_CLOSED); /* the client has read everything, or its time is over */
    }
    assert(c->stage == CLIENT_CLOSED);
    list_remove(&c->slot.node);
    http_exchange_destroy(c->exchange);
    buf_finish(&c->out);
    buf_finish(&c->subject);
    free(c);
    assert(h->client_count > 0);
    h->client_count--;
    http_check_gone(h);
}

/* A client that still waits for http_answer is closed after that, because the answerer holds its exchange. */
static void http_client_close(struct http_client *c)
{
    if (c->stage == CLIENT_CLOSED) {
        return;
    }
    if (http_exchange_state(c->exchange) == HTTP_WAITING) {
        assert(!c->http->closing);
        http_client_enter(c, CLIENT_BROKEN);
        return;
    }
    http_client_enter(c, CLIENT_CLOSED);
    list_remove(&c->slot.node);
    turn_drop(&c->turn);
    stream_close(c->stream);
}

/* Closes the connection when the client has read everything, or soon. */
static void http_client_linger(struct http_client *c)
{
    struct http *h = c->http;
    assert(c->stage == CLIENT_OPEN && http_exchange_state(c->exchange) != HTTP_WAITING);
    /* Lingering clients must not take the sockets of new ones. */
    if (h->lingering_count == LINGERING_MAX) {
        http_client_close(http_client_at(h->lingering.next));
    }
    http_client_enter(c, CLIENT_LINGERING);
    turn_drop(&c->turn);
    list_remove(&c->slot.node);
    list_push_back(&h->lingering, &c->slot.node);
    stream_finish(c->stream, LINGER_MS);
}

/* Slots */

static void http_make_room(struct http *h)
{
    struct slot *p;
    while ((p = slots_surplus(&h->clients, uv_now(h->loop))) != NULL) {
        http_client_close(http_client_at(&p->node));
    }
}

static void http_client_renew_slot(struct http_client *c)
{
    slot_renew(&c->slot, &c->http->clients, uv_now(c->http->loop));
}

static void http_client_update_slot(struct http_client *c)
{
    enum slot_state state = c->slot.state;
    if (c->answers != http_exchange_answers(c->exchange)) {
        c->answers = http_exchange_answers(c->exchange);
        http_client_renew_slot(c);
        state = SLOT_IDLE;
    }
    bool asked = state == SLOT_ANSWERING || state == SLOT_PATIENT;
    switch (http_exchange_state(c->exchange)) {
    case HTTP_BODY:
        state = SLOT_RECEIVING;
        break;
    case HTTP_WAITING:
        state = SLOT_PATIENT;
        break;
    case HTTP_SENDING:
        state = http_exchange_streams(c->exchange) ? SLOT_PATIENT : SLOT_ANSWERING;
        break;
    default:
        break;
    }
    if (!asked && (state == SLOT_ANSWERING || state == SLOT_PATIENT)) {
        http_client_renew_slot(c);
    }
    c->slot.state = state;
}

/* Turns of the loop */

/* Sends the output of the exchange, then reads on, waits, or ends. Call it after every event of a client. */
static void http_client_go_on(struct http_client *c)
{
    for (int pieces = 0; c->stage == CLIENT_OPEN && stream_sending(c->stream) == 0; pieces++) {
        if (pieces == HTTP_PIECES) {
            turns_ask(&c->http->turns, &c->turn);
            break;
        }
        if (c->out.len == 0 && !http_exchange_fill(c->exchange, &c->out)) {
            http_client_close(c);
            return;
        }
        if (c->out.len == 0) {
            break; /* everything was sent, or the source waits */
        }
        stream_send(c->stream, &c->out);
        c->moved_ms = uv_now(c->http->loop);
    }
    if (c->stage != CLIENT_OPEN) {
        return;
    }
    http_client_update_slot(c);
    enum http_exchange_state state = http_exchange_state(c->exchange);
    if (state == HTTP_OVER) {
        http_client_linger(c);
    } else if (state != HTTP_HEAD && state != HTTP_BODY) {
        stream_pause(c->stream);
    } else if (stream_paused(c->stream)) {
        turns_ask(&c->http->turns, &c->turn);
    }
}

static void http_client_on_output(void *ctx)
{
    struct http_client *c = ctx;
    if (c->stage == CLIENT_BROKEN) {
        http_client_close(c);
    } else if (c->stage == CLIENT_OPEN) {
        http_client_go_on(c);
    }
}

static void http_client_take_turn(struct turn *turn)
{
    struct http_client *c = CONTAINER_OF(turn, struct http_client, turn);
    enum http_exchange_state state = http_exchange_state(c->exchange);
    if (state == HTTP_HEAD || state == HTTP_BODY) {
        stream_resume(c->stream); /* passes waiting bytes to http_client_on_data */
    } else {
        http_client_go_on(c);
    }
}

static void http_take_count(struct turn *turn)
{
    struct http *h = CONTAINER_OF(turn, struct http, count);
    if (h->count_in == 0) {
        http_make_room(h);
    } else {
        h->count_in--;
        turns_ask(&h->turns, turn);
    }
}

/* The stream's side */

static size_t http_client_on_data(void *owner, struct slice bytes)
{
    struct http_client *c = owner;
    c->moved_ms = uv_now(c->http->loop);
    size_t taken = http_exchange_take(c->exchange, bytes);
    if (taken < bytes.len) {
        stream_pause(c->stream); /* one request per turn, so that others get theirs */
    }
    http_client_go_on(c);
    return taken;
}

static void http_client_on_sent(void *owner)
{
    struct http_client *c = owner;
    c->moved_ms = uv_now(c->http->loop);
    if (c->stage == CLIENT_OPEN) {
        http_client_go_on(c);
    }
}

static void http_client_on_secured(void *owner)
{
    struct http_client *c = owner;
    if (c->stage != CLIENT_OPEN) {
        return;
    }
    stream_peer_subject(c->stream, &c->subject);
    if (!buf_ok(&c->subject)) {
        http_client_close(c);
        return;
    }
    http_exchange_set_subject(c->exchange, buf_slice(&c->subject));
    http_client_renew_slot(c);
    c->slot.state = SLOT_OPENING; /* its time for a request begins now */
}

static void http_client_on_ended(void *owner, int error)
{
    struct http_client *c = owner;
    const char *problem = stream_tls_problem(c->stream);
    if (c->stage == CLIENT_OPEN && error != 0 && problem != NULL &&
        http_exchange_state(c->exchange) != HTTP_WAITING) {
        /* Only debug: scanners cause these, and the client gets the reason. */
        log_debug("admin", "tls-refused", "peer=%s reason=\"%s\"", stream_peer(c->stream)->host,
                  problem);
        http_client_linger(c);
    } else {
        http_client_close(c);
    }
}

static const struct stream_handler http_client_handler = {
    .data = http_client_on_data,
    .sent = http_client_on_sent,
    .secured = http_client_on_secured,
    .ended = http_client_on_ended,
    .closed = http_client_on_closed,
};

/* The loop's side */

static bool http_client_is_late(const struct http_client *c, uint64_t now_ms)
{
    uint64_t most_ms = c->slot.state == SLOT_OPENING ? HTTP_HEAD_MS : HTTP_REQUEST_MS;
    return now_ms - c->slot.since_ms >= most_ms && c->slot.state < SLOT_PATIENT;
}

/* Whether no byte has moved for idle_ms, although some should. */
static bool http_client_is_idle(struct http_client *c, uint64_t now_ms)
{
    size_t sending = stream_sending(c->stream);
    if (sending != c->sending || (sending == 0 && http_exchange_rests(c->exchange))) {
        c->sending = sending;
        c->moved_ms = now_ms;
    }
    return now_ms - c->moved_ms >= (uint64_t)c->http->options.idle_ms &&
           http_exchange_state(c->exchange) != HTTP_WAITING;
}

/* Closes clients that are late or idle, or too many from one address. */
static void http_on_sweep(uv_timer_t *timer)
{
    struct http *h = timer->data;
    uint64_t now_ms = uv_now(h->loop);
    http_make_room(h);
    LIST_FOREACH (it, &h->clients) {
        struct http_client *c = http_client_at(it);
        if (http_client_is_late(c, now_ms) || http_client_is_idle(c, now_ms)) {
            http_client_close(c);
        }
    }
    if (list_empty(&h->clients)) {
        (void)uv_timer_stop(&h->sweep);
    }
}

static void http_client_free(struct http_client *c)
{
    http_exchange_destroy(c->exchange);
    free(c);
}

static bool http_client_is_own_user(void *ctx)
{
    const struct http_client *c = ctx;
    struct net_address own;
    stream_local(c->stream, &own);
    return peer_user_is_own(stream_peer(c->stream), &own);
}

static struct http_client *http_client_create(struct http *h, struct stream *stream)
{
    struct http_client *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    const struct http_holder holder = {.output = http_client_on_output,
                                       .is_own_user = http_client_is_own_user,
                                       .ctx = c,
                                       .peer = stream_peer(stream)->host,
                                       .subject = slice_str("")};
    c->http = h;
    c->stream = stream;
    c->moved_ms = uv_now(h->loop);
    buf_init(&c->out, 0);
    buf_init(&c->subject, SUBJECT_MAX);
    list_init(&c->slot.node);
    turn_init(&c->turn, http_client_take_turn);
    c->exchange = http_exchange_create(&h->answerer, &holder);
    enum stream_tls mode = h->options.plain_too ? STREAM_TLS_OR_PLAIN : STREAM_TLS_ONLY;
    if (c->exchange == NULL ||
        (h->options.tls != NULL && stream_use_tls(stream, h->options.tls, mode, &h->worker) != 0)) {
        http_client_free(c);
        return NULL;
    }
    return c;
}

static void http_on_accepted(void *ctx, struct stream *stream)
{
    struct http *h = ctx;
    struct http_client *c = h->client_count < CLIENTS_MAX ? http_client_create(h, stream) : NULL;
    if (c == NULL) {
        stream_close(stream);
        return;
    }
    h->client_count++;
    if (stream_start(stream, &http_client_handler, c) != 0) {
        http_client_close(c);
        return;
    }
    slot_take(&c->slot, &h->clients, stream_peer(stream)->host, uv_now(h->loop));
    /* A request that has arrived is read before its connection can lose the slot. */
    if (list_empty(&h->count.node)) {
        h->count_in = READ_TURNS - 1;
        turns_ask(&h->turns, &h->count);
    }
    if (!uv_is_active((uv_handle_t *)&h->sweep)) {
        (void)uv_timer_start(&h->sweep, http_on_sweep, SWEEP_MS, SWEEP_MS);
    }
}

static void http_on_refused(void *ctx, int error)
{
    log_debug("admin", "connection-refused", "reason=\"%s\"", uv_strerror(error));
}

/* Begin and end */

static int http_fail(int rc, int detail, const char **ret_reason)
{
    *ret_reason = rc == CONCLAVE_EBUSY      ? "the port is in use"
                  : rc == CONCLAVE_ERESOLVE ? "no such host on this machine"
                  : rc == CONCLAVE_ENOMEM   ? "out of memory"
                                            : uv_strerror(detail);
    return rc == CONCLAVE_EIO ? CONCLAVE_EDISCONNECTED : rc;
}

static int http_start(struct http *h, int *ret_detail)
{
    const struct worker_options options = {.threads = 1, .nice = SECURING_NICE};
    const struct listener_callbacks callbacks = {
        .accepted = http_on_accepted, .refused = http_on_refused, .ctx = h};
    if (h->options.tls != NULL) {
        int rc = worker_init(&h->worker, h->loop, &options);
        if (rc != 0) {
            return rc;
        }
        h->working = true;
    }
    return listener_start(h->listener, BACKLOG, &callbacks, ret_detail);
}

int http_open(uv_loop_t *loop, const struct http_options *options, struct http **ret,
              const char **ret_reason)
{
    struct http *h = calloc(1, sizeof *h);
    int detail = 0;
    if (h == NULL) {
        return http_fail(CONCLAVE_ENOMEM, 0, ret_reason);
    }
    h->loop = loop;
    h->options = *options;
    h->options.idle_ms = options->idle_ms < IDLE_MS_MIN ? IDLE_MS_MIN : options->idle_ms;
    h->answerer = (struct http_answerer){.fn = options->fn, .ctx = options->ctx};
    list_init(&h->clients);
    list_init(&h->lingering);
    int rc = listener_open(loop, &options->listen, &h->listener, &detail);
    if (rc != 0) {
        free(h);
        return http_fail(rc, detail, ret_reason);
    }
    if (options->tls != NULL) {
        tls_context_share(options->tls);
    }
    if (uv_timer_init(loop, &h->sweep) != 0) {
        abort(); /* cannot fail */
    }
    h->sweep.data = h;
    turns_init(&h->turns, loop);
    turn_init(&h->count, http_take_count);
    h->open_parts = 3;
    rc = http_start(h, &detail);
    if (rc != 0) {
        http_close(h, NULL, NULL);
        return http_fail(rc, detail, ret_reason);
    }
    *ret = h;
    return 0;
}

void http_set_tls(struct http *h, struct tls_context *context)
{
    assert(h->options.tls != NULL);
    tls_context_release(h->options.tls);
    h->options.tls = tls_context_share(context);
}

void http_address(const struct http *h, struct net_address *ret)
{
    listener_address(h->listener, ret);
}

void http_close(struct http *h, void (*cb)(void *ctx), void *ctx)
{
    if (h == NULL) {
        return;
    }
    assert(!h->closing);
    h->closing = true;
    h->closed = cb;
    h->closed_ctx = ctx;
    LIST_FOREACH (it, &h->clients) {
        http_client_close(http_client_at(it));
    }
    LIST_FOREACH (it, &h->lingering) {
        http_client_close(http_client_at(it));
    }
    listener_close(h->listener, http_part_closed, h);
    uv_close((uv_handle_t *)&h->sweep, http_on_handle_closed);
    turns_close(&h->turns, http_part_closed, h);
}
