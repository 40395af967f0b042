#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "admin/http/tls_terminator.h"

#include "admin/http/connection_slots.h"
#include "base/list.h"
#include "base/log.h"
#include "net/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 128,
    LINKS_MAX = 1024, /* with those that the HTTP port has, and those that linger */
    PIECE = 65536,
    LINGER_MS = 1000,
    SWEEP_MS = 250,
    SUBJECT_MAX = 4096,
    SECURING_NICE = 5, /* of the thread that does handshakes: consensus goes first */
};

struct gate {
    uv_loop_t *loop;
    struct http *http;
    struct listener *listener;
    struct tls_context *context;
    bool unified;
    struct worker worker; /* does the handshakes, while `working` */
    bool working;
    struct list links;
    size_t count; /* of links, until they are closed */
    uv_timer_t sweep;
    unsigned open_parts; /* listener and timer, until closed */
    bool closing;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* One connection: its stream on one side, one end of a pair on the other. */
struct link {
    struct place place; /* in gate.links, of the handshake; the HTTP port has one for the rest */
    struct gate *gate;
    struct stream *stream;
    uv_poll_t poll;
    int fd;            /* our end, -1: not handed over yet */
    bool polling;      /* poll is initialised and not closed */
    bool full;         /* the pair takes nothing more for now */
    bool input_ended;  /* the client said its end */
    bool output_ended; /* the library did */
    bool closing;
    struct buf out; /* from the library, not taken by the stream */
    int open_parts; /* stream and poll, until closed */
};

static void gate_part_closed(void *ctx);

static void gate_check_gone(struct gate *g)
{
    if (!g->closing || g->open_parts > 0 || g->count > 0) {
        return;
    }
    if (g->working) {
        g->working = false;
        g->open_parts = 1;
        worker_close(&g->worker, gate_part_closed, g);
        return;
    }
    tls_context_release(g->context);
    if (g->closed != NULL) {
        g->closed(g->closed_ctx);
    }
    free(g);
}

static void link_part_closed(struct link *l)
{
    struct gate *g = l->gate;
    if (--l->open_parts > 0) {
        return;
    }
    if (l->fd >= 0) {
        close(l->fd);
    }
    buf_finish(&l->out);
    free(l);
    g->count--;
    gate_check_gone(g);
}

static void link_on_poll_closed(uv_handle_t *handle)
{
    link_part_closed(handle->data);
}

/* The library's side goes: it sees the end of its socket. */
static void link_close_pair(struct link *l)
{
    if (l->polling) {
        l->polling = false;
        uv_close((uv_handle_t *)&l->poll, link_on_poll_closed);
    }
}

/* linger_ms 0: at once. */
static void link_close(struct link *l, unsigned linger_ms)
{
    if (l->closing) {
        return;
    }
    l->closing = true;
    list_remove(&l->place.node);
    link_close_pair(l);
    if (linger_ms > 0) {
        stream_finish(l->stream, linger_ms);
    } else {
        stream_close(l->stream);
    }
}

static void link_on_poll(uv_poll_t *poll, int status, int events);

static void link_watch(struct link *l)
{
    int events =
        (l->out.len == 0 && stream_sending(l->stream) == 0 && !l->output_ended ? UV_READABLE : 0) |
        (l->full ? UV_WRITABLE : 0);
    if (l->polling && !l->closing &&
        (events == 0 ? uv_poll_stop(&l->poll) : uv_poll_start(&l->poll, events, link_on_poll)) !=
            0) {
        link_close(l, 0);
    }
}

/* All that was read has been sent: the end follows. */
static void link_check_end(struct link *l)
{
    if (l->output_ended && l->out.len == 0 && stream_sending(l->stream) == 0) {
        link_close(l, LINGER_MS);
    }
}

static void link_read(struct link *l)
{
    if (buf_reserve(&l->out, PIECE) != 0) {
        link_close(l, 0);
        return;
    }
    ssize_t n = recv(l->fd, l->out.data + l->out.len, PIECE, MSG_DONTWAIT);
    if (n > 0) {
        l->out.len += (size_t)n;
        stream_send(l->stream, &l->out);
    } else if (n == 0 || errno != EAGAIN) {
        l->output_ended = true;
    }
}

static void link_on_poll(uv_poll_t *poll, int status, int events)
{
    struct link *l = poll->data;
    if (status != 0 || (events & UV_READABLE) != 0) {
        link_read(l);
    }
    if (!l->closing && (events & UV_WRITABLE) != 0) {
        l->full = false;
        stream_resume(l->stream);
    }
    if (!l->closing) {
        link_check_end(l);
    }
    if (!l->closing) {
        link_watch(l);
    }
}

/* Hands the connection over to the library. */
static bool link_adopt(struct link *l)
{
    int pair[2];
    struct buf subject;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        return false;
    }
    buf_init(&subject, SUBJECT_MAX);
    stream_peer_subject(l->stream, &subject);
    l->fd = pair[0];
    l->place.leaving = true; /* from now on the HTTP port decides */
    if (!buf_ok(&subject)) {
        buf_finish(&subject);
        close(pair[1]);
        return false;
    }
    int rc = http_adopt(l->gate->http, pair[1], stream_peer(l->stream), buf_slice(&subject));
    buf_finish(&subject);
    if (rc != 0) {
        return false;
    }
    if (uv_poll_init(l->gate->loop, &l->poll, l->fd) != 0) {
        return false;
    }
    l->poll.data = l;
    l->polling = true;
    l->open_parts++;
    link_watch(l);
    return true;
}

