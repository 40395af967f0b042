/*
 * Metrics for operators: counters, gauges, summaries and histograms, each a row of a table with its name and help. All
 * but gauges are fields of their owner's struct; a gauge is computed on request. Adding takes a few nanoseconds: no
 * lock, no allocation. Everything belongs to one thread.
 *
 * A summary keeps count, sum, minimum and maximum exactly, and a histogram of fixed size whose buckets are at most 1/16
 * wide: the error of a quantile is less than that. A histogram has few buckets, the same in every server and version, so
 * that the figures of several servers can be added.
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SUMMARY_STEPS = 16,  /* buckets per power of two */
    SUMMARY_POWERS = 44, /* greater values share the last buckets */
    SUMMARY_BUCKETS = (SUMMARY_POWERS - 3) * SUMMARY_STEPS,
};

struct summary {
    uint64_t count;
    uint64_t sum;
    uint64_t min; /* 0 while count is 0 */
    uint64_t max;
    uint64_t buckets[SUMMARY_BUCKETS];
};

/* Adds the same value n times (n > 0). */
void summary_add_many(struct summary *s, uint64_t value, uint64_t n);

static inline void summary_add(struct summary *s, uint64_t value)
{
    summary_add_many(s, value, 1);
}

/* The value that a share of q (0 to 1) of all values does not exceed; 0: no values. */
uint64_t summary_quantile(const struct summary *s, double q);

/* sum / count; 0: no values. */
double summary_average(const struct summary *s);

enum {
    HISTOGRAM_FIRST =
        5, /* the first bucket ends at 2 to this power, the next ones at twice the one before */
    HISTOGRAM_BUCKETS = 21, /* the last one has no end */
};

/* In microseconds: buckets end at 32 µs to 16.8 s. */
struct histogram {
    uint64_t count;
    uint64_t sum;
    uint64_t
        buckets[HISTOGRAM_BUCKETS]; /* values above the end of the bucket before; not added up */
};

/* Adds the same value n times. */
static inline void histogram_add_many(struct histogram *h, uint64_t value, uint64_t n)
{
    unsigned bits = value > 1 ? 64 - (unsigned)__builtin_clzll(value - 1) : 0;
    unsigned at = bits > HISTOGRAM_FIRST ? bits - HISTOGRAM_FIRST : 0;
    h->buckets[at < HISTOGRAM_BUCKETS ? at : HISTOGRAM_BUCKETS - 1] += n;
    h->count += n;
    h->sum += value * n;
}

/* The greatest value of a bucket; UINT64_MAX: the last one. */
static inline uint64_t histogram_end(size_t at)
{
    return at + 1 < HISTOGRAM_BUCKETS ? UINT64_C(1) << (at + HISTOGRAM_FIRST) : UINT64_MAX;
}

enum metric_kind {
    METRIC_COUNTER,   /* uint64_t at offset, or the value that read returns */
    METRIC_SUMMARY,   /* struct summary at offset */
    METRIC_GAUGE,     /* the value that read returns */
    METRIC_HISTOGRAM, /* struct histogram at offset */
};

struct metric_row {
    const char *name;
    enum metric_kind kind;
    size_t offset;                   /* in the owner's struct: all but gauges */
    double (*read)(const void *ctx); /* gauges, and counters that no struct holds */
    double scale;                    /* the shown value is the kept value times this */
    bool fraction;                   /* a gauge that is not a whole number */
    const char *label;               /* of a histogram: its label and value, or NULL */
    /* help text, one line; NULL: this histogram differs from the row before only by its label */
    const char *help;
};

/* For a list of gauges X(name, whether it has a fraction, expression, help): defines the function that reads one, whose
 * expression uses the values as `const type *var`, and its row. */
#define METRIC_GAUGE_READ(gauge, type, var, expression)                                            \
    static double read_##gauge(const void *ctx)                                                    \
    {                                                                                              \
        const type *var = ctx;                                                                     \
        return (double)(expression);                                                               \
    }
#define METRIC_GAUGE_ROW(gauge, has_fraction, expression, text)                                    \
    {.name = #gauge,                                                                               \
     .kind = METRIC_GAUGE,                                                                         \
     .read = read_##gauge,                                                                         \
     .scale = 1,                                                                                   \
     .fraction = (has_fraction),                                                                   \
     .help = (text)},

/* The same for a number that only grows. */
#define METRIC_COUNTER_ROW(counter, has_fraction, expression, text)                                \
    {.name = #counter,                                                                             \
     .kind = METRIC_COUNTER,                                                                       \
     .read = read_##counter,                                                                       \
     .scale = 1,                                                                                   \
     .fraction = (has_fraction),                                                                   \
     .help = (text)},

static inline const uint64_t *metric_counter(const struct metric_row *row, const void *holder)
{
    return (const uint64_t *)(const void *)((const char *)holder + row->offset);
}

static inline const struct summary *metric_summary(const struct metric_row *row, const void *holder)
{
    return (const struct summary *)(const void *)((const char *)holder + row->offset);
}

static inline const struct histogram *metric_histogram(const struct metric_row *row,
                                                       const void *holder)
{
    return (const struct histogram *)(const void *)((const char *)holder + row->offset);
}

#endif
