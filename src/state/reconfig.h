/* The members of the ensemble in the state machine: what clients see of them, and a change in progress. */
#ifndef STATE_RECONFIG_H
#define STATE_RECONFIG_H

#include "state/members/members.h"
#include "wire/records.h"

struct state;
struct write;

/* A reconfiguration whose answer waits. */
struct member_change {
    int64_t zxid; /* of its command; 0: none */
    int64_t origin;
    int64_t session_id;
    int32_t cxid;
};

/* Members are "leaving" from the answer to the reconfig that removed them until the log's configuration lacks
 * them: they have no vote, still get the log, and send their clients away. */

struct configuration {
    struct membership members; /* as in the log's configuration; none: not known yet */
    int64_t version;           /* zxid of the content of /zookeeper/config, 0: empty */
    bool unpublished;          /* the members changed since then */
    struct member_change reconfig;
    struct membership
        target;   /* target of the reconfig; while members are leaving, those that stay */
    bool leaving; /* answer the reconfig as soon as only members without a vote are
                                 left to remove: COMMAND_LEAVING */
};

/* Whether a reconfig was answered and members that it removed are leaving. */
static inline bool configuration_is_leaving(const struct configuration *e)
{
    return e->reconfig.zxid == 0 && e->target.count > 0;
}

/* Operation 16, and the leader's command that ends one without success. */
int write_reconfig(struct write *w, const struct wire_reconfig_request *r);
int write_reconfig_end(struct write *w);
void configuration_finish(struct configuration *e);
/* Takes over the members and the node from the state before. */
void configuration_succeed(struct write *w, const struct state *before);
/* The first half of that: takes over the members; and the second: /zookeeper/config shows them. */
void configuration_keep(struct state *s, const struct state *before);
void configuration_show(struct write *w);

#endif
