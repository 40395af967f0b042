/*
 * The figures of the last hour: one sample every SAMPLES_EVERY_MS, in a ring of fixed size (some 40 KiB). A sample counts
 * what happened since the one before it, so its quantiles are of that time alone. Pure: the caller brings the time.
 */
#ifndef ADMIN_CONSOLE_SAMPLES_H
#define ADMIN_CONSOLE_SAMPLES_H

#include "base/json.h"
#include "front/limits/server_metrics.h"

enum {
    SAMPLES_EVERY_MS = 5000,
    SAMPLES_MAX = 720, /* an hour */
};

/* Of the time since the previous sample. */
struct server_sample {
    int64_t at_ms;  /* wall clock */
    uint32_t reads; /* per second */
    uint32_t writes;
    uint32_t p50_us; /* of reads and writes */
    uint32_t p99_us;
    uint32_t fsync_p99_us;
    uint32_t stall_ms; /* the longest time in which the process did not run */
};

/* What the previous sample saw. */
struct samples_seen {
    struct summary reads;
    struct summary writes;
    struct summary fsync;
    struct summary stalls;
};

struct samples {
    struct server_sample ring[SAMPLES_MAX];
    uint64_t count;   /* samples ever taken; the newest is number count - 1 */
    int64_t taken_ms; /* monotonic time of the newest */
    struct samples_seen seen;
    bool begun; /* `seen` is set */
};

/* Empty; the first call of samples_take only notes where the figures begin. */
void samples_init(struct samples *s);

/* Takes a sample if it is time for one. True: it did. */
bool samples_take(struct samples *s, const struct server_metrics *m, int64_t now_ms,
                  int64_t wall_ms);

/* The newest, or NULL. */
const struct server_sample *samples_newest(const struct samples *s);

/* Sample i of those kept, oldest first; NULL: there are fewer. */
const struct server_sample *samples_at(const struct samples *s, size_t i);

/* Writes one sample as a value: a list [number, at_ms, reads, writes, p50_us, p99_us, fsync_p99_us]; null for NULL. */
void samples_write(const struct samples *s, const struct server_sample *sample, struct json *j);

#endif
