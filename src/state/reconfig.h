/* The members of the ensemble within the machine: what clients see of them, and a change under way. */
#ifndef STATE_RECONFIG_H
#define STATE_RECONFIG_H

#include "state/members/members.h"
#include "wire/records.h"

struct state;
struct write;

/* A reconfiguration whose answer waits. */
struct member_change {
    int64_t zxid; /* of its command; 0: there is none */
    int64_t origin;
    int64_t session_id;
    int32_t cxid;
};

/* Members are "leaving" from the answer to the reconfig that removed them until the log's configuration lacks
 * them: they have no vote, still get the log, and send their clients away. */

struct configuration {
    struct membership members; /* as the log's configuration has them; none: nobody said yet */
    int64_t version;           /* zxid of what /zookeeper/config says, 0: it says nothing */
    bool unpublished;          /* they changed since */
    struct member_change reconfig;
    struct membership target; /* where it is to lead; while members are leaving, those that stay */
    bool leaving;             /* the reconfig is answered as soon as only members without a vote are
                                 still to go: COMMAND_LEAVING */
};

/* Whether a reconfig was answered and members that it removed are leaving. */
static inline bool configuration_is_leaving(const struct configuration *e)
{
    return e->reconfig.zxid == 0 && e->target.count > 0;
}

/* Operation 16, and the leader's command that gives one up. */
int write_reconfig(struct write *w, const struct wire_reconfig_request *r);
int write_reconfig_end(struct write *w);
void configuration_finish(struct configuration *e);
/* The members are those of the state before, and so is the node. */
void configuration_succeed(struct write *w, const struct state *before);

#endif
