/*
 * One TCP connection: bytes in, bytes out. Input that the owner does not take stays here and is
 * offered again; output goes out with one system call per stream_send, the rest when the peer has
 * room. Knows nothing of what the bytes mean. With stream_use_tls the bytes on the wire are TLS;
 * what the owner gives and gets stays the same.
 *
 * Limits: what is unread is bounded by the owner's pausing (one read of at most 64 KiB is kept
 * besides what the owner left); what is unsent is bounded by the owner, who sees it in
 * stream_sending. The process must not die of SIGPIPE: block or ignore it.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include "base/buf.h"
#include "net/address.h"
#include "net/worker.h"
#include "tls/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

enum { STREAM_READ_SIZE = 65536 };

struct stream;

/* What the owner is told. All calls come from the loop; `owner` is what stream_start was given. */
struct stream_handler {
    /* Bytes arrived. Returns how many it took from the front; the rest is offered again with what
     * follows, or at stream_resume. */
    size_t (*data)(void *owner, struct slice bytes);

    /* Everything given to stream_send has left: there may be more to send. */
    void (*sent)(void *owner);

    /* The first byte on a stream for both kinds is that of TLS: whether to go on. False: the owner
     * ends the stream. May be NULL: it goes on. */
    bool (*securing)(void *owner);

    /* The TLS handshake is done, the peer's certificate verified; no data came before. May be
     * NULL. */
    void (*secured)(void *owner);

    /* The peer closed (error 0) or the connection broke (error < 0, a libuv code; UV_EPROTO:
     * stream_tls_problem says why). Call stream_close, or after a failure of TLS stream_finish, so
     * that the peer learns the reason. */
    void (*ended)(void *owner, int error);

    /* After stream_close or stream_finish: the stream is gone with this call. */
    void (*closed)(void *owner);
};

/* Memory that a read goes into, shared by streams because it is in use only inside one callback.
 * Counted: the creator holds one reference, each stream another. */
struct stream_buffer;
struct stream_buffer *stream_buffer_create(void);
struct stream_buffer *stream_buffer_share(struct stream_buffer *b);
void stream_buffer_release(struct stream_buffer *b);

/* A stream without a connection; does nothing before stream_start. NULL when memory is out. For
 * listener and connector. */
struct stream *stream_create(uv_loop_t *loop, struct stream_buffer *read_buffer);

/* The handle to accept into, or to connect. */
uv_stream_t *stream_handle(struct stream *s);

/* Whether a peer may choose to speak without TLS. */
enum stream_tls {
    STREAM_TLS_ONLY,
    STREAM_TLS_OR_PLAIN, /* the first byte tells */
};

/* The server's side of TLS on this stream; before stream_start. The context is shared. The worker's
 * threads do the handshake; it must outlive the stream. NULL: the loop's thread does it. 0 or
 * CONCLAVE_ENOMEM. */
int stream_use_tls(struct stream *s, struct tls_context *context, enum stream_tls mode,
                   struct worker *worker) CONCLAVE_MUST_USE;

/* The client's side; before stream_start. host and verify_host as for tls_create. 0 or CONCLAVE_ENOMEM. */
int stream_use_tls_client(struct stream *s, struct tls_context *context, const char *host,
                          bool verify_host) CONCLAVE_MUST_USE;

/* How much is read at once while a frame is incomplete: more than the usual 4 KiB for a peer that
 * sends much. */
void stream_set_room(struct stream *s, size_t bytes);

/* Begins to read. 0, or CONCLAVE_EIO when the peer is gone already: call stream_close. */
int stream_start(struct stream *s, const struct stream_handler *handler,
                 void *owner) CONCLAVE_MUST_USE;

const struct net_address *stream_peer(const struct stream *s);

/* Why TLS failed (tls_problem), or NULL. */
const char *stream_tls_problem(const struct stream *s);

/* Whether the peer is in the middle of a TLS handshake. */
bool stream_in_handshake(const struct stream *s);

/* Whether the handshake waits for the worker, not for the peer. */
bool stream_awaits_worker(const struct stream *s);

/* Whether the peer's verified certificate is for the host (tls_peer_is_for). */
bool stream_peer_is_for(const struct stream *s, const char *host);

/* Appends the subject of the peer's verified certificate (tls_peer_subject). */
void stream_peer_subject(const struct stream *s, struct buf *out);

/* Stops and restarts the offering of input. stream_resume offers at once what is there. */
void stream_pause(struct stream *s);
void stream_resume(struct stream *s);
bool stream_paused(const struct stream *s);

/* Sends what is in `out`, or as much as the peer takes now, and empties it. While an earlier send
 * is on its way it leaves `out` as it is, to be tried again when `sent` is called. */
void stream_send(struct stream *s, struct buf *out);

/* Bytes given to stream_send that have not left. */
size_t stream_sending(const struct stream *s);

/* Sends what is on its way, says end of stream, waits up to linger_ms for the peer's end, then
 * closes. Input is dropped: without that a reply just sent could be lost to a reset. */
void stream_finish(struct stream *s, unsigned linger_ms);

/* Closes at once. */
void stream_close(struct stream *s);

#endif
