/*
 * The struct behind peer.h, and what its files do for each other: link_connect.c keeps links standing,
 * link_accept.c decides who may have one, peer.c is the owner's side.
 *
 * Whatever happens only changes fields and sets `changed`; peers_settle then tells the owner and
 * does what follows. So a callee may call back, and nothing is freed under anybody's feet.
 */
#ifndef CLUSTER_LINKS_PEER_INTERNAL_H
#define CLUSTER_LINKS_PEER_INTERNAL_H

#include "base/list.h"
#include "base/refusals.h"
#include "cluster/links/link_connection.h"
#include "net/listener.h"

enum {
    PEER_RETRY_MIN_MS = 50,
    PEER_RETRY_MAX_MS = 1000,
    PEER_PINGS = 4, /* in the time of silence */
    PEER_LISTENERS_MAX = 8,
    PEER_PROBLEM_MAX = 200,
};

/* One other server: a member, or one that is none and connected to us. */
struct peer {
    struct list node; /* in peers.all, by id */
    uint64_t id;
    bool member;
    struct net_address *hosts;
    size_t n_hosts;
    struct net_address *next_hosts; /* while the members are being set */
    size_t next_n_hosts;
    struct conn *out;         /* ours to it, in any stage but over */
    bool out_ready;           /* it answered our hello on `out` */
    struct conn *in;          /* its to us, ready */
    uint64_t nonce;           /* of the run of it that `in` belongs to */
    struct peer_identity who; /* as it last said; id 0: it said nothing */
    bool linked;              /* as the owner was told */
    bool quiet;               /* nothing was sent since the last ping */
    unsigned attempt;
    int64_t retry_ms;    /* how long to wait after the next failure */
    int64_t retry_at_ms; /* when to connect, while there is no `out` */
    struct peer_stats stats;
    int64_t changed_ms; /* when it was linked, or stopped being so */
    char problem[PEER_PROBLEM_MAX];
};

struct peers {
    uv_loop_t *loop;
    uv_timer_t timer;
    struct peer_callbacks callbacks;
    struct peer_identity me;
    uint64_t nonce;
    char host[NET_HOST_MAX];
    enum peer_security security;
    struct tls_settings certificates;
    struct conn_settings conns;
    struct worker worker; /* while conns.worker is it */
    struct listener *listeners[PEER_LISTENERS_MAX];
    size_t n_listeners;
    struct list all;
    struct refusals refusals;
    uint64_t refused;
    int64_t silence_ms;
    int64_t ping_at_ms;
    int64_t timer_at_ms;
    bool changed;  /* what was told may not be so any more */
    bool settling; /* inside peers_settle or peers_turn */
    bool closing;
    size_t handles; /* of libuv, not closed yet */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

int64_t peers_now(const struct peers *p);
struct peer *peers_find(const struct peers *p, uint64_t id);
struct peer *peers_add(struct peers *p, uint64_t id); /* no member yet; NULL: out of memory */
void peer_free(struct peer *peer);

/* Counts and tells that who is at the other end was refused, or refused us. */
void peers_tell_refused(struct peers *p, const struct conn *c, const char *why);

/* Why connecting failed. */
void peer_note(struct peer *peer, const char *why);

void peer_drop_out(struct peer *peer); /* ends our connection, in any stage */
void peer_cut(struct peers *p, struct peer *peer);
void peer_plan_retry(struct peers *p, struct peer *peer, bool foul);
void peer_hurry(struct peers *p, struct peer *peer);

void peers_arm(struct peers *p);    /* sets the timer to what comes next */
void peers_settle(struct peers *p); /* at the end of each event */

bool clusters_differ(const struct peer_identity *a, const struct peer_identity *b);

/* Events of link_connection.h. */
void peers_on_ended(void *ctx, struct conn *c, const char *why, bool foul);
void peers_on_hello(void *ctx, struct conn *c, const struct hello *h);
void peers_on_age(void *ctx, struct conn *c, const struct peer_identity *now);

#endif
