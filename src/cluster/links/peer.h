/*
 * Authenticated links between the servers of an ensemble: which servers are there, and frames of bytes in both
 * directions. This room does not know the meaning of the bytes.
 *
 *     me ──connect──> peer   frames from me          one TCP connection per direction: after the handshake,
 *     me <──accept─── peer   frames from the peer    an accepted connection is only read
 *
 * Both sides authenticate before a byte of a frame is read: by a shared secret (TLS 1.3 with an external PSK) or by
 * certificates (mutual TLS). Then each sends its id, its cluster and its age. A link is up while both connections are
 * up. The end of either, or silence, ends both, and both are made again. While a link is up, frames arrive whole and in
 * order; otherwise they do not arrive.
 *
 * Limits: a frame has at most 64 MiB; a queue of 16 MiB or more accepts nothing new; at most 64 connections are in the
 * handshake, which lasts at most 2 s. Call all functions in the loop's thread. The process must ignore or block
 * SIGPIPE.
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
    PEER_SECRET_MIN = 16, /* least bytes of a secret */
};

enum peer_age {
    PEER_FRESH,   /* an empty folder; cluster all zero */
    PEER_FOUNDED, /* the log has only the founding entry */
    PEER_GROWN,   /* the log has more entries */
    PEER_LOST, /* a member that lost its data or cannot use them; others have them; cluster all zero: unknown */
    /* no data of ours, but files of an Apache ZooKeeper, with which an ensemble may begin; cluster all zero */
    PEER_IMPORTING,
};

struct peer_identity {
    uint64_t id;
    uint8_t cluster[PEER_CLUSTER_SIZE];
    enum peer_age age;
};

enum peer_security {
    PEER_SECURITY_NONE, /* only for addresses that other machines cannot reach: loopback */
    PEER_SECURITY_SECRET,
    PEER_SECURITY_CERTIFICATES,
};

struct peer_options {
    const struct net_address *listen; /* addresses for peers; port 0: a free one */
    size_t n_listen;
    struct peer_identity identity; /* of this server */
    const char *host;              /* the host name by which peers know this server; NULL: none */
    enum peer_security security;
    struct slice secret;       /* with SECRET; PEER_SECRET_MIN bytes or more */
    struct slice other_secret; /* accepted as well, while a new one replaces it; null: none */
    /* with CERTIFICATES; the fields `server` and `peer` are ignored */
    const struct tls_settings *certificates;
    bool verify_hosts; /* with CERTIFICATES: their SAN must name the member's host */
    int silence_ms;    /* after this silence a link is dead; 0: 800 */
};

/* A server to connect to. Several addresses of one server are several hosts. */
struct peer_member {
    uint64_t id;
    const struct net_address *hosts; /* tried in turn */
    size_t n_hosts;
};

struct peers;

/* Callbacks come from the loop, never from inside a function of this file, except peers_turn. A callback may call every
 * function but peers_turn and peers_reload. */
struct peer_callbacks {
    void *ctx;

    /* Up: frames can be sent and will be received. Down: called at once when either direction ends; frames that were
     * queued but not sent are lost. */
    void (*link)(void *ctx, uint64_t id, bool up);

    /*
     * A server that authenticated told its identity, or a change of it. Also called for servers that are then refused
     * because of another cluster, and for ids that are not members: new servers. Not called for a server that claims
     * our own id. May be called more than once per link.
     */
    void (*hello)(void *ctx, const struct peer_identity *who);

    /* A frame; only while the link is up. The bytes are valid until the callback returns. */
    void (*message)(void *ctx, uint64_t from, uint8_t channel, struct slice bytes);

    /* We refused a server, or it refused us (then address is the one that we connect to, with its port). Called at
     * once, and then once a minute per address with reason NULL and the number of further refusals in count. reason is
     * one line, without quotes or control characters. */
    void (*refused)(void *ctx, const char *address, const char *reason, uint64_t count);
};

