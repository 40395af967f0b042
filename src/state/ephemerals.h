/* The ephemeral nodes of a session, one by one: for those who need no whole answer (state.h: state_ephemerals). */
#ifndef STATE_EPHEMERALS_H
#define STATE_EPHEMERALS_H

#include "state/state.h"
#include "tree/tree.h"

/* Calls fn for this session's nodes, oldest first, until fn returns false; fn must not change the state. */
void state_ephemerals_each(const struct state *s, int64_t session_id,
                           bool (*fn)(void *ctx, const struct znode *node), void *ctx);

#endif
