/*
 * One connection of a link, in either direction: TLS, the hello and its answer, then frames one
 * way. Who may be linked is the owner's decision.
 *
 *     out:  CONNECTING ──> SECURING ──> SAYING ──answer──> READY (writes frames)
 *     in:                  SECURING ──> ASKING ──hello───> READY (reads frames)
 *
 * Any state ends in OVER: by conn_close, or after `ended` was told. The owner sets the time limits.
 */
#ifndef CLUSTER_LINKS_LINK_CONNECTION_H
#define CLUSTER_LINKS_LINK_CONNECTION_H

#include "base/list.h"
#include "cluster/links/peer_hello.h"
#include "net/stream.h"

struct conn;

struct conn_events {
    /* The first frame was a hello. In: answer with conn_welcome or conn_refuse. Out: call
     * conn_close, or it is READY. */
    void (*hello)(void *ctx, struct conn *c, const struct hello *h);

    /* In, READY: the sender is another than before. Its id is that of the hello. */
    void (*age)(void *ctx, struct conn *c, const struct peer_identity *now);

    /* In, READY, let through. */
    void (*frame)(void *ctx, struct conn *c, const struct peer_frame *f);

    /* It is over, by the other side or by a fault. foul: it was refused, or refused us, or broke
     * the rules; `why` is one line. */
    void (*ended)(void *ctx, struct conn *c, const char *why, bool foul);

    /* The last call for c. */
    void (*freed)(void *ctx);
};

/* What all connections of an owner share; must outlive them, its TLS contexts need not. */
struct conn_settings {
    uv_loop_t *loop;
    struct stream_buffer *read_buffer;
    struct tls_context *server; /* NULL: no TLS */
    struct worker *worker; /* does the handshakes of those that connect to us; NULL: the loop */
    struct tls_context *client;
    bool verify_hosts;
    const struct conn_events *events;
    void *ctx;
    struct list conns; /* all that are not freed */
};

/* Connects to `to`, number `first` of the addresses its name has, and says h then. NULL when memory
 * is out. */
struct conn *conn_connect(struct conn_settings *s, const struct net_address *to, unsigned first,
                          const struct hello *h);

/* Takes over an accepted stream. NULL when memory is out or it is gone already. */
struct conn *conn_accept(struct conn_settings *s, struct stream *stream_take);

/* Where the owner keeps what c belongs to; NULL at first. */
void conn_set_peer(struct conn *c, void *peer);
void *conn_peer(const struct conn *c);

bool conn_is_out(const struct conn *c);
bool conn_is_ready(const struct conn *c);
bool conn_is_connected(const struct conn *c); /* TCP is through */
int64_t conn_begun_ms(const struct conn *c);  /* on the loop's clock */
int64_t conn_heard_ms(const struct conn *c);  /* the newest bytes */
void conn_forgive(struct conn *c);            /* as if bytes had come now */

/* In: the address it comes from; out: the one it goes to. */
const struct net_address *conn_address(const struct conn *c);

/* Whether its verified certificate is for the host. */
bool conn_is_for(const struct conn *c, const char *host);

/* In, within `hello`. */
void conn_welcome(struct conn *c, const struct hello *answer);
void conn_refuse(struct conn *c, enum hello_reason reason);

/* In: frames of other channels than 0 wait until this call. */
void conn_let_through(struct conn *c);

/* Out, READY: frames are appended to it, and leave with conn_flush. */
struct buf *conn_queue(struct conn *c);
void conn_flush(struct conn *c);
size_t conn_queued(const struct conn *c);

/* Ends it without `ended`; its memory goes with `freed`, perhaps within this call. */
void conn_close(struct conn *c);

/* The oldest of those that are neither ready nor over; NULL when there is none. */
struct conn *conns_oldest(const struct conn_settings *s);

/* The same of those that come from others, and how many they are. */
struct conn *conns_oldest_stranger(const struct conn_settings *s, size_t *ret_count);

/* Ends it with `ended`: it took too long, or made room. Not when it is ready or over. */
void conn_give_up(struct conn *c, const char *why);

/* Ends all of them at once, also those that are over and linger. */
void conns_abort(struct conn_settings *s);

#endif
