/*
 * Latencies of any number of requests in constant memory: buckets of microseconds whose width is less than 1/128 of what
 * they hold, up to more than a day.
 */
#ifndef CLI_BENCH_LATENCY_HISTOGRAM_H
#define CLI_BENCH_LATENCY_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_SUB_BITS = 7, HISTOGRAM_BUCKETS = 32 << HISTOGRAM_SUB_BITS };

/* Begin with zeroes. */
struct latency_histogram {
    uint64_t count;
    uint64_t max_us;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void latency_histogram_add(struct latency_histogram *h, uint64_t us);
void latency_histogram_merge(struct latency_histogram *h, const struct latency_histogram *from);

/* The latency that a share (0 to 1) of all requests did not exceed, by less than 1/128 too high; 0 without requests. */
uint64_t latency_histogram_at(const struct latency_histogram *h, double share);

#endif
