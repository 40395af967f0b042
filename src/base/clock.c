#include "base/clock.h"

#include <stddef.h>
#include <time.h>

enum { STEP_MIN_MS = 1000, LOOK_MAX_NS = 100000000 };

static int64_t system_monotonic_ns(void *ctx)
{
    struct timespec ts;
    if (clock_gettime(CLOCK_BOOTTIME, &ts) != 0) {
        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    }
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t clock_wall_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t system_wall_ms(void *ctx)
{
    return clock_wall_ns() / 1000000;
}

const struct clock_source *clock_system(void)
{
    static const struct clock_source source = {system_monotonic_ns, system_wall_ms, NULL};
    return &source;
}

int64_t clock_watch_step(struct clock_watch *w, const struct clock_source *c)
{
    int64_t before_ns = clock_monotonic_ns(c);
    int64_t wall_ms = clock_wall_ms(c);
    if (clock_monotonic_ns(c) - before_ns > LOOK_MAX_NS) {
        return 0; /* this process was paused between the two clocks */
    }
    int64_t offset_ms = wall_ms - before_ns / 1000000;
    int64_t step_ms = w->known ? offset_ms - w->offset_ms : 0;
    w->offset_ms = offset_ms;
    w->known = true;
    return step_ms >= STEP_MIN_MS || step_ms <= -STEP_MIN_MS ? step_ms : 0;
}
