/* Requests of operators: checked, carried out or begun, answered with the reason. Pure. */
#ifndef REDIS_PLANNER_PLAN_REQUESTS_H
#define REDIS_PLANNER_PLAN_REQUESTS_H

#include "redis/planner/planner_context.h"

/* The last answer could not be written: for a period, other things come first. */
bool steps_request_held(const struct turn *t);

/* Answers the request that waits, or begins its plan. False: there is none. No plan is there. */
bool steps_request(struct turn *t);

/* While a plan is stuck (no candidate, cannot be fenced): an expired request is answered, `pause` gives the plan up,
 * `failover --force` lets it go on. False: nothing to do. */
bool steps_request_amid(struct turn *t);

#endif
