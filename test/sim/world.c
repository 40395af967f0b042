#include "sim/world.h"

#include "base/map.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void *must_calloc(size_t size)
{
    void *p = calloc(1, size);
    if (p == NULL) {
        fprintf(stderr, "sim: out of memory\n");
        exit(70);
    }
    return p;
}

void world_init(struct world *w, uint64_t seed, bool verbose)
{
    *w = (struct world){.prng = {seed}, .verbose = verbose, .trace = seed};
    (void)prng_next(&w->prng);
}

void world_finish(struct world *w)
{
    while (w->count > 0) {
        struct event *e = w->heap[--w->count];
        e->fn(e, true);
    }
    free(w->heap);
    w->heap = NULL;
}

/* The queue is a binary heap. */

static bool before(const struct event *a, const struct event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void world_after(struct world *w, int64_t delay_us, struct event *e_take)
{
    if (w->count == w->cap) {
        w->cap = w->cap == 0 ? 256 : 2 * w->cap;
        w->heap = realloc(w->heap, w->cap * sizeof *w->heap);
        if (w->heap == NULL) {
            abort();
        }
    }
    e_take->at_us = w->now_us + (delay_us > 0 ? delay_us : 0);
    e_take->order = w->next_order++;
    size_t i = w->count++;
    while (i > 0 && before(e_take, w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = e_take;
}

static struct event *pop(struct world *w)
{
    struct event *first = w->heap[0];
    struct event *last = w->heap[--w->count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->count) {
            break;
        }
        if (child + 1 < w->count && before(w->heap[child + 1], w->heap[child])) {
            child++;
        }
        if (!before(w->heap[child], last)) {
            break;
        }
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return first;
}

bool world_step(struct world *w, int64_t end_us)
{
    if (w->count == 0 || w->heap[0]->at_us > end_us) {
        w->now_us = end_us > w->now_us ? end_us : w->now_us;
        return false;
    }
    struct event *e = pop(w);
    w->now_us = e->at_us;
    w->happened++;
    world_mix(w, (uint64_t)e->at_us);
    e->fn(e, false);
    return true;
}

uint64_t world_below(struct world *w, uint64_t bound)
{
    return prng_next(&w->prng) % bound;
}

int64_t world_between(struct world *w, int64_t low, int64_t high)
{
    return low + (int64_t)world_below(w, (uint64_t)(high - low) + 1);
}

bool world_chance(struct world *w, unsigned of_1000)
{
    return world_below(w, 1000) < of_1000;
}

void world_mix(struct world *w, uint64_t number)
{
    w->trace = hash_u64(w->trace ^ number);
}

void world_trace(struct world *w, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    w->told++;
    world_mix(w, hash_bytes(line, n < (int)sizeof line ? (size_t)n : sizeof line - 1));
    if (w->verbose) {
        printf("%6lld.%06lld %s\n", (long long)(w->now_us / SECOND),
               (long long)(w->now_us % SECOND), line);
    }
}

void world_violation(struct world *w, const char *fmt, ...)
{
    va_list ap;
    if (world_violated(w)) {
        return;
    }
    int n = snprintf(w->violation, sizeof w->violation,
                     "at %lld.%06lld s: ", (long long)(w->now_us / SECOND),
                     (long long)(w->now_us % SECOND));
    va_start(ap, fmt);
    vsnprintf(w->violation + n, sizeof w->violation - (size_t)n, fmt, ap);
    va_end(ap);
    world_trace(w, "VIOLATION %s", w->violation);
}
