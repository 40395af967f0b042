/*
 * Keeps the servers in line with `current`: its lists, the replicas' master, the master's own settings. Pure.
 *
 * Servers are re-pointed only to the process that `current` names (run id), so no server copies the data of a master
 * that was restarted. A second master is demoted as soon as it is seen, and listed when it follows. A replica of another
 * server is re-pointed after two readings, parallel_syncs at a time.
 */
#ifndef REDIS_PLANNER_PLAN_REPAIR_H
#define REDIS_PLANNER_PLAN_REPAIR_H

#include "redis/planner/planner_context.h"

/* Sends the min-replicas settings, unless this process has them already. True: an action was made, as below. */
bool plan_guard(struct planner *t, int master);

/* Before other min-replicas settings are sent, removes the lease from current: the master will not keep it. */
bool plan_unguard(struct planner *t);

/* Fills in the record's lease if this master acknowledged the settings and they are still on. */
void plan_guard_record(const struct planner *t, int master, struct redis_current *record);

/* Demotes a second master, re-points a replica (at once if doing is REPOINT), or waits for others to synchronize. */
bool plan_repoint(struct planner *t, enum redis_doing doing);

/* Writes the master's history and lease, the lists and the state if they differ from current. */
bool plan_update(struct planner *t);

#endif
