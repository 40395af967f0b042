/*
 * Authenticated links between the servers of an ensemble: who is there, and frames of bytes in
 * both directions. Knows nothing of what the bytes mean.
 *
 *     me ──connect──> peer   frames from me          one TCP connection per direction: what is
 *     me <──accept─── peer   frames from the peer    accepted is only read, save for the handshake
 *
 * Both sides prove who they are before a byte of a frame is looked at: by a shared secret (TLS 1.3
 * with an external PSK) or by certificates (mutual TLS). Then each says its id, its cluster and how
 * old it is. A link is up while both connections stand; the end of either, or silence, ends both,
 * and they are made anew. Frames arrive whole and in order as long as a link is up, or not at all.
 *
 * Limits: a frame has 64 MiB at most; a queue takes nothing new from 16 MiB on; 64 strangers in
 * the handshake, which lasts at most 2 s. All functions belong to the loop's thread. The process must not
 * die of SIGPIPE.
 */
#ifndef CLUSTER_LINKS_PEER_H
#define CLUSTER_LINKS_PEER_H

#include "base/buf.h"
#include "net/address.h"
#include "tls/context.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum {
    PEER_CLUSTER_SIZE = 16,
    PEER_FRAME_MAX = 64 << 20,
    PEER_QUEUE_MAX = 16 << 20,
    PEER_SECRET_MIN = 16, /* bytes of a secret that is worth the name */
};

enum peer_age {
    PEER_FRESH,   /* an empty folder; cluster all zero */
    PEER_FOUNDED, /* the log has only the founding entry */
    PEER_GROWN,   /* more than that */
    PEER_LOST, /* a member that has not, or cannot use, what it had: others have it; cluster all zero: unknown */
};

struct peer_identity {
    uint64_t id;
    uint8_t cluster[PEER_CLUSTER_SIZE];
    enum peer_age age;
};

enum peer_security {
    PEER_SECURITY_NONE, /* only where nobody else can reach the addresses: on loopback */
    PEER_SECURITY_SECRET,
    PEER_SECURITY_CERTIFICATES,
};

struct peer_options {
    const struct net_address *listen; /* where peers connect to; port 0 takes a free one */
    size_t n_listen;
    struct peer_identity identity; /* of this server */
    const char *host;              /* the name that peers know this server by; NULL: none */
    enum peer_security security;
    struct slice secret; /* with SECRET; PEER_SECRET_MIN bytes or more */
    /* with CERTIFICATES; `server` and `peer` are not read */
    const struct tls_settings *certificates;
    bool verify_hosts; /* with CERTIFICATES: they must be for the member's host, by SAN */
    int silence_ms;    /* after which a link that says nothing is dead; 0: 800 */
};

/* A server to connect to. Several addresses of one server are several hosts. */
struct peer_member {
    uint64_t id;
    const struct net_address *hosts; /* tried in turn */
    size_t n_hosts;
};

struct peers;

/* Calls come from the loop, never from inside a function of this file except peers_turn. A callee
 * may call every function but peers_turn and peers_reload. */
struct peer_callbacks {
    void *ctx;

    /* Up: frames can be sent, and will be received, both ways. Down: at once when either direction
     * ends; what was sent and had not left is lost. */
    void (*link)(void *ctx, uint64_t id, bool up);

    /*
     * Somebody who proved the secret or a certificate said who it is, or that it changed. Also told
     * of those that are then refused because they are of another cluster, and of ids that are no
     * members: a newcomer. Not told of who claims our own id. May come more than once per link.
     */
    void (*hello)(void *ctx, const struct peer_identity *who);

    /* A frame; only while the link is up. The bytes are good until it returns. */
    void (*message)(void *ctx, uint64_t from, uint8_t channel, struct slice bytes);

    /* Somebody was refused, or refused us (address is then the one that we connect to, with its
     * port): told at once, and again once a minute per address: then reason is NULL, and count is
     * how many more it were. reason is one line, without quotes or control characters. */
    void (*refused)(void *ctx, const char *address, const char *reason, uint64_t count);
};

/*
 * Binds the addresses and accepts from the loop's next turn on. Copies options, but for the strings
 * of `certificates`. 0, or an
 * error with *ret_text (free it) saying what and what to do: CONCLAVE_EINVAL (a bad secret or
 * certificate), CONCLAVE_ERESOLVE, CONCLAVE_EBUSY (port in use), CONCLAVE_EIO, CONCLAVE_ENOMEM
 * (*ret_text may be NULL). After an error the loop must be run until it has closed all handles.
 */
int peers_open(uv_loop_t *loop, const struct peer_options *options,
               const struct peer_callbacks *callbacks, struct peers **ret,
               char **ret_text) CONCLAVE_MUST_USE;

/* Address number i that it is bound to, numeric; false when there is none. */
bool peers_address(const struct peers *p, size_t i, struct net_address *ret);

/* What this server is from now on; its id cannot change. Told to everybody connected; links to
 * another cluster end. */
void peers_set_identity(struct peers *p, const struct peer_identity *identity);

/*
 * Whom to connect to; this server itself is skipped. Links to others end; one whose hosts changed
 * stays. Copies. 0, CONCLAVE_EINVAL (an id twice or no host), or CONCLAVE_ENOMEM; nothing is changed
 * then.
 */
int peers_set_members(struct peers *p, const struct peer_member *members,
                      size_t n) CONCLAVE_MUST_USE;

/* Reads the certificate files again, for connections made from now on. 0, CONCLAVE_EINVAL with
 * `why`, or CONCLAVE_ENOMEM; things stay as they are then. */
int peers_reload(struct peers *p, char why[TLS_TEXT_MAX]) CONCLAVE_MUST_USE;

/* Queues a frame; channel is 1 to 255. Takes the bytes in any case. 0, CONCLAVE_EDISCONNECTED,
 * CONCLAVE_EBUSY (the queue is full), CONCLAVE_ETOOBIG or CONCLAVE_ENOMEM: dropped. */
int peers_send(struct peers *p, uint64_t to, uint8_t channel, struct buf *take) CONCLAVE_MUST_USE;

/* Writes the queued bytes, with one system call per link; the owner calls it at the end of each turn of the loop. True:
 * it called the owner back, and the owner may have queued more. */
bool peers_turn(struct peers *p);

bool peers_linked(const struct peers *p, uint64_t id);

/* Bytes of frames queued for a peer that the kernel has not taken. */
size_t peers_queued(const struct peers *p, uint64_t id);

/* Ends all links, tells nobody, calls cb when all is closed; p is gone then. Takes NULL without a
 * call. */
void peers_close(struct peers *p, void (*cb)(void *ctx), void *ctx);

struct peer_stats {
    uint64_t id;
    bool linked;
    bool connected;       /* our connection to it stands */
    bool accepted;        /* its connection to us stands */
    uint64_t links;       /* how often the link came up */
    uint64_t frames_sent; /* taken for sending */
    uint64_t bytes_sent;  /* of them, with their headers */
    uint64_t frames_received;
    uint64_t bytes_received;
    uint64_t dropped;    /* frames that were not taken */
    size_t queued;       /* bytes */
    int64_t changed_ms;  /* for how long it has been up or down */
    const char *problem; /* why the last attempt to connect failed; NULL: none did */
};

/* Fills up to `cap` rows, by id, one per member but this server. Returns how many members there
 * are. Borrowed texts are good until the loop runs. */
size_t peers_stats(const struct peers *p, struct peer_stats *out, size_t cap);

/* Connections that were refused since the start. */
uint64_t peers_refused(const struct peers *p);

#endif
