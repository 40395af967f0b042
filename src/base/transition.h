/*
 * Checked transitions of a state machine. Its table has a row for each state, with a bit for each state that may follow:
 *
 *     static const uint16_t NEXT[] = {[IDLE] = TRANSITION_TO(RUNNING), [RUNNING] = TRANSITION_TO(IDLE)};
 *
 * Limit: 16 states. A state that may follow itself says so in its row.
 */
#ifndef BASE_TRANSITION_H
#define BASE_TRANSITION_H

#include <assert.h>
#include <stdint.h>

#define TRANSITION_TO(state) (uint16_t)(1u << (state))
#define TRANSITION_TO_ANY UINT16_MAX

/* Ends the process when the table does not allow it: a fault of ours, never of the input. */
static inline void transition_check(const uint16_t *next, unsigned from, unsigned to)
{
    assert((next[from] & (1u << to)) != 0);
}

#endif
