/*
 * What operators are told of a server's ensemble: gathered from the node's parts when somebody asks, nothing is kept
 * here.
 */
#ifndef CLUSTER_ENSEMBLE_STATUS_H
#define CLUSTER_ENSEMBLE_STATUS_H

#include "cluster/replica.h"
#include "front/server_line.h"

/* One member as this server sees it. */
struct ensemble_status_member {
    uint64_t id;
    bool voter;
    bool self;
    bool linked; /* self is */
    /* what it is known to have of the log: told to a leader only; 0: unknown */
    uint64_t match_index;
    uint64_t snapshot_sent;  /* bytes of a snapshot that it took over from this leader */
    uint64_t snapshot_total; /* 0: it is sent none */
    const char *address;     /* the text behind server.N=; good until the loop runs */
};

struct ensemble_status {
    bool grouped; /* one of several */
    bool leads;
    uint64_t leader; /* 0: none is known */
    size_t members;
    size_t voters;
    size_t learners;         /* a leader's: others that are linked */
    size_t synced_followers; /* of them, voters that have entries of this term */
    size_t synced_observers;
    size_t links;        /* to others, that are up */
    uint64_t links_made; /* how often one came up */
    uint64_t bytes_sent; /* over links */
    uint64_t bytes_received;
    uint64_t dropped;         /* frames that no link took */
    uint64_t refused;         /* connections of strangers */
    size_t pending_syncs;     /* connections with reads that wait for a proof by the quorum */
    int64_t leader_uptime_ms; /* 0: does not lead */
    /* since a leader with a quorum had our report, see session_reports.h; -1: never */
    int64_t contact_ms;
    bool aside;   /* the log takes no writes: waits to try again */
    bool damaged; /* its data are damaged, and not healed from the others yet */
};

void quorum_stats(struct replica *n, const struct clock_source *clock, struct ensemble_status *ret);

/* Member number i, by id; false when there is none. */
bool quorum_member(struct replica *n, size_t i, struct ensemble_status_member *ret);

/* Where clients reach a member, "host:port", where its line says so: without a host of its own, that of its first peer
 * address. False when it does not. */
bool ensemble_status_address(const struct server_line *line, struct net_address *ret);

#endif
