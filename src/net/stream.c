#include "net/stream.h"

#include <assert.h>
#include <linux/sockios.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>

enum {
    UNREAD_ROOM_MIN = 4096, /* least room for an incomplete frame */
    UNREAD_KEEP = 16384,    /* larger blocks are freed when empty */
};

struct stream_buffer {
    size_t references;
    char bytes[STREAM_READ_SIZE]; /* as read */
    char plain[STREAM_READ_SIZE]; /* decrypted */
};

/* A handshake on a worker's thread. While `active`, the TLS connection and `in` belong to the worker; the stream reads
 * nothing, so there is one step at a time. */
struct securing {
    struct worker_job job;
    struct stream *stream;
    struct worker *worker;
    struct tls *tls;
    struct buf in;       /* bytes from the wire for the next step */
    size_t left;         /* bytes left after the step */
    int rc;              /* result of tls_handshake */
    bool active;         /* a step was given to the worker */
    atomic_bool dropped; /* the stream is closing: skip the step */
};

struct stream {
    uv_tcp_t tcp;
    uv_timer_t linger;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct stream_buffer *read_buffer; /* shared with other streams */
    struct buf unread;                 /* input that the owner has not taken yet */
    struct buf writing;                /* bytes of the active write request */
    const struct stream_handler *handler;
    void *owner;
    struct net_address peer;
    struct tls *tls;             /* NULL: plain, or not known yet */
    struct tls_context *unknown; /* set until the first byte shows whether this is TLS */
    struct worker *worker;       /* for the handshake; NULL: the loop's thread does it */
    struct securing *securing;   /* NULL: no handshake, or the loop's thread does it */
    bool secured;                /* the TLS handshake is done */
    bool end_waits;    /* the peer ended it while the owner had paused, or the rest is being sent */
    size_t room;       /* least room for an incomplete frame */
    size_t written;    /* bytes of `writing` that the first attempt wrote */
    bool write_active; /* the write request is in use */
    bool paused;       /* by the owner */
    bool offering;     /* inside handler->data */
    bool finishing;    /* stream_finish was called: input is dropped */
    bool shut;         /* the end of stream was sent or is being sent */
    bool closing;
    int parts; /* handles, and a step of the worker: not closed yet */
};

struct stream_buffer *stream_buffer_create(void)
{
    struct stream_buffer *b = malloc(sizeof *b);
    if (b != NULL) {
        b->references = 1;
    }
    return b;
}

struct stream_buffer *stream_buffer_share(struct stream_buffer *b)
{
    assert(b->references > 0);
    b->references++;
    return b;
}

void stream_buffer_release(struct stream_buffer *b)
{
    if (b == NULL) {
        return;
    }
    assert(b->references > 0);
    if (--b->references == 0) {
        free(b);
    }
}

static void stream_flush(struct stream *s);

static void securing_free(struct securing *x)
{
    if (x != NULL) {
        buf_finish(&x->in);
        free(x);
    }
}

static bool stream_is_with_worker(const struct stream *s)
{
    return s->securing != NULL && s->securing->active;
}

static void stream_part_closed(struct stream *s)
{
    assert(s->parts > 0);
    if (--s->parts > 0) {
        return;
    }
    assert(s->closing && !s->write_active && !stream_is_with_worker(s));
    if (s->handler != NULL) {
        s->handler->closed(s->owner);
    }
    buf_finish(&s->unread);
    buf_finish(&s->writing);
    securing_free(s->securing);
    tls_destroy(s->tls);
    tls_context_release(s->unknown);
    stream_buffer_release(s->read_buffer);
    free(s);
}

static void stream_handle_closed(uv_handle_t *handle)
{
    stream_part_closed(handle->data);
}

struct stream *stream_create(uv_loop_t *loop, struct stream_buffer *read_buffer)
{
    struct stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    buf_init(&s->unread, 0);
    buf_init(&s->writing, 0);
    if (uv_tcp_init(loop, &s->tcp) != 0) {
        free(s);
        return NULL;
    }
    if (uv_timer_init(loop, &s->linger) != 0) {
        abort(); /* cannot fail: it allocates nothing */
    }
    s->tcp.data = s;
    s->linger.data = s;
    s->parts = 2;
    s->room = UNREAD_ROOM_MIN;
    s->read_buffer = stream_buffer_share(read_buffer);
    s->peer = (struct net_address){.host = "?"};
    return s;
}

uv_stream_t *stream_handle(struct stream *s)
{
    return (uv_stream_t *)&s->tcp;
}

