#include "cli/bench/latency_histogram.h"

#include <assert.h>

static unsigned bucket_of(uint64_t us)
{
    if (us < (UINT64_C(1) << HISTOGRAM_SUB_BITS)) {
        return (unsigned)us;
    }
    unsigned shift = 63u - (unsigned)__builtin_clzll(us) - HISTOGRAM_SUB_BITS;
    uint64_t rest = (us >> shift) - (UINT64_C(1) << HISTOGRAM_SUB_BITS);
    uint64_t bucket = ((uint64_t)(shift + 1) << HISTOGRAM_SUB_BITS) + rest;
    return bucket < HISTOGRAM_BUCKETS ? (unsigned)bucket : HISTOGRAM_BUCKETS - 1;
}

/* The largest value of a bucket. */
static uint64_t bucket_end(unsigned bucket)
{
    if (bucket < (1u << HISTOGRAM_SUB_BITS)) {
        return bucket;
    }
    unsigned shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
    uint64_t base = (1u << HISTOGRAM_SUB_BITS) + (bucket & ((1u << HISTOGRAM_SUB_BITS) - 1));
    return ((base + 1) << shift) - 1;
}

void latency_histogram_add(struct latency_histogram *h, uint64_t us)
{
    h->count++;
    h->max_us = us > h->max_us ? us : h->max_us;
    h->buckets[bucket_of(us)]++;
}

void latency_histogram_merge(struct latency_histogram *h, const struct latency_histogram *from)
{
    h->count += from->count;
    h->max_us = from->max_us > h->max_us ? from->max_us : h->max_us;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        h->buckets[i] += from->buckets[i];
    }
}

uint64_t latency_histogram_at(const struct latency_histogram *h, double share)
{
    uint64_t seen = 0;
    uint64_t wanted = (uint64_t)(share * (double)h->count);
    assert(share >= 0 && share <= 1);
    wanted = wanted < h->count ? wanted : h->count - (h->count > 0);
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS && h->count > 0; i++) {
        seen += h->buckets[i];
        if (seen > wanted) {
            uint64_t end = bucket_end(i);
            return end < h->max_us ? end : h->max_us;
        }
    }
    return h->max_us;
}