static size_t link_on_data(void *owner, struct slice bytes)
{
    struct link *l = owner;
    if (l->closing || (l->fd < 0 && !link_adopt(l))) {
        link_close(l, 0);
        return bytes.len;
    }
    ssize_t n = send(l->fd, bytes.data, bytes.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) {
        return bytes.len; /* the library has closed its end: nobody wants them */
    }
    size_t taken = n > 0 ? (size_t)n : 0;
    if (taken < bytes.len) {
        l->full = true;
        stream_pause(l->stream);
        link_watch(l);
    }
    return taken;
}

static void link_on_sent(void *owner)
{
    struct link *l = owner;
    if (l->closing) {
        return;
    }
    stream_send(l->stream, &l->out);
    link_check_end(l);
    if (!l->closing) {
        link_watch(l);
    }
}

static void link_on_secured(void *owner)
{
    struct link *l = owner;
    if (!l->closing && l->fd < 0 && !link_adopt(l)) {
        link_close(l, 0);
    }
}

static void link_on_ended(void *owner, int error)
{
    struct link *l = owner;
    const char *problem = stream_tls_problem(l->stream);
    if (problem != NULL) {
        /* Debug: an operator's port is asked by scanners, too, and the peer is told the reason. */
        log_debug("admin", "tls-refused", "peer=%s reason=\"%s\"", stream_peer(l->stream)->host,
                  problem);
        link_close(l, LINGER_MS);
    } else if (error != 0 || l->fd < 0 || l->input_ended) {
        link_close(l, 0);
    } else {
        /* Who says no more may still wait for his answer. */
        l->input_ended = true;
        (void)shutdown(l->fd, SHUT_WR); /* fails when the library was faster */
    }
}

static void link_on_closed(void *owner)
{
    link_part_closed(owner);
}

static const struct stream_handler link_handler = {
    .data = link_on_data,
    .sent = link_on_sent,
    .secured = link_on_secured,
    .ended = link_on_ended,
    .closed = link_on_closed,
};

/* Handshakes that lose their places. */
static void gate_make_room(struct gate *g)
{
    struct place *p;
    while ((p = places_surplus(&g->links, uv_now(g->loop))) != NULL) {
        link_close(CONTAINER_OF(p, struct link, place), 0);
    }
}

