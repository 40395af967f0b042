/*
 * Finds the master if there is no `current`, or if it names a server that is not in the list. Pure.
 *
 *   one master, and no replica that answers follows another server ... this one
 *   several, of which one has data or replicas ....................... this one; the others are empty and become replicas
 *   several, all empty, all nodes answer ............................. the first of the list: a new cluster
 *   none, all nodes answer and share one history ..................... the one with most data is named and promoted
 *   else ............................................................. needs_operator, checked again
 *
 * The state is also needs_operator if a replica has a link to a server outside of the list, or if the record names one:
 * that server may be alive. In the latter case an operator makes a server the master by hand: one that has keys, or data
 * of the old master's history.
 *
 * Servers that do not answer are waited for until they are down.
 */
#ifndef REDIS_PLANNER_PLAN_DISCOVERY_H
#define REDIS_PLANNER_PLAN_DISCOVERY_H

#include "redis/planner/planner_context.h"

/* Makes the next action. Always true. */
bool plan_start(struct planner *t);

#endif
