/*
 * Checked transitions of a state machine. Its table has a row for each state, with a bit for each state that may
 * follow:
 *
 *     static const uint16_t NEXT[] = {[IDLE] = TRANSITION_TO(RUNNING), [RUNNING] = TRANSITION_TO(IDLE)};
 *
 * Limit: 16 states. If a state may follow itself, its row says so.
 */
#ifndef BASE_TRANSITION_H
#define BASE_TRANSITION_H

#include <assert.h>
#include <stdint.h>

#define TRANSITION_TO(state) (uint16_t)(1u << (state))
#define TRANSITION_TO_ANY UINT16_MAX

/* Ends the process if the table forbids the transition: that is a bug of ours, never caused by input. */
static inline void transition_check(const uint16_t *next, unsigned from, unsigned to)
{
    assert((next[from] & (1u << to)) != 0);
}

#endif
