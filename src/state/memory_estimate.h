/* How much memory the state uses, and how much a write would add. */
#ifndef STATE_MEMORY_ESTIMATE_H
#define STATE_MEMORY_ESTIMATE_H

#include "state/state.h"

/* The approximate memory of nodes, sessions and results, to compare with a limit. The same on every server that runs
 * the same program. */
size_t state_memory(const struct state *s);

/*
 * By how many bytes a client's write would increase state_memory if it succeeded now: 0 or less if it would not, or
 * cannot be decoded. Only an estimate for the server that receives the write: the state may change before it is
 * applied.
 */
int64_t state_growth(const struct state *s, int32_t type, struct slice body);

#endif
