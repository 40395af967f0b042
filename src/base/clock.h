/*
 * Clocks behind an interface, so that tests and simulations can use their own. The monotonic clock counts suspend, too
 * (CLOCK_BOOTTIME), so that a machine that slept does not believe in an old lease.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct clock_source {
    int64_t (*monotonic_ns)(void *ctx); /* never goes back */
    int64_t (*wall_ms)(void *ctx);      /* milliseconds since 1970, may jump */
    void *ctx;
};

/* The system's clocks. Static. */
const struct clock_source *clock_system(void);

/* The system's wall clock, nanoseconds since 1970: for times that other programs compare with theirs. */
int64_t clock_wall_ns(void);

static inline int64_t clock_monotonic_ns(const struct clock_source *c)
{
    return c->monotonic_ns(c->ctx);
}

static inline int64_t clock_monotonic_ms(const struct clock_source *c)
{
    return c->monotonic_ns(c->ctx) / 1000000;
}

/* The moment ms milliseconds (at least 0) after now_ns; INT64_MAX, which never comes, if it is too far for this. For times that
 * a program gives: it may give any. Pure. */
static inline int64_t clock_add_ms(int64_t now_ns, int64_t ms)
{
    return ms > (INT64_MAX - now_ns) / 1000000 ? INT64_MAX : now_ns + ms * 1000000;
}

/* Finds steps of the wall clock beside the monotonic one. All zero at the start. */
struct clock_watch {
    bool known;
    int64_t offset_ms; /* wall clock minus monotonic clock */
};

/* Looks at both clocks; returns how far the wall clock has stepped since the last look, in ms, negative: backwards; 0: no
 * more than a second, which adjustments of the clock's speed can explain. A look that took long says nothing. */
int64_t clock_watch_step(struct clock_watch *w, const struct clock_source *c);

static inline int64_t clock_wall_ms(const struct clock_source *c)
{
    return c->wall_ms(c->ctx);
}

#endif
