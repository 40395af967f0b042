/*
 * The first start of a server on an empty folder: does it found an ensemble together with others, or
 * does it join one that has data? Decided from what the others say of themselves (peer_identity); no
 * I/O, no clock.
 *
 *   somebody has data ──────────────────────────────────────────────> JOIN (also whoever lost its disk)
 *   somebody has lost the use of its data: there is an ensemble ─────> WAIT
 *   all founders are as new as we are ──────────────────────────────> FOUND
 *   a majority is, and nobody else was heard of for FOUNDING_GRACE_MS → FOUND
 *
 * So a member whose disk is empty never takes part in founding a second ensemble beside its own, as
 * long as a majority of the others has its data. Limit: a majority that lost its disks at once, while
 * the rest cannot be reached, founds anew.
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
    bool heard[MEMBERS_MAX];            /* by place in founders: it has no data */
    bool lost[MEMBERS_MAX];             /* by place: it cannot use the data that it had */
    bool other_lost;                    /* so it is with somebody else */
    bool grown;                         /* somebody has data */
    uint8_t cluster[PEER_CLUSTER_SIZE]; /* its cluster */
    int64_t majority_ms;                /* when a majority was heard of, -1: not yet */
};

/* The founders are the configured members, this server among them or not. */
void bootstrap_init(struct bootstrap *f, uint64_t id, const struct configuration_member *founders,
                    size_t n);

/* Somebody told who he is. */
void bootstrap_hello(struct bootstrap *f, const struct peer_identity *who);

enum bootstrap_verdict bootstrap_decide(struct bootstrap *f, int64_t now_ms);

/* The founded ensemble's id: the same for all who found with the same members. */
void bootstrap_cluster(const struct configuration_member *founders, size_t n,
                       uint8_t ret[PEER_CLUSTER_SIZE]);

#endif
