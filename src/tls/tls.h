/*
 * One TLS connection without a socket: bytes from the wire in, bytes of the stream out, and the other way round. It
 * never blocks and has no clock; its owner sets the deadline for the handshake. For net (on libuv) and client (on its
 * own loop).
 *
 *     wire ──tls_read──> stream      stream ──tls_write──> tls_out ──> wire
 *
 * After each call the owner sends the content of tls_out, which also contains handshake, answers and alerts. Limits: a
 * peer that makes us answer without reading is disconnected at TLS_OUT_MAX bytes.
 */
#ifndef TLS_TLS_H
#define TLS_TLS_H

#include "base/buf.h"
#include "tls/context.h"

enum {
    TLS_OUT_MAX = 256 * 1024, /* at so many unsent bytes nothing more is read */
    TLS_HELLO = 0x16,         /* first byte of every TLS connection, but of no ZooKeeper packet */
};

struct tls;

/*
 * Begins a connection; the context may be released earlier. `host` is the server's name for a client, NULL for a
 * server: it is sent as SNI and, with verify_host, must be in the certificate (a name or a numeric address; no
 * look-ups). A client's hello is in tls_out at once. NULL: out of memory.
 */
struct tls *tls_create(struct tls_context *c, const char *host, bool verify_host);
void tls_destroy(struct tls *t);

/*
 * Continues a handshake with *bytes from the wire, and takes all of them until it is complete (tls_ready); the rest is
 * for tls_read. 0, or CONCLAVE_ECLOSED or CONCLAVE_ETLS as tls_read. tls_read includes this; this function is for a
 * separate thread: nothing else may use t meanwhile.
 */
int tls_handshake(struct tls *t, struct slice *bytes) CONCLAVE_MUST_USE;

/*
 * Takes bytes from the wire from the front of *bytes and puts stream bytes into room. 0 with *ret_len > 0: call again;
 * 0 with *ret_len == 0: everything was taken, more is needed. CONCLAVE_ECLOSED: the peer ended the stream;
 * CONCLAVE_ETLS: failed, see tls_problem, and an alert for the peer is in tls_out; both are final.
 */
int tls_read(struct tls *t, struct slice *bytes, void *room, size_t len,
             size_t *ret_len) CONCLAVE_MUST_USE;

/* Encrypts all bytes into tls_out; only after tls_ready. 0, or CONCLAVE_ETLS or CONCLAVE_ENOMEM, which are final. */
int tls_write(struct tls *t, struct slice bytes) CONCLAVE_MUST_USE;

/* Puts end of stream for the peer into tls_out. */
void tls_end(struct tls *t);

/* Whether the handshake is complete and the peer's certificate verified. */
bool tls_ready(const struct tls *t);

/* Bytes for the wire. The owner removes them by consuming them, or by swapping the buf for an empty one. */
struct buf *tls_out(struct tls *t);

/* The reason of a failure, one line without quotes or control characters; "": none. */
const char *tls_problem(const struct tls *t);

/* Whether the peer's verified certificate is for the host, a name or a numeric address: only subject alternative names
 * count, without wildcards. False: no certificate. */
bool tls_peer_is_for(const struct tls *t, const char *host);

/* Appends the subject of the peer's verified certificate (certificate_name.h); nothing if there is none. The buf
 * records a failure. */
void tls_peer_subject(const struct tls *t, struct buf *out);

#endif
