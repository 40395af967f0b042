/*
 * Enforced fencing: a node /zookeeper/fence PREFIX /conclave_fence binds the branch at PREFIX to a lock or an election.
 * Only the holder's writes there are applied: the session that owns the oldest contender's node. Only the deepest
 * binding above a node decides. See fence.c.
 */
#ifndef STATE_FENCE_H
#define STATE_FENCE_H

#include "base/slice.h"

#include <stdbool.h>

struct state;
struct write;
struct znode;

/* A client's write that the ACLs permit. */
struct fence_write {
    enum { FENCE_CREATE, FENCE_DELETE, FENCE_SET_DATA, FENCE_SET_ACL } kind;
    struct slice path;
    struct slice data; /* FENCE_CREATE, FENCE_SET_DATA */
    bool lasting;      /* FENCE_CREATE: a plain persistent node */
};

/* Whether the write may be applied: 0; CONCLAVE_NO_AUTH, and then in the effects if it is below a binding whose holder
 * did not send it; CONCLAVE_BAD_ARGUMENTS for a command that visits too many nodes. For the nodes of bindings also
 * CONCLAVE_BAD_ARGUMENTS (malformed), CONCLAVE_UNIMPLEMENTED (switched off on the server that received it),
 * CONCLAVE_QUOTA_EXCEEDED (too many of them). */
int fence_check(struct write *w, const struct fence_write *f);

/* The data of the node at the path changed. */
void fence_changed(struct write *w, struct slice path);

/* A node was created or deleted; its path is w->path. */
void fence_came(struct write *w, const struct znode *node);
void fence_gone(struct write *w, const struct znode *node);

/* A node is about to be deleted; its path is w->path. If it held locks and did not let go, their delays begin. */
void fence_leaving(struct write *w, const struct znode *node);

/* The leader's command that creates /zookeeper/fence. CONCLAVE_NODE_EXISTS: a client has created the node;
 * CONCLAVE_NO_NODE: there is no /zookeeper. */
int write_fence_open(struct write *w);

#endif
