/*
 * Finding the master when nobody wrote down who it is (no `current`, or one that names no server of ours). Pure.
 *
 *   one master, and no replica that answers follows somebody else .... it is
 *   several, of which one has data or replicas ....................... it is; the others are empty and become replicas
 *   several, all empty, all nodes answer ............................. the first of the list: a cluster that begins
 *   none, all nodes answer and share one history ..................... the one with most data is named and promoted
 *   else ............................................................. needs_operator, looked at again
 *
 * A replica that has a link to a server that is not listed makes it needs_operator, and so does a record that names one that
 * is not: it may be alive. Of the latter a person gets out by making one the master by hand, if it has data of that one or any.
 *
 * Nodes that do not answer are waited for until they are down.
 */
#ifndef REDIS_PLANNER_PLAN_DISCOVERY_H
#define REDIS_PLANNER_PLAN_DISCOVERY_H

#include "redis/planner/planner_context.h"

/* The next action. True always. */
bool plan_start(struct planner *t);

#endif
