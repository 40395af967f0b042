/*
 * Virtual time, chance and the record of a run: all that happens in a simulation happens in an event of
 * this queue, one after the other, and everything that looks random is drawn from one seed. So the same
 * seed gives the same run, and `trace` is its digest.
 *
 * Time is true time in microseconds, from 0; servers see it through clocks of their own (machine.h).
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "base/list.h"
#include "base/random.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MS = 1000, SECOND = 1000 * 1000 };

/* Something that happens later; the first member of a larger struct. */
struct event {
    int64_t at_us;
    uint64_t order; /* of those at the same time */

    /* Happens, or does not because the run is over (dropped); frees the event in either case. */
    void (*fn)(struct event *e, bool dropped);
};

struct world {
    int64_t now_us;
    struct prng prng;
    struct event **heap;
    size_t count;
    size_t cap;
    uint64_t next_order;
    uint64_t happened; /* events so far */
    uint64_t trace;
    uint64_t told; /* lines of trace */
    bool verbose;
    char violation[1024]; /* the first broken promise, "" */
};

void world_init(struct world *w, uint64_t seed, bool verbose);
void world_finish(struct world *w); /* drops what has not happened */

/* Puts an event into the queue, delay_us from now. Takes it. */
void world_after(struct world *w, int64_t delay_us, struct event *e_take);

/* The next event happens; false when there is none before end_us, which is the time then. */
bool world_step(struct world *w, int64_t end_us);

/* Chance: a number below bound; from low to high; true in `of` of 1,000 cases. */
uint64_t world_below(struct world *w, uint64_t bound);
int64_t world_between(struct world *w, int64_t low, int64_t high);
bool world_chance(struct world *w, unsigned of_1000);

/* Adds to the digest, and to standard output when the run is verbose. */
void world_trace(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds bytes to the digest. */
void world_mix(struct world *w, uint64_t number);

/* A promise was broken: the first one is kept, the run ends. */
void world_violation(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static inline bool world_violated(const struct world *w)
{
    return w->violation[0] != '\0';
}

/* Memory that is zero, or the end of the program. */
void *must_calloc(size_t size);

#endif
