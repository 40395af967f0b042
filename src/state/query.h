/* Questions to the state that are no whole answers: nodes of a session one by one, and how long an answer can be. */
#ifndef STATE_QUERY_H
#define STATE_QUERY_H

#include "state/state.h"
#include "tree/tree.h"

/* Calls fn for this session's ephemeral nodes, oldest first, until fn returns false; fn must not change the state. */
void state_ephemerals_each(const struct state *s, int64_t session_id,
                           bool (*fn)(void *ctx, const struct znode *node), void *ctx);

/* Not told: the answer is a list that is too long to be walked for its length alone. */
#define STATE_REPLY_LONG SIZE_MAX

/* How long the answer to a read can be, as the state is now, without answering it: no less than state_query or state_ephemerals
 * would append now, for any caller; 0 for what is no read, or is refused. A bounded number of steps, besides those that reading
 * the body takes. */
size_t state_reply_bound(const struct state *s, int64_t session_id, int32_t type,
                         struct slice body);

#endif
