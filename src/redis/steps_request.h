/* Requests of operators: checked, carried out or begun, answered with the reason. Pure. */
#ifndef REDIS_STEPS_REQUEST_H
#define REDIS_STEPS_REQUEST_H

#include "redis/turn.h"

/* The last answer could not be written: for a period, other things come first. */
bool steps_request_held(const struct turn *t);

/* Answers the request that waits, or begins its plan. False: there is none. No plan is there. */
bool steps_request(struct turn *t);

/* While a plan is stuck (no candidate, cannot be fenced): an expired request is answered, `pause` gives the plan up,
 * `failover --force` lets it go on. False: nothing to do. */
bool steps_request_amid(struct turn *t);

#endif
