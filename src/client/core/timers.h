/*
 * Timers in one pairing heap: nodes are embedded in their owners and nothing is allocated, so starting a timer cannot
 * fail. Timers with equal times fire in the order of their starts.
 */
#ifndef CLIENT_CORE_TIMERS_H
#define CLIENT_CORE_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

struct timer {
    struct timer *child; /* first of the heap below this one */
    struct timer *next;  /* next sibling */
    struct timer *prev;  /* previous sibling, or parent of the first */
    int64_t at_ns;
    uint64_t seq; /* order of starts */
    bool active;
};

struct timers {
    struct timer *root;
    uint64_t seq;
};

/* Adds t, which must be inactive. */
void timers_add(struct timers *ts, struct timer *t, int64_t at_ns);

/* Removes t; harmless if it is inactive. */
void timers_remove(struct timers *ts, struct timer *t);

/* The timer that fires first, or NULL. */
static inline struct timer *timers_first(const struct timers *ts)
{
    return ts->root;
}

/* Removes and returns the first timer that is due at now_ns, or NULL. */
struct timer *timers_expire(struct timers *ts, int64_t now_ns);

#endif
