/* Pauses between tries: each twice as long as the previous one, up to a limit, with a random part, so that callers that
 * failed together do not try again together. */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>

/* The longest pause after this many doublings: min, 2 min, 4 min, ... max. 0 <= min <= max. Pure. */
int64_t backoff_longest(int64_t min, int64_t max, unsigned doublings);

/* The pause after this one, for callers that keep the pause instead of a count. Pure. */
int64_t backoff_next(int64_t pause, int64_t max);

/* A random value between half of the pause and all of it. */
int64_t backoff_jitter(int64_t pause);

/* The same from a random number of the caller's. Pure. */
int64_t backoff_jitter_from(int64_t pause, uint64_t random);

/* backoff_longest with the random part. */
int64_t backoff_pause(int64_t min, int64_t max, unsigned doublings);

#endif
