/*
 * One TCP connection: bytes in, bytes out. Input that the owner does not take stays here and is offered again. Output
 * leaves with one system call per stream_send, the rest when the peer has room. The stream does not know the meaning of
 * the bytes. With stream_use_tls the bytes on the wire are TLS; for the owner nothing changes.
 *
 * Limits: the owner bounds unread input by pausing (one read of at most 64 KiB is kept besides what the owner left),
 * and unsent output by stream_sending. The process must block or ignore SIGPIPE.
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

/* Callbacks to the owner, all from the loop; `owner` is the argument of stream_start. */
struct stream_handler {
    /* Bytes arrived. Returns how many it took from the front; the rest is offered again with later input, or by
     * stream_resume. */
    size_t (*data)(void *owner, struct slice bytes);

    /* Everything given to stream_send was sent: there may be more to send. */
    void (*sent)(void *owner);

    /* The first byte on a stream for both kinds is TLS: returns whether to continue. False: the owner ends the stream.
     * NULL: always continues. */
    bool (*securing)(void *owner);

    /* The TLS handshake is complete and the peer's certificate verified; no data came before. May be NULL. */
    void (*secured)(void *owner);

    /* The peer closed (error 0) or the connection broke (error < 0, a libuv code; UV_EPROTO: see stream_tls_problem).
     * Call stream_close, or after a failure of TLS stream_finish, so that the peer learns the reason. */
    void (*ended)(void *owner, int error);

    /* After stream_close or stream_finish: the stream is freed after this call. */
    void (*closed)(void *owner);
};

/* Memory for reads, shared by streams because it is in use only inside one callback. It is counted: the creator holds
 * one reference, each stream another. */
struct stream_buffer;
struct stream_buffer *stream_buffer_create(void);
struct stream_buffer *stream_buffer_share(struct stream_buffer *b);
void stream_buffer_release(struct stream_buffer *b);

/* A stream without a connection; inactive before stream_start. NULL: out of memory. For listener and connector. */
struct stream *stream_create(uv_loop_t *loop, struct stream_buffer *read_buffer);

/* The handle to accept into, or to connect. */
uv_stream_t *stream_handle(struct stream *s);

/* Whether the peer may choose plain text. */
enum stream_tls {
    STREAM_TLS_ONLY,
    STREAM_TLS_OR_PLAIN, /* the first byte decides */
};

/* Makes this stream the server's side of TLS; before stream_start. The context is shared. The worker's threads do the
 * handshake; it must outlive the stream. NULL: the loop's thread does it. 0 or CONCLAVE_ENOMEM. */
int stream_use_tls(struct stream *s, struct tls_context *context, enum stream_tls mode,
                   struct worker *worker) CONCLAVE_MUST_USE;

/* Makes it the client's side; before stream_start. host and verify_host as for tls_create. 0 or CONCLAVE_ENOMEM. */
int stream_use_tls_client(struct stream *s, struct tls_context *context, const char *host,
                          bool verify_host) CONCLAVE_MUST_USE;

/* Sets how much is read at once while a frame is incomplete: more than the usual 4 KiB for peers that send much. */
void stream_set_room(struct stream *s, size_t bytes);

/* Begins to read. 0, or CONCLAVE_EIO: the peer is already gone, call stream_close. */
int stream_start(struct stream *s, const struct stream_handler *handler,
                 void *owner) CONCLAVE_MUST_USE;

const struct net_address *stream_peer(const struct stream *s);

/* The address of this end; host "?" without a connection. */
void stream_local(struct stream *s, struct net_address *ret);

/* The reason why TLS failed (tls_problem), or NULL. */
const char *stream_tls_problem(const struct stream *s);

/* Whether a TLS handshake is in progress. */
bool stream_in_handshake(const struct stream *s);

/* Whether the handshake waits for the worker, not for the peer. */
bool stream_awaits_worker(const struct stream *s);

/* Whether the peer's verified certificate is for the host (tls_peer_is_for). */
bool stream_peer_is_for(const struct stream *s, const char *host);

/* Appends the subject of the peer's verified certificate (tls_peer_subject). */
void stream_peer_subject(const struct stream *s, struct buf *out);

/* Stops and restarts the offering of input. stream_resume offers waiting input at once. */
void stream_pause(struct stream *s);
void stream_resume(struct stream *s);
bool stream_paused(const struct stream *s);

/* Sends the content of `out`, as much as the peer accepts now, and empties it. While an earlier send is active, it
 * leaves `out` as it is: try again when `sent` is called. */
void stream_send(struct stream *s, struct buf *out);

/* Bytes given to stream_send that were not sent yet. */
size_t stream_sending(const struct stream *s);

/* Makes the kernel probe a peer that sends nothing for idle_s seconds, every interval_s seconds and so many times; then
 * the stream ends. A failure has no effect but that there are no probes. */
void stream_probe(struct stream *s, int idle_s, int interval_s, int count);

/* The kernel's view of the connection. */
struct stream_tcp {
    uint32_t unacknowledged;  /* bytes that the peer's host has not acknowledged, sent or not */
    uint32_t retransmits;     /* in a row, without an acknowledgement */
    uint32_t retransmits_all; /* since the beginning */
    uint32_t probes;          /* in a row without an answer */
    int64_t heard_ms;         /* since the last segment from the peer's host */
};

/* False: there is no connection. */
bool stream_tcp(const struct stream *s, struct stream_tcp *ret);

/* Sends the rest, then end of stream, waits up to linger_ms for the peer's end, then closes. Input is read and dropped,
 * because unread input would cause a reset, and the last reply could be lost. */
void stream_finish(struct stream *s, unsigned linger_ms);

/* Closes at once. */
void stream_close(struct stream *s);

#endif
