/* Requests of operators: each is checked, carried out or begun, and answered with the reason. Pure. */
#ifndef REDIS_PLANNER_PLAN_REQUESTS_H
#define REDIS_PLANNER_PLAN_REQUESTS_H

#include "redis/planner/planner_context.h"

/* The last answer could not be written: for one period, other work comes first. */
bool plan_request_held(const struct planner *t);

/* Answers the oldest request or begins its plan; there must be no plan. False: there is no request. */
bool plan_request(struct planner *t);

/* While a plan is stuck (no candidate, cannot be fenced): answers an expired request; `pause` gives the plan up,
 * `failover --force` lets it go on. False: nothing to do. */
bool plan_request_amid(struct planner *t);

#endif
