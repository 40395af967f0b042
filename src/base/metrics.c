#include "base/metrics.h"

#include <string.h>

/* Values below SUMMARY_STEPS have a bucket each; above, each power of two has SUMMARY_STEPS buckets. */
static size_t bucket_of(uint64_t value)
{
    if (value < SUMMARY_STEPS) {
        return (size_t)value;
    }
    unsigned power = 63 - (unsigned)__builtin_clzll(value);
    size_t at = (size_t)(power - 3) * SUMMARY_STEPS + (value >> (power - 4)) % SUMMARY_STEPS;
    return at < SUMMARY_BUCKETS ? at : SUMMARY_BUCKETS - 1;
}

/* The middle of a bucket. */
static uint64_t bucket_value(size_t at)
{
    if (at < SUMMARY_STEPS) {
        return at;
    }
    unsigned shift = (unsigned)(at / SUMMARY_STEPS) - 1;
    uint64_t low = (uint64_t)(SUMMARY_STEPS + at % SUMMARY_STEPS) << shift;
    return low + (((uint64_t)1 << shift) - 1) / 2;
}

void summary_add_many(struct summary *s, uint64_t value, uint64_t n)
{
    if (s->count == 0 || value < s->min) {
        s->min = value;
    }
    if (value > s->max) {
        s->max = value;
    }
    s->count += n;
    s->sum += value * n;
    s->buckets[bucket_of(value)] += n;
}

uint64_t summary_quantile(const struct summary *s, double q)
{
    double share = q * (double)s->count;
    uint64_t rank = (uint64_t)share;
    uint64_t seen = 0;
    if ((double)rank < share) {
        rank++;
    }
    if (s->count == 0) {
        return 0;
    }
    for (size_t i = 0; i < SUMMARY_BUCKETS; i++) {
        seen += s->buckets[i];
        if (seen >= rank && s->buckets[i] > 0) {
            uint64_t value = bucket_value(i);
            value = value < s->min ? s->min : value;
            return value > s->max ? s->max : value;
        }
    }
    return s->max;
}

double summary_average(const struct summary *s)
{
    return s->count == 0 ? 0 : (double)s->sum / (double)s->count;
}
