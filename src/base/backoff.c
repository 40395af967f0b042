#include "base/backoff.h"

#include "base/random.h"

#include <assert.h>

int64_t backoff_next(int64_t pause, int64_t max)
{
    assert(0 <= pause && 0 <= max);
    return pause > max / 2 ? max : 2 * pause;
}

int64_t backoff_longest(int64_t min, int64_t max, unsigned doublings)
{
    int64_t pause = min;
    assert(0 <= min && min <= max);
    for (unsigned i = 0; i < doublings && pause > 0 && pause < max; i++) {
        pause = backoff_next(pause, max);
    }
    return pause;
}

int64_t backoff_jitter_from(int64_t pause, uint64_t random)
{
    assert(pause >= 0);
    int64_t half = pause / 2;
    return half + (int64_t)(random % ((uint64_t)half + 1));
}

int64_t backoff_jitter(int64_t pause)
{
    return backoff_jitter_from(pause, random_below(UINT64_MAX));
}

int64_t backoff_pause(int64_t min, int64_t max, unsigned doublings)
{
    return backoff_jitter(backoff_longest(min, max, doublings));
}