/* Offers bytes at the beginning of `unread` to the owner. */
static void stream_offer_unread(struct stream *s)
{
    assert(!s->offering && !s->paused);
    s->offering = true;
    size_t taken = s->handler->data(s->owner, buf_slice(&s->unread));
    s->offering = false;
    buf_consume(&s->unread, taken);
    if (s->unread.len == 0 && s->unread.cap > UNREAD_KEEP) {
        buf_finish(&s->unread);
    }
}

static void stream_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct stream *s = handle->data;
    if (s->unread.len == 0 || s->finishing || s->tls != NULL) {
        *buf = uv_buf_init(s->read_buffer->bytes, STREAM_READ_SIZE);
        return;
    }
    size_t room = s->unread.len < STREAM_READ_SIZE ? s->unread.len : STREAM_READ_SIZE;
    if (room < s->room) {
        room = s->room;
    }
    if (buf_reserve(&s->unread, room) != 0) {
        *buf = uv_buf_init(NULL, 0); /* the read then fails with UV_ENOBUFS */
        return;
    }
    *buf = uv_buf_init((char *)s->unread.data + s->unread.len, (unsigned)room);
}

static bool stream_is_over(const struct stream *s)
{
    return s->closing || s->finishing;
}

static void stream_tell_end(struct stream *s, int error)
{
    uv_read_stop(stream_handle(s));
    if (s->finishing && error == 0 && s->write_active) {
        s->end_waits = true; /* the peer has closed its side only: it still reads */
    } else if (s->finishing) {
        stream_close(s);
    } else if (!s->closing) {
        s->handler->ended(s->owner, error);
    }
}

/* Handles bytes of the stream that are not in `unread`. */
static void stream_take(struct stream *s, struct slice bytes)
{
    size_t taken = 0;
    bool fresh = s->unread.len == 0 && !s->paused;
    if (fresh) {
        s->offering = true;
        taken = s->handler->data(s->owner, bytes);
        s->offering = false;
        assert(taken <= bytes.len);
    }
    if (taken == bytes.len || stream_is_over(s)) {
        return;
    }
    buf_append(&s->unread, bytes.data + taken, bytes.len - taken);
    if (!buf_ok(&s->unread)) {
        stream_tell_end(s, UV_ENOMEM);
    } else if (!fresh && !s->paused) {
        stream_offer_unread(s);
    }
}

static void stream_check_secured(struct stream *s)
{
    if (!s->secured && tls_ready(s->tls)) {
        s->secured = true;
        if (s->handler->secured != NULL) {
            s->handler->secured(s->owner);
        }
    }
}

/* Decrypts all bytes from the wire at once, so that none must be kept. */
static void stream_decrypt(struct stream *s, struct slice bytes)
{
    char *plain = s->read_buffer->plain;
    size_t room = sizeof s->read_buffer->plain;
    size_t len;
    int rc;
    do {
        size_t filled = 0;
        do {
            rc = tls_read(s->tls, &bytes, plain + filled, room - filled, &len);
            filled += len;
        } while (rc == 0 && len > 0 && filled < room);
        stream_check_secured(s);
        stream_flush(s);
        if (filled > 0 && !stream_is_over(s)) {
            stream_take(s, slice_make(plain, filled));
        }
    } while (rc == 0 && len > 0 && !stream_is_over(s));
    if (rc == 0 || stream_is_over(s)) {
        return;
    }
    if (rc == CONCLAVE_ECLOSED && s->paused) {
        s->end_waits = true; /* the owner has not taken all earlier input */
        uv_read_stop(stream_handle(s));
    } else {
        stream_tell_end(s, rc == CONCLAVE_ECLOSED ? 0 : UV_EPROTO);
    }
}

/* The handshake on a worker's thread */

static void securing_work(struct worker_job *job)
{
    struct securing *x = CONTAINER_OF(job, struct securing, job);
    struct slice bytes = buf_slice(&x->in);
    if (!atomic_load(&x->dropped)) {
        x->rc = tls_handshake(x->tls, &bytes);
    }
    x->left = bytes.len;
}

/* The handshake is done: the bytes after it belong to the stream. */
static void stream_end_securing(struct stream *s)
{
    struct securing *x = s->securing;
    s->securing = NULL;
    if (x->in.len > 0 && !stream_is_over(s)) {
        stream_decrypt(s, buf_slice(&x->in));
    }
    securing_free(x);
}

static void stream_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void stream_on_read(uv_stream_t *handle, ssize_t nread, const uv_buf_t *buf);

