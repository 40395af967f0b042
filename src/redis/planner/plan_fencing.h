/*
 * Whether the old master of a plan has stopped, and what makes it so. Pure.
 *
 *   it answers, as a replica ................ stopped ("self")
 *   it answers, as a master ................. ANSWERS: the caller pauses it, and demotes it before a promotion
 *   a refused connection .................... stopped ("refused"): believed for two periods after it, no longer
 *   it loads its data ....................... stopped ("loading"): it takes nothing yet, and will; believed now only
 *   else a method confirmed it .............. stopped ("method")
 *   else the lease of its min-replicas ...... stopped ("lease") once it has been without enough replicas so long
 *   else, the operator takes the risk ....... stopped ("forced")
 *   else .................................... blocked: state needs_operator, tried again
 *
 * What was noted in the plan is taken back when a process answers there again, or, of a lease, when the old master may
 * have had a replica again.
 *
 * The lease holds only while all replicas that are known could not keep it writable: those that are linked to it are
 * told to let go (CLIENT KILL TYPE master), and come back at once if it lives; those that cannot be reached count as
 * linked, unless nothing listens there; so do those that are linked to a server by a name that nobody knows. It rests on the settings of the process that was seen last, and on the server's
 * file of settings where it has one (CONFIG REWRITE): one without, that was restarted unseen, does not know them.
 */
#ifndef REDIS_PLANNER_PLAN_FENCING_H
#define REDIS_PLANNER_PLAN_FENCING_H

#include "redis/planner/planner_context.h"

enum fence_view {
    FENCE_STOPPED, /* *ret_by says how */
    FENCE_ANSWERS, /* as a master */
    FENCE_ACTED,   /* an action was made, wait included */
};

enum fence_view plan_fence(struct planner *t, int old, const char **ret_by);

#endif
