/* Reads of the state without an encoded answer: nodes, the ephemeral nodes of a session, and the length of an answer. */
#ifndef STATE_QUERY_H
#define STATE_QUERY_H

#include "state/state.h"
#include "tree/tree.h"

/* The node at a path, or NULL. Borrowed until the next change. */
const struct znode *state_node(const struct state *s, struct slice path);

/* The node's list of permissions, borrowed until the next change. */
struct wire_vector state_node_acl(const struct state *s, const struct znode *node);

/* Whether a caller without any id has one of the permissions, as the entry world:anyone or an empty list gives it. */
bool state_node_is_public(const struct state *s, const struct znode *node, int32_t perms);

/* Calls fn for this session's ephemeral nodes, oldest first, until fn returns false; fn must not change the state. */
void state_ephemerals_each(const struct state *s, int64_t session_id,
                           bool (*fn)(void *ctx, const struct znode *node), void *ctx);

/* The answer is a list that is too long to walk only for its length. */
#define STATE_REPLY_LONG SIZE_MAX

/* An upper bound for the length of an answer to a read, without answering it: at least what state_query or
 * state_ephemerals would append now, for any caller; 0: not a read, or refused. Takes a bounded number of steps, besides
 * reading the body. */
size_t state_reply_bound(const struct state *s, int64_t session_id, int32_t type,
                         struct slice body);

#endif
