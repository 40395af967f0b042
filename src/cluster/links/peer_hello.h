/*
 * The bytes on a link between servers: frames, and the frames of channel 0, by which both ends identify themselves.
 *
 *     frame     length u32 (of what follows), channel u8, bytes
 *     channel 0 kind u8, then
 *       HELLO   magic u64, version u16, cluster 16, from u64, to u64, age u8, nonce u64,
 *               host: length u8, bytes            first on every connection, and its answer
 *       AGE     cluster 16, age u8                the sender's identity changed
 *       REFUSE  reason u8                         instead of the answer to a hello
 *       PING    nothing                           the sender is alive
 *
 * Numbers are big-endian. The nonce differs in each run of a server. Before the hello no frame may be longer than
 * HELLO_FRAME_MAX.
 */
#ifndef CLUSTER_LINKS_PEER_HELLO_H
#define CLUSTER_LINKS_PEER_HELLO_H

#include "cluster/links/peer.h"

enum {
    FRAME_HEADER = 5, /* length and channel */
    HELLO_VERSION = 1,
    HELLO_FRAME_MAX = 512,
};

#define HELLO_MAGIC 0x434f4e43504552a1u

enum control {
    CONTROL_HELLO = 1,
    CONTROL_AGE,
    CONTROL_REFUSE,
    CONTROL_PING,
};

/* X(name, text): why a hello is refused; the frame carries the number of the row. */
#define HELLO_REASON_MAP(X)                                                                        \
    X(NONE, "nothing")                                                                             \
    X(VERSION, "it uses another version of the link protocol")                                     \
    X(CLUSTER, "it belongs to another cluster")                                                    \
    X(TO, "it wants another server: server.N lines or myid files differ")                          \
    X(SELF, "it has the same id: myid must differ")                                                \
    X(TWICE, "another server with that id is linked: myid must differ")                            \
    X(HOST, "its certificate is not for the host of that server")                                  \
    X(CROWD, "too many servers that are not members")

enum hello_reason {
#define HELLO_REASON_ENUM(name, text) HELLO_BAD_##name,
    HELLO_REASON_MAP(HELLO_REASON_ENUM)
#undef HELLO_REASON_ENUM
        HELLO_REASONS
};

/* Fixed text of a reason, also for an unknown one. */
const char *hello_reason_text(unsigned reason);

struct hello {
    uint16_t version;
    struct peer_identity from;
    uint64_t to;
    uint64_t nonce;
    char host[NET_HOST_MAX]; /* the host by which others know it; "": none */
};

struct peer_frame {
    uint8_t channel;
    struct slice bytes;
};

/* Takes one frame from the front of *bytes. 1: taken; 0: incomplete; CONCLAVE_EPROTO: longer than max, or without a
 * channel. */
int frame_take(struct slice *bytes, size_t max, struct peer_frame *ret) CONCLAVE_MUST_USE;

/* Appends the header for n bytes. */
void frame_append_header(struct buf *out, uint8_t channel, size_t n);

/* Each appends a whole frame of channel 0. The buf records a failure. */
void hello_append(struct buf *out, const struct hello *h);
void age_append(struct buf *out, const struct peer_identity *identity);
void refuse_append(struct buf *out, enum hello_reason reason);
void ping_append(struct buf *out);

/* The kind of a frame of channel 0, and the bytes after it in *ret_rest; 0: the frame is empty. */
unsigned control_kind(struct slice bytes, struct slice *ret_rest);

/* Each reads the bytes after the kind. 0 or CONCLAVE_EPROTO. For a hello of another version only that field is set. */
int hello_read(struct slice rest, struct hello *ret) CONCLAVE_MUST_USE;
int age_read(struct slice rest, struct peer_identity *ret) CONCLAVE_MUST_USE; /* all but the id */
int refuse_read(struct slice rest, unsigned *ret_reason) CONCLAVE_MUST_USE;

#endif
