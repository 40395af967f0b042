/*
 * The leader's work on the members: it walks from the present members to the target, one step of membership_step.h at a
 * time. The target comes from a reconfig that the state has accepted. Until the first reconfig it comes from the
 * configuration files: members that they list and the ensemble lacks are added as soon as they are reachable. A member
 * is never removed because a file lacks it.
 */
#ifndef CLUSTER_RECONFIG_H
#define CLUSTER_RECONFIG_H

#include "cluster/ensemble.h"
#include "cluster/links/peer.h"
#include "cluster/membership_step.h"

/* The links, as far as the walk needs them. */
struct reconfig_links {
    bool (*linked)(void *ctx, uint64_t id);
    /* The link fails by a secret, a certificate or an identity, which waiting does not mend; NULL: not known. */
    bool (*refused)(void *ctx, uint64_t id);
    void *ctx;
};

/* What another server told about its data. */
struct reconfig_peer {
    uint64_t id;
    enum peer_age age;
};

struct reconfig {
    struct ensemble *ensemble;
    struct replication *log; /* NULL until it is open */
    struct reconfig_links links;
    const struct configuration_member *configured; /* from the files; borrowed */
    size_t n_configured;
    bool files; /* the files still count: no reconfig in this run */
    struct configuration_member now[MEMBERS_MAX]; /* as applied */
    size_t n_now;
    struct buf addresses;                    /* of now */
    struct reconfig_peer peers[MEMBERS_MAX]; /* servers that told their identity */
    size_t n_peers;
    int64_t at;       /* next check, monotonic ms */
    int64_t step_ms;  /* when the current step began, 0: none */
    int64_t link_ms;  /* when the member of a step was last seen linked */
    uint64_t step_id; /* the member of that step */
    enum membership_action step_action;
    int64_t withdrawn;   /* zxid of the reconfig that is being withdrawn, 0: none */
    uint64_t leaving_id; /* the removed member that goes next; 0: none */
    int64_t leaving_ms;  /* when its removal began */
};

void reconfig_init(struct reconfig *r, struct ensemble *ensemble);
void reconfig_finish(struct reconfig *r);

/* A configuration was applied. */
void reconfig_configuration(struct reconfig *r, const struct configuration_member *members,
                            size_t count);

/* A server told its identity. Call it on every server, because any may lead later. */
void reconfig_hello(struct reconfig *r, const struct peer_identity *who);

/* Whether a server has data that others may count on, so that it votes when asked. A server that is still joining does
 * not (replication/join.h). As the second of two voters it would block everything: nothing commits without its vote,
 * also not the entries that would let it vote. */
bool reconfig_may_vote(const struct reconfig *r, uint64_t id);

/* Call it regularly. It acts only while this server leads. */
void reconfig_tick(struct reconfig *r);

#endif