static void stream_read_on(struct stream *s)
{
    int rc = uv_read_start(stream_handle(s), stream_on_alloc, stream_on_read);
    if (rc != 0 && rc != UV_EALREADY) {
        s->handler->ended(s->owner, UV_EIO);
    }
}

static void stream_on_step(struct stream *s, struct securing *x)
{
    int rc = x->rc;
    assert(x->left <= x->in.len);
    buf_consume(&x->in, x->in.len - x->left);
    if (rc == 0) {
        stream_check_secured(s);
    }
    if (stream_is_over(s)) {
        return;
    }
    stream_flush(s);
    if (rc != 0) {
        stream_tell_end(s, rc == CONCLAVE_ECLOSED ? 0 : UV_EPROTO);
    } else if (s->secured) {
        stream_end_securing(s);
    }
    if (!s->paused && !stream_is_over(s) && rc == 0) {
        stream_read_on(s);
    }
}

static void securing_done(struct worker_job *job)
{
    struct securing *x = CONTAINER_OF(job, struct securing, job);
    struct stream *s = x->stream;
    assert(x->active && s->securing == x);
    x->active = false;
    if (!s->closing) {
        stream_on_step(s, x);
    }
    stream_part_closed(s);
}

/* Gives bytes from the wire to the worker; reads nothing more until it is done with them. */
static void stream_secure(struct stream *s, struct slice bytes)
{
    struct securing *x = s->securing;
    assert(!stream_is_with_worker(s));
    if (x == NULL) {
        x = s->securing = calloc(1, sizeof *x);
        if (x != NULL) {
            buf_init(&x->in, 0);
        }
    }
    if (x != NULL) {
        buf_append_slice(&x->in, bytes);
    }
    if (x == NULL || !buf_ok(&x->in)) {
        stream_tell_end(s, UV_ENOMEM);
        return;
    }
    uv_read_stop(stream_handle(s));
    x->job = (struct worker_job){.work = securing_work, .done = securing_done};
    x->stream = s;
    x->tls = s->tls;
    x->active = true;
    s->parts++;
    worker_submit(s->worker, &x->job);
}

/* Decides by the first byte on a port for both kinds; false: the byte was the last one. */
static bool stream_decide(struct stream *s, char first)
{
    struct tls_context *context = s->unknown;
    bool refused = false;
    s->unknown = NULL;
    if (first == TLS_HELLO) {
        s->tls = tls_create(context, NULL, false);
        refused = s->tls != NULL && s->handler->securing != NULL && !s->handler->securing(s->owner);
        if (s->tls == NULL) {
            stream_tell_end(s, UV_ENOMEM);
        }
    }
    tls_context_release(context);
    if (refused) {
        uv_read_stop(stream_handle(s));
    }
    return !refused && !s->closing && (first != TLS_HELLO || s->tls != NULL);
}

static void stream_on_read(uv_stream_t *handle, ssize_t nread, const uv_buf_t *buf)
{
    struct stream *s = handle->data;
    if (nread == 0) {
        return;
    }
    if (nread < 0) {
        stream_tell_end(s, nread == UV_EOF ? 0 : (int)nread);
        return;
    }
    if (s->finishing) {
        return;
    }
    size_t len = (size_t)nread;
    if (buf->base != s->read_buffer->bytes) {
        assert(buf->base == (char *)s->unread.data + s->unread.len);
        assert(len <= s->unread.cap - s->unread.len);
        s->unread.len += len;
        stream_offer_unread(s);
        return;
    }
    if (s->unknown != NULL && !stream_decide(s, buf->base[0])) {
        return;
    }
    if (s->tls != NULL && s->worker != NULL && !s->secured) {
        stream_secure(s, slice_make(buf->base, len));
    } else if (s->tls != NULL) {
        stream_decrypt(s, slice_make(buf->base, len));
    } else {
        stream_take(s, slice_make(buf->base, len));
    }
}

int stream_use_tls(struct stream *s, struct tls_context *context, enum stream_tls mode,
                   struct worker *worker)
{
    assert(s->handler == NULL && s->tls == NULL && s->unknown == NULL);
    s->worker = worker;
    if (mode == STREAM_TLS_OR_PLAIN) {
        s->unknown = tls_context_share(context);
        return 0;
    }
    s->tls = tls_create(context, NULL, false);
    return s->tls != NULL ? 0 : CONCLAVE_ENOMEM;
}

int stream_use_tls_client(struct stream *s, struct tls_context *context, const char *host,
                          bool verify_host)
{
    s->tls = tls_create(context, host, verify_host);
    return s->tls != NULL ? 0 : CONCLAVE_ENOMEM;
}

