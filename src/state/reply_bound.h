/*
 * How long the answer to a read can be, found out without answering it: what a connection may still ask for depends on
 * it while the read waits. As the state is now; the answer is made later.
 */
#ifndef STATE_REPLY_BOUND_H
#define STATE_REPLY_BOUND_H

#include "state/state.h"

/* Not told: the answer is a list that is too long to be walked for its length alone. */
#define STATE_REPLY_LONG SIZE_MAX

/* No less than state_query or state_ephemerals would append now, for any caller; 0 for what is no read, or is refused.
 * A bounded number of steps, besides those that reading the body takes. */
size_t state_reply_bound(const struct state *s, int64_t session_id, int32_t type,
                         struct slice body);

#endif
