/*
 * A hand-over that was asked for, while the master is well: its own FAILOVER (6.2 and later) pauses writes, waits until
 * the target has all, and lets the two change places. Pure.
 *
 * It ends in one of three ways: the target is the master (published as after any plan), nothing changed (the request
 * is answered with the reason, the plan deleted), or the master died meanwhile (the plan goes on as a fail-over).
 */
#ifndef REDIS_PLANNER_PLAN_HANDOVER_H
#define REDIS_PLANNER_PLAN_HANDOVER_H

#include "redis/planner/planner_context.h"

#define HANDOVER_VERSION 60200 /* the first that knows FAILOVER */

/* The next action of a plan in step HANDOVER. True always. */
bool plan_handover(struct planner *t, int old, int target);

#endif
