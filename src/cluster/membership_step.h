/*
 * The way from the present members of an ensemble to the target members, one safe step at a time. New members join as
 * observers, catch up, then get their vote. Only then are others removed; each first loses its vote, so that it still
 * gets the log until its clients are gone. So two successive majorities always share a server. No I/O: the leader asks
 * for the next step, carries it out, and asks again when the resulting configuration is applied.
 */
#ifndef CLUSTER_MEMBERSHIP_STEP_H
#define CLUSTER_MEMBERSHIP_STEP_H

#include "replication/disk/configuration.h"

enum membership_action {
    TRANSITION_DONE,     /* members and target are the same */
    TRANSITION_CHANGE,   /* propose `members` */
    TRANSITION_CATCH_UP, /* bring `id` up to date before it votes */
};

struct membership_step {
    enum membership_action action;
    uint64_t id;                                      /* the member that changes */
    struct configuration_member members[MEMBERS_MAX]; /* borrowed addresses */
    size_t count;
};

/* Facts that the steps depend on. */
struct membership_facts {
    bool (*caught_up)(void *ctx, uint64_t id); /* whether an observer has the whole log */
    bool (*may_go)(void *ctx,
                   uint64_t id); /* whether one that is to go can go: asked of one at a time */
    void *ctx;
};

/* The next step; self is changed last. TRANSITION_DONE also while the next step must wait. */
void membership_step_next(const struct configuration_member *now, size_t n_now,
                          const struct configuration_member *target, size_t n_target, uint64_t self,
                          const struct membership_facts *facts, struct membership_step *ret);

/* The members after a change is withdrawn: the present ones without the observers that the change added. listed:
 * whether the ensemble had this member before the change. Returns the number of members in ret; addresses are
 * borrowed. */
size_t membership_step_withdraw(const struct configuration_member *now, size_t n_now,
                                bool (*listed)(void *ctx, uint64_t id), void *ctx,
                                struct configuration_member ret[MEMBERS_MAX]);

#endif
