/*
 * Who belongs to the ensemble, and the leader's walk from the members that there are to those that there
 * shall be, one step of membership_step.h at a time. What shall be is said by a reconfig that the state has
 * accepted, or, as long as there never was one, by the configuration files: members that they list and the
 * ensemble lacks are taken in as soon as they can be reached. Nobody is removed because a file lacks him.
 */
#ifndef CLUSTER_RECONFIG_H
#define CLUSTER_RECONFIG_H

#include "cluster/ensemble.h"
#include "cluster/links/peer.h"
#include "cluster/membership_step.h"

/* What the walk needs of the links. */
struct reconfig_links {
    bool (*linked)(void *ctx, uint64_t id);
    void *ctx;
};

/* What a server said of its data. */
struct reconfig_peer {
    uint64_t id;
    enum peer_age age;
};

struct reconfig {
    struct ensemble *ensemble;
    struct replication *log; /* NULL until it is open */
    struct reconfig_links links;
    const struct configuration_member *configured; /* by the files; borrowed */
    size_t n_configured;
    bool files; /* they still count: there was no reconfig in this run */
    struct configuration_member now[MEMBERS_MAX]; /* as applied */
    size_t n_now;
    struct buf addresses;                    /* of now */
    struct reconfig_peer peers[MEMBERS_MAX]; /* those that were heard */
    size_t n_peers;
    int64_t at;       /* next look, monotonic ms */
    int64_t step_ms;  /* since when the present step is under way, 0: none is */
    uint64_t step_id; /* whom it is about */
    enum membership_action step_action;
    int64_t withdrawn;   /* zxid of the reconfig that is being withdrawn, 0: none is */
    uint64_t leaving_id; /* of the removed members the one that goes next; 0: none */
    int64_t leaving_ms;  /* since when that is known */
};

void reconfig_init(struct reconfig *r, struct ensemble *ensemble);
void reconfig_finish(struct reconfig *r);

/* A configuration was applied. */
void reconfig_configuration(struct reconfig *r, const struct configuration_member *members,
                            size_t count);

/* A server told who it is: in any stage, as whoever leads later must know. */
void reconfig_hello(struct reconfig *r, const struct peer_identity *who);

/* Whether a server has what others may count on, and so votes when it is asked. One that still joins does not
 * (replication/join.h): if it were made the second of two voters, nothing could be committed without its vote, and
 * what would let it vote could not be committed. */
bool reconfig_may_vote(const struct reconfig *r, uint64_t id);

/* Harmless at any time; does something now and then, while this server leads. */
void reconfig_tick(struct reconfig *r);

#endif
