/*
 * A plan: beginning one, carrying it out, giving it up. Pure. The drawing stands in planner.h.
 *
 * Invariants: `current` never names a master before the old one has stopped (plan_fence) and the new one said itself
 * that it is a master with the old one's history; one plan publishes its epoch once.
 */
#ifndef REDIS_PLANNER_PLAN_FAILOVER_H
#define REDIS_PLANNER_PLAN_FAILOVER_H

#include "redis/planner/planner_context.h"

struct plan_wish {
    const char *reason;   /* "down", "restarted", "role", "manual" */
    enum redis_step step; /* FENCE or HANDOVER */
    int target;           /* or REDIS_NONE: to be chosen */
    bool force;
    const char *request; /* name, or NULL */
    const char *why;
};

/* Writes the plan against the current master (of the next epoch; in the place of one that is there). True. */
bool plan_failover_begin(struct planner *t, const struct plan_wish *wish);

/* Fills in what a plan says about the old master: for a choice before there is a plan. */
void plan_failover_about(const struct planner *t, struct redis_plan *ret);

/* The current master answers as another process than it was: whether others have, or may have, what it lost.
 * *ret_best: who has most of it, or REDIS_NONE. *ret_why (static) says what was found, either way. */
bool plan_failover_restart_loses(const struct planner *t, int node, int *ret_best,
                                 const char **ret_why);

/* The next action of the plan that there is. True always. */
bool plan_failover_next(struct planner *t);

/* FENCE to PROMOTE as far as a target that is known: used by both ways. */
bool plan_failover_promoted(struct planner *t, int old, int target);

#endif
