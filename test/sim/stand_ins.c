/*
 * The simulation's replacements for parts of the product, in addition to loop.c (replication_uv.h) and
 * links.c (peer.h): chance, log lines, the machine's clock and files. The linker takes these because they
 * come first, or by --wrap; nothing in the product knows of it.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void random_bytes(void *data, size_t len)
{
    struct world *w = &sim_now()->world;
    uint8_t *p = data;
    while (len > 0) {
        uint64_t number = prng_next(&w->prng);
        size_t n = len < sizeof number ? len : sizeof number;
        memcpy(p, &number, n);
        p += n;
        len -= n;
    }
}

uint64_t random_below(uint64_t bound)
{
    return world_below(&sim_now()->world, bound);
}

void log_set_level(enum log_level level)
{
}

void log_set_format(enum log_format format)
{
}

bool log_level_find(const char *name, enum log_level *ret)
{
    return false;
}

bool log_format_find(const char *name, enum log_format *ret)
{
    return false;
}

static void trace_line(const char *event, const char *fmt, va_list ap)
{
    struct sim *s = sim_now();
    char text[700];
    vsnprintf(text, sizeof text, fmt, ap);
    world_trace(&s->world, "server %u: %s %s", s->current != NULL ? s->current->id : 0, event,
                text);
}

void log_advise(enum log_level level, const char *area, const char *event, const char *advice,
                const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    trace_line(event, fmt, ap);
    va_end(ap);
}

void log_always(const char *area, const char *event, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    trace_line(event, fmt, ap);
    va_end(ap);
}

void log_cause(enum log_level level, const char *area, const char *event, const char *who,
               const char *why, const char *advice, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    trace_line(event, fmt, ap);
    va_end(ap);
}

void log_tick(void)
{
}

void log_finish(void)
{
}

/* By --wrap: those of the machine whose code runs. */
const struct clock_source *__wrap_clock_system(void);
const struct clock_source *__wrap_clock_system(void)
{
    return &sim_now()->current->clock;
}

const struct file_ops *__wrap_file_ops_system(void);
const struct file_ops *__wrap_file_ops_system(void)
{
    return disk_ops(sim_now()->current->disk);
}