/*
 * Binds the addresses, and accepts from the loop's next turn on. Copies options, except the strings of `certificates`.
 * 0, or an error with *ret_text (free it; may be NULL after CONCLAVE_ENOMEM), which says what happened and what to do:
 * CONCLAVE_EINVAL (a bad secret or certificate), CONCLAVE_ERESOLVE, CONCLAVE_EBUSY (port in use), CONCLAVE_EIO,
 * CONCLAVE_ENOMEM. After an error run the loop until all handles are closed.
 */
int peers_open(uv_loop_t *loop, const struct peer_options *options,
               const struct peer_callbacks *callbacks, struct peers **ret,
               char **ret_text) CONCLAVE_MUST_USE;

/* Bound address number i, numeric; false: there is none. */
bool peers_address(const struct peers *p, size_t i, struct net_address *ret);

/* Changes the identity of this server, but not its id. All connected servers are told; links to another cluster end. */
void peers_set_identity(struct peers *p, const struct peer_identity *identity);

/*
 * Sets the servers to connect to; this server itself is skipped. Links to others end; a link whose hosts changed stays.
 * Copies. 0, CONCLAVE_EINVAL (a duplicate id or no host), or CONCLAVE_ENOMEM; after an error nothing has changed.
 */
int peers_set_members(struct peers *p, const struct peer_member *members,
                      size_t n) CONCLAVE_MUST_USE;

/* Reads the certificate files again, for new connections. 0, CONCLAVE_EINVAL with `why`, or CONCLAVE_ENOMEM; after an
 * error the old ones stay in use. */
int peers_reload(struct peers *p, char why[TLS_TEXT_MAX]) CONCLAVE_MUST_USE;

/* The same for links with a secret: other secrets for new connections, as in peer_options; links that are up stay. Takes
 * the time of an scrypt for each. */
int peers_set_secrets(struct peers *p, struct slice secret, struct slice other,
                      char why[TLS_TEXT_MAX]) CONCLAVE_MUST_USE;

/* Queues a frame; channel is 1 to 255. Always takes the bytes. 0, or CONCLAVE_EDISCONNECTED, CONCLAVE_EBUSY (the queue
 * is full), CONCLAVE_ETOOBIG or CONCLAVE_ENOMEM: the frame was dropped. */
int peers_send(struct peers *p, uint64_t to, uint8_t channel, struct buf *take) CONCLAVE_MUST_USE;

/* Writes the queued bytes, with one system call per link. Call it at the end of each turn of the loop. True: it called
 * callbacks, and they may have queued more. */
bool peers_turn(struct peers *p);

/* When the certificate of the links ends, in seconds since 1970; 0: there is none. */
int64_t peers_certificate_until_s(const struct peers *p);

bool peers_linked(const struct peers *p, uint64_t id);

/* Why there is no link to a server, one line; NULL: there is one. Valid until the loop runs. */
const char *peers_problem(const struct peers *p, uint64_t id);

/* The last attempt to link with a server failed by its secret, certificate or identity: only an operator can mend that. */
bool peers_refuses(const struct peers *p, uint64_t id);

/* Ends all links without callbacks; calls cb when all is closed; p is freed by then. NULL does nothing. */
void peers_close(struct peers *p, void (*cb)(void *ctx), void *ctx);

struct peer_stats {
    uint64_t id;
    bool linked;
    bool connected;       /* our connection to it is up */
    bool accepted;        /* its connection to us is up */
    uint64_t links;       /* how often the link came up */
    uint64_t frames_sent; /* accepted for sending */
    uint64_t bytes_sent;  /* bytes of these frames with headers */
    uint64_t frames_received;
    uint64_t bytes_received;
    uint64_t dropped;    /* frames that were not accepted */
    size_t queued;       /* bytes */
    int64_t changed_ms;  /* time since the link came up or went down */
    const char *problem; /* why the last attempt to connect failed; NULL: it did not */
};

/* Fills up to `cap` rows in the order of ids, one per member except this server. Returns the number of members.
 * Borrowed texts are valid until the loop runs. */
size_t peers_stats(const struct peers *p, struct peer_stats *out, size_t cap);

/* Connections that were refused since the start. */
uint64_t peers_refused(const struct peers *p);

#endif
