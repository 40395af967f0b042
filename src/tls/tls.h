/*
 * One TLS connection without a socket: bytes of the wire in, bytes of the stream out, and the other
 * way round. It never blocks and knows no time; whoever holds it sets the deadline for the
 * handshake. For net (on libuv) and client (on its own loop).
 *
 *     wire ──tls_read──> stream      stream ──tls_write──> tls_out ──> wire
 *
 * After each call the holder sends what stands in tls_out: the handshake, answers and alerts come
 * out there, too. Limits: what the peer makes us answer without reading it ends the connection at
 * TLS_OUT_MAX bytes.
 */
#ifndef TLS_TLS_H
#define TLS_TLS_H

#include "base/buf.h"
#include "tls/context.h"

enum {
    TLS_OUT_MAX = 256 * 1024, /* unsent bytes at which nothing more is read */
    TLS_HELLO = 0x16,         /* first byte of every TLS connection, and of no ZooKeeper packet */
};

struct tls;

/*
 * Begins a connection; the context may be released before it. `host` is the server's name for a
 * client, NULL for a server: it is asked for (SNI) and, with verify_host, must stand in the
 * certificate (a name or a numeric address; nothing is looked up). A client's hello stands in
 * tls_out at once. NULL when memory is out.
 */
struct tls *tls_create(struct tls_context *c, const char *host, bool verify_host);
void tls_destroy(struct tls *t);

/*
 * Continues a handshake with *bytes of the wire, and takes all of them while it is not done; when it is
 * done (tls_ready), the bytes left are for tls_read. 0, or CONCLAVE_ECLOSED or CONCLAVE_ETLS as
 * tls_read. tls_read does this itself; this is for a thread of its own: nothing else may use t
 * meanwhile.
 */
int tls_handshake(struct tls *t, struct slice *bytes) CONCLAVE_MUST_USE;

/*
 * Takes bytes of the wire from the front of *bytes and puts stream bytes into room. 0 with *ret_len
 * > 0: call again; 0 with *ret_len == 0: all was taken, more is needed. CONCLAVE_ECLOSED: the peer
 * ended the stream; CONCLAVE_ETLS: failed, tls_problem says why, and an alert for the peer stands
 * in tls_out; both are final.
 */
int tls_read(struct tls *t, struct slice *bytes, void *room, size_t len,
             size_t *ret_len) CONCLAVE_MUST_USE;

/* Encrypts all of bytes into tls_out; only when tls_ready. 0, CONCLAVE_ETLS or CONCLAVE_ENOMEM,
 * final. */
int tls_write(struct tls *t, struct slice bytes) CONCLAVE_MUST_USE;

/* Says end of stream to the peer, in tls_out. */
void tls_end(struct tls *t);

/* Whether the handshake is done, the peer's certificate verified. */
bool tls_ready(const struct tls *t);

/* Bytes for the wire. The holder takes them out, by consuming them or by swapping the buf for an
 * empty one. */
struct buf *tls_out(struct tls *t);

/* What failed, "" when nothing did: one line without quotes or control characters. */
const char *tls_problem(const struct tls *t);

/* Whether the peer's verified certificate is for the host, a name or a numeric address, by its
 * subject alternative names: neither wildcards nor the common name count. False without one. */
bool tls_peer_is_for(const struct tls *t, const char *host);

/* Appends the subject of the peer's verified certificate (certificate_name.h); nothing when there is none.
 * Failures show in the buf's mark. */
void tls_peer_subject(const struct tls *t, struct buf *out);

#endif
