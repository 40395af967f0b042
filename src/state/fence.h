/*
 * Enforced fencing: a node /zookeeper/fence PREFIX /conclave_fence binds what stands at PREFIX and below to a lock or
 * an election. Writes there are carried out only for the holder: whoever has the oldest contender's node. The deepest
 * binding above a node decides, no other. See fence.c.
 */
#ifndef STATE_FENCE_H
#define STATE_FENCE_H

#include "base/slice.h"

#include <stdbool.h>

struct state;
struct write;
struct znode;

/* A write of a client that the ACLs permit. */
struct fence_write {
    enum { FENCE_CREATE, FENCE_DELETE, FENCE_SET_DATA, FENCE_SET_ACL } kind;
    struct slice path;
    struct slice data; /* FENCE_CREATE, FENCE_SET_DATA */
    bool lasting;      /* FENCE_CREATE: a plain persistent node */
};

/* Whether it may be carried out: 0; CONCLAVE_NO_AUTH, told in the effects when it is below a binding whose holder does
 * not ask; CONCLAVE_BAD_ARGUMENTS for a command that has too many nodes looked at; for the nodes of bindings also that, CONCLAVE_UNIMPLEMENTED (switched off where it was
 * taken in), CONCLAVE_QUOTA_EXCEEDED (too many of them). */
int fence_check(struct write *w, const struct fence_write *f);

/* The node at the path has other data. */
void fence_changed(struct write *w, struct slice path);

/* A node came or went, w->path is its path. */
void fence_came(struct write *w, const struct znode *node);
void fence_gone(struct write *w, const struct znode *node);

/* A node goes, w->path is its path: if it held locks and did not let go, their delays begin. */
void fence_leaving(struct write *w, const struct znode *node);

/* The leader's command that makes /zookeeper/fence. CONCLAVE_NODE_EXISTS: some client has made one;
 * CONCLAVE_NO_NODE: there is no /zookeeper. */
int write_fence_open(struct write *w);

#endif
