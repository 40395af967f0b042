#include "admin/console/samples.h"

#include <assert.h>
#include <string.h>

void samples_init(struct samples *s)
{
    memset(s, 0, sizeof *s);
}

/* The values that came since `before`. The word srst resets a summary: then all of them are new. */
static void summary_since(const struct summary *now, const struct summary *before,
                          struct summary *ret)
{
    bool reset = now->count < before->count;
    *ret = *now;
    for (size_t i = 0; i < SUMMARY_BUCKETS && !reset; i++) {
        reset = now->buckets[i] < before->buckets[i];
    }
    if (reset) {
        return;
    }
    ret->count -= before->count;
    ret->sum -= before->sum;
    for (size_t i = 0; i < SUMMARY_BUCKETS; i++) {
        ret->buckets[i] -= before->buckets[i];
    }
}

static void summary_join(struct summary *s, const struct summary *other)
{
    s->min = other->min < s->min ? other->min : s->min;
    s->max = other->max > s->max ? other->max : s->max;
    s->count += other->count;
    assert(s->count >= other->count);
    s->sum += other->sum;
    for (size_t i = 0; i < SUMMARY_BUCKETS; i++) {
        s->buckets[i] += other->buckets[i];
    }
}

static uint32_t samples_clip(uint64_t value)
{
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static void samples_see(struct samples *s, const struct server_metrics *m)
{
    s->seen = (struct samples_seen){.reads = m->readlatency,
                                    .writes = m->updatelatency,
                                    .fsync = m->fsynctime,
                                    .stalls = m->jvm_pause_time_ms};
    s->begun = true;
}

static void samples_measure(const struct samples *s, const struct server_metrics *m,
                            int64_t passed_ms, struct server_sample *ret)
{
    struct summary all;
    struct summary part;
    assert(s->begun && passed_ms >= SAMPLES_EVERY_MS);
    summary_since(&m->readlatency, &s->seen.reads, &all);
    ret->reads = samples_clip(all.count * 1000 / (uint64_t)passed_ms);
    summary_since(&m->updatelatency, &s->seen.writes, &part);
    ret->writes = samples_clip(part.count * 1000 / (uint64_t)passed_ms);
    summary_join(&all, &part);
    all.min = 0; /* the least value of all time may not be one of these */
    ret->p50_us = samples_clip(summary_quantile(&all, 0.5));
    ret->p99_us = samples_clip(summary_quantile(&all, 0.99));
    summary_since(&m->fsynctime, &s->seen.fsync, &part);
    part.min = 0;
    ret->fsync_p99_us = samples_clip(summary_quantile(&part, 0.99));
    summary_since(&m->jvm_pause_time_ms, &s->seen.stalls, &part);
    part.min = 0;
    ret->stall_ms = samples_clip(summary_quantile(&part, 1));
}

bool samples_take(struct samples *s, const struct server_metrics *m, int64_t now_ms,
                  int64_t wall_ms)
{
    int64_t passed_ms = now_ms - s->taken_ms;
    if (s->begun && passed_ms < SAMPLES_EVERY_MS) {
        return false;
    }
    if (s->begun) {
        struct server_sample *sample = &s->ring[s->count % SAMPLES_MAX];
        *sample = (struct server_sample){.at_ms = wall_ms};
        samples_measure(s, m, passed_ms, sample);
        s->count++;
    }
    s->taken_ms = now_ms;
    bool took = s->begun;
    samples_see(s, m);
    return took;
}

const struct server_sample *samples_newest(const struct samples *s)
{
    return s->count == 0 ? NULL : &s->ring[(s->count - 1) % SAMPLES_MAX];
}

const struct server_sample *samples_at(const struct samples *s, size_t i)
{
    size_t kept = s->count < SAMPLES_MAX ? (size_t)s->count : SAMPLES_MAX;
    return i < kept ? &s->ring[(s->count - kept + i) % SAMPLES_MAX] : NULL;
}

void samples_write(const struct samples *s, const struct server_sample *sample, struct json *j)
{
    if (sample == NULL) {
        json_null(j);
        return;
    }
    assert(s->count > 0 && sample >= s->ring && sample < s->ring + SAMPLES_MAX);
    uint64_t place = (uint64_t)(sample - s->ring);
    uint64_t newest = s->count - 1;
    uint64_t number = newest - (newest + SAMPLES_MAX - place) % SAMPLES_MAX;
    json_array_begin(j);
    json_uint(j, number);
    json_int(j, sample->at_ms);
    json_uint(j, sample->reads);
    json_uint(j, sample->writes);
    json_uint(j, sample->p50_us);
    json_uint(j, sample->p99_us);
    json_uint(j, sample->fsync_p99_us);
    json_array_end(j);
}
