/*
 * One connection of a link, in either direction: TLS, the hello and its answer, then frames in one direction. The owner
 * decides which servers may have a link.
 *
 *     out:  CONNECTING ──> SECURING ──> SAYING ──answer──> READY (writes frames)
 *     in:                  SECURING ──> ASKING ──hello───> READY (reads frames)
 *
 * Every state ends in OVER: by conn_close, or after the callback `ended`. The owner sets the time limits.
 */
#ifndef CLUSTER_LINKS_LINK_CONNECTION_H
#define CLUSTER_LINKS_LINK_CONNECTION_H

#include "base/list.h"
#include "cluster/links/peer_hello.h"
#include "net/stream.h"

enum conn_stage {
    CONN_CONNECTING,
    CONN_SECURING,
    CONN_SAYING,
    CONN_ASKING,
    CONN_READY,
    CONN_OVER,
};

struct conn;

struct conn_events {
    /* The first frame was a hello. In: answer with conn_welcome or conn_refuse. Out: the connection is READY, unless
     * you call conn_close. */
    void (*hello)(void *ctx, struct conn *c, const struct hello *h);

    /* In, READY: the identity of the sender changed. Its id is still that of the hello. */
    void (*age)(void *ctx, struct conn *c, const struct peer_identity *now);

    /* In, READY, after conn_let_through. */
    void (*frame)(void *ctx, struct conn *c, const struct peer_frame *f);

    /* The connection ended, by the other side or by an error. foul: one side refused the other, or the other side broke
     * the rules. `why` is one line. */
    void (*ended)(void *ctx, struct conn *c, const char *why, bool foul);

    /* The last callback for c. */
    void (*freed)(void *ctx);
};

/* What all connections of an owner share. It must outlive them; its TLS contexts need not. */
struct conn_settings {
    uv_loop_t *loop;
    struct stream_buffer *read_buffer;
    struct tls_context *server; /* NULL: no TLS */
    struct worker *worker; /* thread for TLS handshakes of accepted connections; NULL: the loop */
    struct tls_context *client;
    bool verify_hosts;
    const struct conn_events *events;
    void *ctx;
    struct list conns; /* all that are not freed yet */
};

/* The owner reads it and sets `peer` and heard_ms; all else is link_connection.c's. */
struct conn {
    struct list node; /* in settings.conns */
    struct conn_settings *settings;
    struct connector *connector; /* while connecting */
    struct stream *stream;       /* from then on */
    enum conn_stage stage;
    bool out;
    bool gated;                 /* frames wait for conn_let_through */
    void *peer;                 /* what it belongs to, for the owner; NULL at first */
    struct net_address address; /* in: where it comes from; out: where it goes to */
    struct hello mine;          /* out: what is said */
    struct tls_context *client; /* out, while connecting */
    struct buf queue;           /* out, READY: frames that leave with conn_flush */
    int64_t begun_ms;           /* on the loop's clock */
    int64_t heard_ms;           /* the newest bytes */
};

/* Connects to `to`, starting with address number `first` of its name, and then sends h. NULL: out of memory. */
struct conn *conn_connect(struct conn_settings *s, const struct net_address *to, unsigned first,
                          const struct hello *h);

/* Takes over an accepted stream. NULL: out of memory, or the stream has ended. */
struct conn *conn_accept(struct conn_settings *s, struct stream *stream_take);

/* Whether the verified certificate of the other side is for the host. */
bool conn_is_for(const struct conn *c, const char *host);

/* In, only within the callback `hello`. */
void conn_welcome(struct conn *c, const struct hello *answer);
void conn_refuse(struct conn *c, enum hello_reason reason);

/* In: frames wait until this call, except those of channel 0. */
void conn_let_through(struct conn *c);

/* Out, READY: sends what is in the queue. */
void conn_flush(struct conn *c);
size_t conn_queued(const struct conn *c);

/* Ends the connection without `ended`. `freed` follows, perhaps within this call. */
void conn_close(struct conn *c);

/* The oldest connection that is neither READY nor OVER; NULL: none. */
struct conn *conns_oldest(const struct conn_settings *s);

/* The oldest such connection that was accepted, and the number of these. */
struct conn *conns_oldest_stranger(const struct conn_settings *s, size_t *ret_count);

/* Ends a connection that took too long, or that must make room, and calls `ended`. It must not be READY or OVER. */
void conn_give_up(struct conn *c, const char *why);

/* Ends all at once, also those that linger after their end. */
void conns_abort(struct conn_settings *s);

#endif
