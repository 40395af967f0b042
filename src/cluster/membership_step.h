/*
 * From the members that an ensemble has to those it shall have, one safe step at a time: newcomers
 * come as observers, catch up, then vote; only then do others go, each first without a vote, so that it
 * gets the log until it has sent its clients away. Two majorities that follow each other always have a
 * server in common. No I/O: whoever leads asks for the next step, carries it out,
 * and asks again once the configuration it led to was applied.
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
    uint64_t id;                                      /* whom it is about */
    struct configuration_member members[MEMBERS_MAX]; /* borrowed addresses */
    size_t count;
};

/* What the steps wait for. */
struct membership_facts {
    bool (*caught_up)(void *ctx, uint64_t id); /* whether an observer has all of the log */
    bool (*may_go)(void *ctx,
                   uint64_t id); /* whether one that is to go can go: asked of one at a time */
    void *ctx;
};

/* The next step. self goes last. TRANSITION_DONE also while the next one must not go yet. */
void membership_step_next(const struct configuration_member *now, size_t n_now,
                          const struct configuration_member *target, size_t n_target, uint64_t self,
                          const struct membership_facts *facts, struct membership_step *ret);

/* The members to return to when a change is given up: those there are now, without the observers that it added. listed:
 * whether the ensemble had this member before the change. Returns how many are in ret, whose addresses are borrowed. */
size_t membership_step_withdraw(const struct configuration_member *now, size_t n_now,
                                bool (*listed)(void *ctx, uint64_t id), void *ctx,
                                struct configuration_member ret[MEMBERS_MAX]);

#endif
