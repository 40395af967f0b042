/*
 * Begins a plan, carries it out, gives it up. Pure. planner.h has the drawing.
 *
 * Invariants: `current` names a new master only after the old one has stopped (plan_fence) and the new one itself says
 * that it is a master with the old one's history; a plan publishes its epoch once.
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

/* Writes a plan of the next epoch that replaces the current master, over a plan that exists. Always true. */
bool plan_failover_begin(struct planner *t, const struct plan_wish *wish);

/* Fills in what a plan says about the old master, for a choice before there is a plan. */
void plan_failover_about(const struct planner *t, struct redis_plan *ret);

/* The current master was restarted: whether other servers have, or may have, data that it lost. *ret_best: the server
 * that has most, or REDIS_NONE. *ret_why (static): the finding, in both cases. */
bool plan_failover_restart_loses(const struct planner *t, int node, int *ret_best,
                                 const char **ret_why);

/* Makes the next action of the plan. Always true. */
bool plan_failover_next(struct planner *t);

/* The target is a master: stops the old one, then publishes. For fail-over and hand-over. */
bool plan_failover_promoted(struct planner *t, int old, int target);

#endif
