#include "base/clock.h"

#include <stddef.h>
#include <time.h>

static int64_t system_monotonic_ns(void *ctx)
{
    struct timespec ts;
    if (clock_gettime(CLOCK_BOOTTIME, &ts) != 0) {
        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    }
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t system_wall_ms(void *ctx)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

const struct clock_source *clock_system(void)
{
    static const struct clock_source source = {system_monotonic_ns, system_wall_ms, NULL};
    return &source;
}
