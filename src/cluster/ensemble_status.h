/*
 * The state of the ensemble for operators, as this server sees it. It is gathered from the parts of the replica on each
 * request; nothing is kept here.
 */
#ifndef CLUSTER_ENSEMBLE_STATUS_H
#define CLUSTER_ENSEMBLE_STATUS_H

#include "front/server_line.h"

struct clock_source;
struct digest_check_digest;
struct net_address;
struct replica;
struct replication_member_stats;

struct ensemble_status {
    bool grouped; /* the ensemble has several members */
    bool leads;
    uint64_t leader; /* 0: none known */
    size_t members;
    size_t voters;
    size_t learners;         /* on a leader: linked other members */
    size_t synced_followers; /* linked voters that have entries of this term */
    size_t synced_observers;
    size_t links;        /* to other members, that are up */
    uint64_t links_made; /* how often a link came up */
    uint64_t bytes_sent; /* sent over links */
    uint64_t bytes_received;
    uint64_t dropped;         /* frames that could not be sent */
    uint64_t refused;         /* refused connections on the peer port */
    size_t pending_syncs;     /* connections with reads that wait for a proof by the quorum */
    int64_t leader_uptime_ms; /* 0: not the leader */
    /* since a leader with a quorum acknowledged our report, see session_reports.h; -1: never */
    int64_t contact_ms;
    bool aside;   /* the log accepts no writes: waits to try again */
    bool damaged; /* its data are damaged and not yet replaced by the others' */
};

void quorum_stats(struct replica *n, const struct clock_source *clock, struct ensemble_status *ret);

/* Member number i, in the order of ids, as this server sees it: `linked` is true for the server itself, and only a leader
 * knows match_index. The address is valid until the loop runs. False: there is none. */
bool quorum_member(struct replica *n, size_t i, struct replication_member_stats *ret);

/* Why this server has no link to a member, one line; NULL: it has one. Valid until the loop runs. */
const char *quorum_member_problem(struct replica *n, uint64_t id);

/* The digests of the state after some of the newest entries, the newest first: that of the newest entry, then those of
 * entries whose index is a multiple of QUORUM_DIGEST_STEP, so that members that are not equally far name the same ones.
 * False: there is none with this number. */
enum { QUORUM_DIGEST_STEP = 16, QUORUM_DIGESTS_MAX = 17 };
bool quorum_digest(struct replica *n, size_t i, struct digest_check_digest *ret);

/* The client address of a member, from its line. If the line names every interface, the host is that of its first peer
 * address. False: the line has no client address. */
bool ensemble_status_address(const struct server_line *line, struct net_address *ret);

#endif
