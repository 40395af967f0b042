/*
 * A hand-over on request, while the master is well: its command FAILOVER (6.2 and later) pauses writes, waits until the
 * target has all data, and swaps the roles. Pure.
 *
 * It ends in one of three ways: the target is the master (published as after any plan), nothing changed (the request is
 * answered with the reason, and the plan deleted), or the master died meanwhile (the plan goes on as a fail-over).
 */
#ifndef REDIS_PLANNER_PLAN_HANDOVER_H
#define REDIS_PLANNER_PLAN_HANDOVER_H

#include "redis/planner/planner_context.h"

#define HANDOVER_VERSION 60200 /* the first version that has FAILOVER */

/* Makes the next action of a plan in step HANDOVER. Always true. */
bool plan_handover(struct planner *t, int old, int target);

#endif
