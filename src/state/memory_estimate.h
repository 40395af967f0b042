/* How much memory the state takes, and how much more a write would make it take. */
#ifndef STATE_MEMORY_ESTIMATE_H
#define STATE_MEMORY_ESTIMATE_H

#include "state/state.h"

/* Bytes of memory that nodes, sessions and results take, about: to be compared with a limit. The same on every
 * server that runs the same program. */
size_t state_memory(const struct state *s);

/*
 * By how many bytes a client's write would add to state_memory if it succeeded now: 0 or less when it does not,
 * or when it cannot be decoded. A hint for whoever takes the write in: by the time it is applied the state may
 * be another.
 */
int64_t state_growth(const struct state *s, int32_t type, struct slice body);

#endif