void stream_set_room(struct stream *s, size_t bytes)
{
    s->room = bytes;
}

int stream_start(struct stream *s, const struct stream_handler *handler, void *owner)
{
    struct sockaddr_storage sa;
    int len = sizeof sa;
    assert(s->handler == NULL && !s->closing);
    s->handler = handler;
    s->owner = owner;
    if (uv_tcp_getpeername(&s->tcp, (struct sockaddr *)&sa, &len) != 0) {
        return CONCLAVE_EIO;
    }
    net_address_of((const struct sockaddr *)&sa, &s->peer);
    /* Small replies must not wait for the acknowledgement of earlier ones. */
    if (uv_tcp_nodelay(&s->tcp, 1) != 0 ||
        uv_read_start(stream_handle(s), stream_on_alloc, stream_on_read) != 0) {
        return CONCLAVE_EIO;
    }
    stream_flush(s); /* the hello of a client */
    return 0;
}

void stream_local(struct stream *s, struct net_address *ret)
{
    struct sockaddr_storage sa = {.ss_family = AF_UNSPEC};
    int len = sizeof sa;
    (void)uv_tcp_getsockname(&s->tcp, (struct sockaddr *)&sa, &len);
    net_address_of((const struct sockaddr *)&sa, ret);
}

const struct net_address *stream_peer(const struct stream *s)
{
    return &s->peer;
}

const char *stream_tls_problem(const struct stream *s)
{
    bool known = s->tls != NULL && !stream_is_with_worker(s);
    return known && tls_problem(s->tls)[0] != '\0' ? tls_problem(s->tls) : NULL;
}

bool stream_in_handshake(const struct stream *s)
{
    return s->tls != NULL && !s->secured;
}

bool stream_awaits_worker(const struct stream *s)
{
    return stream_is_with_worker(s);
}

void stream_peer_subject(const struct stream *s, struct buf *out)
{
    if (s->secured) {
        tls_peer_subject(s->tls, out);
    }
}

bool stream_peer_is_for(const struct stream *s, const char *host)
{
    return s->secured && tls_peer_is_for(s->tls, host);
}

void stream_pause(struct stream *s)
{
    if (!s->paused && !s->closing && !s->finishing) {
        s->paused = true;
        uv_read_stop(stream_handle(s));
    }
}

void stream_resume(struct stream *s)
{
    if (!s->paused || s->closing || s->finishing) {
        return;
    }
    s->paused = false;
    if (stream_is_with_worker(s)) {
        return; /* reading continues when the worker is done */
    }
    if (s->unread.len > 0 && !s->offering) {
        stream_offer_unread(s);
    }
    /* The owner may have paused, finished or closed while it took the input. */
    if (s->paused || stream_is_over(s)) {
        return;
    }
    if (s->end_waits) {
        s->end_waits = false;
        stream_tell_end(s, 0);
        return;
    }
    stream_read_on(s);
}

bool stream_paused(const struct stream *s)
{
    return s->paused;
}

static void stream_on_shutdown(uv_shutdown_t *req, int status)
{
    struct stream *s = req->data;
    if (status != 0) {
        stream_close(s);
    }
}

/* Sends end of stream when no write is active. */
static void stream_shut(struct stream *s)
{
    if (s->shut || s->write_active || s->closing) {
        return;
    }
    s->shut = true;
    s->shutdown.data = s;
    if (uv_shutdown(&s->shutdown, stream_handle(s), stream_on_shutdown) != 0) {
        stream_close(s);
    }
}

static void stream_on_written(uv_write_t *req, int status)
{
    struct stream *s = req->data;
    s->write_active = false;
    buf_reset(&s->writing);
    s->written = 0;
    if (s->writing.cap > UNREAD_KEEP) {
        buf_finish(&s->writing);
    }
    if (s->closing) {
        return;
    }
    if (status != 0) {
        if (s->finishing) {
            stream_close(s);
        } else {
            s->handler->ended(s->owner, status);
        }
        return;
    }
    stream_flush(s);
    if (s->write_active || s->closing) {
        return;
    }
    if (s->finishing && s->end_waits) {
        stream_close(s);
    } else if (s->finishing) {
        stream_shut(s);
    } else {
        s->handler->sent(s->owner);
    }
}

