/*
 * A plan: beginning one, carrying it out, giving it up. Pure. The drawing stands in planner.h.
 *
 * Invariants: `current` never names a master before the old one has stopped (steps_fence) and the new one said itself
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
bool steps_plan_begin(struct turn *t, const struct plan_wish *wish);

/* Fills in what a plan says about the old master: for a choice before there is a plan. */
void steps_plan_about(const struct turn *t, struct redis_plan *ret);

/* The current master answers as another process than it was: whether others have, or may have, what it lost.
 * *ret_best: who has most of it, or REDIS_NONE. *ret_why (static) says what was found, either way. */
bool steps_plan_restart_loses(const struct turn *t, int node, int *ret_best, const char **ret_why);

/* The next action of the plan that there is. True always. */
bool steps_plan_next(struct turn *t);

/* FENCE to PROMOTE as far as a target that is known: used by both ways. */
bool steps_plan_promoted(struct turn *t, int old, int target);

#endif
