/*
 * Whether the old master of a plan has stopped, and what is done to stop it. Pure.
 *
 *   it answers, as a replica ................ stopped ("self")
 *   it answers, as a master ................. ANSWERS: the caller pauses it, and demotes it before a promotion
 *   a refused connection .................... stopped ("refused"), for two periods after it
 *   it loads its data ....................... stopped ("loading"), while it loads: it accepts no writes yet
 *   else a method confirmed it .............. stopped ("method")
 *   else the lease of its min-replicas ...... stopped ("lease"), after it has had too few replicas for that long
 *   else the operator takes the risk ........ stopped ("forced")
 *   else .................................... blocked: state needs_operator, tried again
 *
 * The note in the plan is removed when a process answers there again, or, for a lease, when the old master may have
 * found a replica again.
 *
 * The lease holds only while the known replicas could not keep the old master writable. Linked replicas are told to cut
 * their link (CLIENT KILL TYPE master); they reconnect at once if it is alive. Replicas that cannot be reached count as
 * linked, unless their connections are refused. So do replicas whose master has an unknown name. The lease relies on the
 * settings of the last process that was seen, and on the server's file of settings (CONFIG REWRITE): a server without
 * such a file that is restarted unseen does not know them.
 */
#ifndef REDIS_PLANNER_PLAN_FENCING_H
#define REDIS_PLANNER_PLAN_FENCING_H

#include "redis/planner/planner_context.h"

enum fence_view {
    FENCE_STOPPED, /* *ret_by says how */
    FENCE_ANSWERS, /* as a master */
    FENCE_ACTED,   /* an action was made, which may be a wait */
};

enum fence_view plan_fence(struct planner *t, int old, const char **ret_by);

#endif