/* Writes bytes to the wire; takes all of `out`. No write may be active. */
static void stream_write(struct stream *s, struct buf *out)
{
    assert(!s->write_active && s->writing.len == 0);
    uv_buf_t bytes = uv_buf_init((char *)out->data, (unsigned)out->len);
    int n = uv_try_write(stream_handle(s), &bytes, 1);
    if (n == (int)out->len) {
        buf_reset(out);
        if (out->cap > UNREAD_KEEP) {
            buf_finish(out);
        }
        return;
    }
    /* The write request repeats an error, and its callback reports it. */
    s->written = n > 0 ? (size_t)n : 0;
    struct buf empty = s->writing;
    s->writing = *out;
    *out = empty;
    bytes =
        uv_buf_init((char *)s->writing.data + s->written, (unsigned)(s->writing.len - s->written));
    s->write.data = s;
    s->write_active = true;
    if (uv_write(&s->write, stream_handle(s), &bytes, 1, stream_on_written) != 0) {
        s->write_active = false;
        buf_reset(&s->writing);
        s->written = 0;
        if (s->finishing) {
            stream_close(s);
        } else {
            s->handler->ended(s->owner, UV_EPIPE);
        }
    }
}

/* Sends the output of TLS. */
static void stream_flush(struct stream *s)
{
    if (s->tls != NULL && !stream_is_with_worker(s) && tls_out(s->tls)->len > 0 &&
        !s->write_active && !s->closing && !s->shut) {
        stream_write(s, tls_out(s->tls));
    }
}

static void stream_send_tls(struct stream *s, struct buf *out)
{
    if (!s->secured) {
        return; /* the peer is not authenticated yet; the owner sends after `secured` */
    }
    int rc = tls_write(s->tls, buf_slice(out));
    buf_reset(out);
    if (out->cap > UNREAD_KEEP) {
        buf_finish(out);
    }
    stream_flush(s);
    if (rc != 0) {
        stream_tell_end(s, rc == CONCLAVE_ENOMEM ? UV_ENOMEM : UV_EPROTO);
    }
}

void stream_send(struct stream *s, struct buf *out)
{
    if (out->len == 0 || s->write_active || s->closing) {
        return;
    }
    if (s->tls != NULL) {
        stream_send_tls(s, out);
    } else {
        stream_write(s, out);
    }
}

size_t stream_sending(const struct stream *s)
{
    if (!s->write_active) {
        return 0;
    }
    return uv_stream_get_write_queue_size((const uv_stream_t *)&s->tcp);
}

static void stream_on_linger(uv_timer_t *timer)
{
    stream_close(timer->data);
}

void stream_finish(struct stream *s, unsigned linger_ms)
{
    if (s->finishing || s->closing) {
        return;
    }
    if (stream_is_with_worker(s)) {
        stream_close(s); /* nothing was sent yet that could be lost */
        return;
    }
    s->finishing = true;
    int rc = uv_read_start(stream_handle(s), stream_on_alloc, stream_on_read);
    if ((rc != 0 && rc != UV_EALREADY) ||
        uv_timer_start(&s->linger, stream_on_linger, linger_ms, 0) != 0) {
        stream_close(s);
        return;
    }
    if (s->tls != NULL) {
        tls_end(s->tls);
        stream_flush(s);
    }
    stream_shut(s);
}

void stream_close(struct stream *s)
{
    if (s->closing) {
        return;
    }
    s->closing = true;
    if (stream_is_with_worker(s)) {
        atomic_store(&s->securing->dropped, true);
    }
    uv_close((uv_handle_t *)&s->tcp, stream_handle_closed);
    uv_close((uv_handle_t *)&s->linger, stream_handle_closed);
}

/* The kernel's view */

static int stream_socket(const struct stream *s)
{
    uv_os_fd_t fd = -1;
    return !s->closing && uv_fileno((const uv_handle_t *)&s->tcp, &fd) == 0 ? fd : -1;
}

void stream_probe(struct stream *s, int idle_s, int interval_s, int count)
{
    const int on = 1;
    int fd = stream_socket(s);
    if (fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s) == 0 &&
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s) == 0 &&
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count) == 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
}

bool stream_tcp(const struct stream *s, struct stream_tcp *ret)
{
    struct tcp_info info;
    socklen_t len = sizeof info;
    int fd = stream_socket(s);
    int unsent = 0;
    if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 || len < sizeof info) {
        return false;
    }
    (void)ioctl(fd, SIOCOUTQ, &unsent);
    *ret = (struct stream_tcp){
        .unacknowledged = (uint32_t)unsent,
        .retransmits = info.tcpi_retransmits,
        .retransmits_all = info.tcpi_total_retrans,
        .probes = info.tcpi_probes,
        .heard_ms = info.tcpi_last_ack_recv < info.tcpi_last_data_recv ? info.tcpi_last_ack_recv
                                                                       : info.tcpi_last_data_recv,
    };
    return true;
}
