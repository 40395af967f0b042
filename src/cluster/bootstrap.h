/*
 * The first start of a server on an empty folder: does it found an ensemble together with others, or does it join one
 * that has data? The identities of the other servers decide (peer_identity). No I/O, no clock.
 *
 *   a server has data ────────────────────────────────────────────────> JOIN (also a member that lost its disk)
 *   a server founded an ensemble of other members, without entries ───> JOIN (this server is new beside it)
 *   a server cannot use its data any more: there is an ensemble ──────> WAIT
 *   a server may begin one with data of Apache's (import_start.h) ────> WAIT
 *   all founders are as new as this server ───────────────────────────> FOUND
 *   a majority is, and FOUNDING_GRACE_MS passed without another one ──> FOUND
 *
 * So a member with an empty disk never founds a second ensemble beside its own, as long as a majority of the others has
 * its data. Limit: if a majority loses its disks at once and the rest is unreachable, the majority founds a new one.
 */
#ifndef CLUSTER_BOOTSTRAP_H
#define CLUSTER_BOOTSTRAP_H

#include "cluster/links/peer.h"
#include "replication/disk/configuration.h"

enum { FOUNDING_GRACE_MS = 1000 };

enum bootstrap_verdict { FOUNDING_WAIT, FOUNDING_FOUND, FOUNDING_JOIN };

struct bootstrap {
    uint64_t id;
    const struct configuration_member *founders; /* borrowed */
    size_t n_founders;
    bool heard[MEMBERS_MAX]; /* by place in founders: this member has no data */
    bool lost[MEMBERS_MAX];  /* by place: this member has data, but cannot use them (yet) */
    bool other_lost;         /* the same holds for a server that is not a founder */
    bool grown;              /* a server has data */
    uint8_t cluster[PEER_CLUSTER_SIZE]; /* the cluster of that server */
    int64_t majority_ms;                /* when a majority of new servers was known, -1: not yet */
};

/* The founders are the configured members; this server may be one of them. */
void bootstrap_init(struct bootstrap *f, uint64_t id, const struct configuration_member *founders,
                    size_t n);

/* Another server told its identity. */
void bootstrap_hello(struct bootstrap *f, const struct peer_identity *who);

enum bootstrap_verdict bootstrap_decide(struct bootstrap *f, int64_t now_ms);

/* The id of the founded ensemble: the same on all servers with the same list of founders. */
void bootstrap_cluster(const struct configuration_member *founders, size_t n,
                       uint8_t ret[PEER_CLUSTER_SIZE]);

#endif
