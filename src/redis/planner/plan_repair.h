/*
 * What keeps the others in line with `current`: its lists, who follows whom, the master's own settings. Pure.
 *
 * Nothing is re-pointed to a master that is not the very process that `current` names (run id): so nobody takes over
 * the data of one that was restarted. A second master is demoted as soon as it is seen, and listed only once it
 * follows; a replica of somebody else is re-pointed when it was seen so twice, parallel_syncs at a time.
 */
#ifndef REDIS_PLANNER_PLAN_REPAIR_H
#define REDIS_PLANNER_PLAN_REPAIR_H

#include "redis/planner/planner_context.h"

/* min-replicas settings of this master, unless they were sent to this process already and are on. True: an action was made. */
bool plan_guard(struct planner *t, int master);

/* Before other min-replicas settings are sent: current must not promise what the master no longer keeps. */
bool plan_unguard(struct planner *t);

/* Fills in the record's lease as far as the settings of this master were acknowledged and are still on. */
void plan_guard_record(const struct planner *t, int master, struct redis_current *record);

/* Demotes a second master, re-points a replica (at once where doing is REPOINT), or waits for its turn to come. */
bool plan_repoint(struct planner *t, enum redis_doing doing);

/* The master's run id, history and lease, the lists and the state, where they differ from current. */
bool plan_update(struct planner *t);

#endif
