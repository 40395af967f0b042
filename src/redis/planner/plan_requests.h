/* Requests of operators: checked, carried out or begun, answered with the reason. Pure. */
#ifndef REDIS_PLANNER_PLAN_REQUESTS_H
#define REDIS_PLANNER_PLAN_REQUESTS_H

#include "redis/planner/planner_context.h"

/* The last answer could not be written: for a period, other things come first. */
bool plan_request_held(const struct planner *t);

/* Answers the request that waits, or begins its plan. False: there is none. No plan is there. */
bool plan_request(struct planner *t);

/* While a plan is stuck (no candidate, cannot be fenced): an expired request is answered, `pause` gives the plan up,
 * `failover --force` lets it go on. False: nothing to do. */
bool plan_request_amid(struct planner *t);

#endif
