/*
 * The struct behind peer.h, and the functions that its files share: link_connect.c makes and keeps links, link_accept.c
 * decides about accepted connections, peer.c has the functions of the owner.
 *
 * An event only changes fields and sets `changed`. peers_settle then calls the owner and does what follows. So a
 * callback may call back, and nothing is freed while it is in use.
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
    PEER_PINGS = 4, /* pings within silence_ms */
    PEER_LISTENERS_MAX = 8,
    PEER_PROBLEM_MAX = 200,
};

/* Another server: a member, or a server that is not a member and has connected. */
struct peer {
    struct list node; /* in peers.all, by id */
    uint64_t id;
    bool member;
    struct net_address *hosts;
    size_t n_hosts;
    struct net_address *next_hosts; /* only while the members are being set */
    size_t next_n_hosts;
    struct conn *out;         /* our connection, in any stage but OVER */
    bool out_ready;           /* the peer answered our hello on `out` */
    struct conn *in;          /* its connection to us, READY */
    uint64_t nonce;           /* of the peer's run that made `in` */
    struct peer_identity who; /* its last identity; id 0: none yet */
    bool linked;              /* as last reported to the owner */
    bool quiet;               /* nothing was sent since the last ping */
    unsigned attempt;
    int64_t retry_ms;    /* how long to wait after the next failure */
    int64_t retry_at_ms; /* when to connect, if there is no `out` */
    struct peer_stats stats;
    int64_t changed_ms; /* when `linked` last changed */
    char problem[PEER_PROBLEM_MAX];
    bool refused; /* the last attempt failed by a proof or an identity, not by the network */
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
    struct worker worker; /* valid while conns.worker points to it */
    struct listener *listeners[PEER_LISTENERS_MAX];
    size_t n_listeners;
    struct list all;
    struct refusals refusals;
    uint64_t refused;
    int64_t silence_ms;
    int64_t ping_at_ms;
    int64_t timer_at_ms;
    bool changed;  /* a reported state may have changed */
    bool settling; /* inside peers_settle or peers_turn */
    bool closing;
    size_t handles; /* open handles of libuv and of the worker */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

int64_t peers_now(const struct peers *p);
struct peer *peers_find(const struct peers *p, uint64_t id);
struct peer *peers_add(struct peers *p, uint64_t id); /* not a member yet; NULL: out of memory */
void peer_free(struct peer *peer);

/* Counts and reports a refusal, in either direction. */
void peers_tell_refused(struct peers *p, const struct conn *c, const char *why);

/* Records why connecting failed. */
void peer_note(struct peer *peer, const char *why);

void peer_drop_out(struct peer *peer); /* ends our connection, in any stage */
void peer_cut(struct peers *p, struct peer *peer);
void peer_plan_retry(struct peers *p, struct peer *peer, bool foul);
void peer_hurry(struct peers *p, struct peer *peer);

void peers_arm(struct peers *p);    /* sets the timer to the next deadline */
void peers_settle(struct peers *p); /* at the end of each event */

bool clusters_differ(const struct peer_identity *a, const struct peer_identity *b);

/* Callbacks of link_connection.h. */
void peers_on_ended(void *ctx, struct conn *c, const char *why, bool foul);
void peers_on_hello(void *ctx, struct conn *c, const struct hello *h);
void peers_on_age(void *ctx, struct conn *c, const struct peer_identity *now);

#endif