static void gate_on_accepted(void *ctx, struct stream *stream)
{
    struct gate *g = ctx;
    struct link *l = g->count < LINKS_MAX ? calloc(1, sizeof *l) : NULL;
    enum stream_tls mode = g->unified ? STREAM_TLS_OR_PLAIN : STREAM_TLS_ONLY;
    if (l == NULL || stream_use_tls(stream, g->context, mode, &g->worker) != 0) {
        free(l);
        stream_close(stream);
        return;
    }
    l->gate = g;
    l->stream = stream;
    l->fd = -1;
    l->open_parts = 1;
    buf_init(&l->out, 0);
    place_take(&l->place, &g->links, stream_peer(stream)->host, uv_now(g->loop));
    g->count++;
    gate_make_room(g);
    if (stream_start(stream, &link_handler, l) != 0) {
        link_close(l, 0);
    }
}

static void gate_on_refused(void *ctx, int error)
{
    (void)ctx;
    log_debug("admin", "connection-refused", "reason=\"%s\"", uv_strerror(error));
}

/* Ends those that have not come as far as a request, or whose handshake does not end. */
static void gate_on_sweep(uv_timer_t *timer)
{
    struct gate *g = timer->data;
    gate_make_room(g);
    LIST_FOREACH (it, &g->links) {
        struct link *l = CONTAINER_OF(it, struct link, place.node);
        if (l->fd < 0 && uv_now(g->loop) - l->place.since_ms >= HTTP_HEAD_MS) {
            link_close(l, 0);
        }
    }
}

static int gate_fail(int rc, int detail, const char **ret_reason)
{
    *ret_reason = rc == CONCLAVE_EBUSY      ? "the port is in use"
                  : rc == CONCLAVE_ERESOLVE ? "no such host on this machine"
                  : rc == CONCLAVE_ENOMEM   ? "out of memory"
                                            : uv_strerror(detail);
    return rc == CONCLAVE_EIO ? CONCLAVE_EDISCONNECTED : rc;
}

int gate_open(uv_loop_t *loop, const struct net_address *address, struct http *h,
              struct tls_context *context, bool unified, struct gate **ret, const char **ret_reason)
{
    struct gate *g = calloc(1, sizeof *g);
    int detail = 0;
    if (g == NULL) {
        return gate_fail(CONCLAVE_ENOMEM, 0, ret_reason);
    }
    g->loop = loop;
    g->http = h;
    g->unified = unified;
    list_init(&g->links);
    int rc = listener_open(loop, address, &g->listener, &detail);
    if (rc != 0) {
        free(g);
        return gate_fail(rc, detail, ret_reason);
    }
    const struct worker_options options = {.threads = 1, .nice = SECURING_NICE};
    rc = worker_init(&g->worker, loop, &options);
    g->working = rc == 0;
    struct listener_callbacks callbacks = {
        .accepted = gate_on_accepted, .refused = gate_on_refused, .ctx = g};
    g->context = tls_context_share(context);
    g->open_parts = 2;
    if (uv_timer_init(loop, &g->sweep) != 0 ||
        uv_timer_start(&g->sweep, gate_on_sweep, SWEEP_MS, SWEEP_MS) != 0) {
        abort(); /* neither can fail */
    }
    g->sweep.data = g;
    if (rc == 0) {
        rc = listener_start(g->listener, BACKLOG, &callbacks, &detail);
    }
    if (rc != 0) {
        gate_close(g, NULL, NULL);
        return gate_fail(rc, detail, ret_reason);
    }
    *ret = g;
    return 0;
}

void gate_set_tls(struct gate *g, struct tls_context *context)
{
    tls_context_release(g->context);
    g->context = tls_context_share(context);
}

void gate_address(const struct gate *g, struct net_address *ret)
{
    listener_address(g->listener, ret);
}

static void gate_part_closed(void *ctx)
{
    struct gate *g = ctx;
    g->open_parts--;
    gate_check_gone(g);
}

static void gate_on_timer_closed(uv_handle_t *handle)
{
    gate_part_closed(handle->data);
}

void gate_close(struct gate *g, void (*cb)(void *ctx), void *ctx)
{
    if (g == NULL) {
        return;
    }
    g->closing = true;
    g->closed = cb;
    g->closed_ctx = ctx;
    LIST_FOREACH (it, &g->links) {
        link_close(CONTAINER_OF(it, struct link, place.node), 0);
    }
    listener_close(g->listener, gate_part_closed, g);
    uv_close((uv_handle_t *)&g->sweep, gate_on_timer_closed);
}
