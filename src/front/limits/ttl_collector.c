#include "front/limits/ttl_collector.h"

#include "base/endian.h"

#include <assert.h>

enum {
    LOOK_NODES = 1000,     /* nodes per step */
    LOOK_STEPS = 10,       /* steps per tick */
    FOUND_BYTES = 1 << 20, /* at this size, the search waits for deletions */
    PROPOSE_STEP_MS = 100, /* between proposals of several deletions */
    MINUTE_MS = 60 * 1000,
    LENGTH_BYTES = 4,
};

struct ttl_collector_options ttl_collector_options_default(void)
{
    return (struct ttl_collector_options){.interval_ms = MINUTE_MS, .per_minute = 10000};
}

void ttl_collector_init(struct ttl_collector *c, const struct ttl_collector_options *options)
{
    assert(options->interval_ms > 0 && options->per_minute > 0);
    *c = (struct ttl_collector){.options = *options, .look_at = INT64_MAX};
    buf_init(&c->found, 0);
}

/* If memory is short, the next search finds the node again. */
static void collector_keep(void *ctx, const struct spent *spent)
{
    struct ttl_collector *c = ctx;
    size_t start = c->found.len;
    buf_append_i32(&c->found, 0);
    spent_encode(&c->found, spent);
    if (!buf_ok(&c->found)) {
        c->found.len = start;
        c->found.failed = false;
        return;
    }
    buf_put_i32(&c->found, start, (int32_t)(c->found.len - start - LENGTH_BYTES));
}

static bool collector_looking(const struct ttl_collector *c)
{
    return c->left > 0 && c->found.len - c->found_at < FOUND_BYTES;
}

static void collector_look(struct ttl_collector *c, struct state *state, int64_t wall_ms)
{
    struct state_spent_rules rules = {.now_ms = wall_ms, .never_used_ms = c->options.never_used_ms};
    for (int step = 0; step < LOOK_STEPS && collector_looking(c); step++) {
        size_t max = c->left < LOOK_NODES ? c->left : LOOK_NODES;
        size_t seen = state_spent_scan(state, &rules, max, collector_keep, c);
        c->left = seen < max ? 0 : c->left - seen;
    }
}

/* As many as one step allows. */
static void collector_delete(struct ttl_collector *c, ttl_collector_propose_fn propose, void *ctx)
{
    int64_t allowed = c->options.per_minute * PROPOSE_STEP_MS / MINUTE_MS;
    int64_t proposed = 0;
    while (c->found_at < c->found.len && (proposed == 0 || proposed < allowed)) {
        const uint8_t *at = c->found.data + c->found_at;
        size_t len = get_be32(at);
        assert(len <= c->found.len - c->found_at - LENGTH_BYTES);
        if (!propose(ctx, slice_make(at + LENGTH_BYTES, len))) {
            return;
        }
        c->found_at += LENGTH_BYTES + len;
        c->proposed++;
        proposed++;
    }
    if (c->found_at == c->found.len) {
        buf_finish(&c->found);
        c->found_at = 0;
    }
}

void ttl_collector_tick(struct ttl_collector *c, struct state *state, int64_t now_ms,
                        int64_t wall_ms, ttl_collector_propose_fn propose, void *ctx)
{
    if (c->found.len == 0 && c->left == 0 && now_ms >= c->look_at) {
        struct state_stats stats;
        state_stats(state, &stats);
        c->left = stats.collectable;
        c->look_at = now_ms + c->options.interval_ms;
    }
    collector_look(c, state, wall_ms);
    if (c->found.len > 0 && now_ms >= c->propose_at) {
        int64_t gap_ms = MINUTE_MS / c->options.per_minute;
        c->propose_at = now_ms + (gap_ms > PROPOSE_STEP_MS ? gap_ms : PROPOSE_STEP_MS);
        collector_delete(c, propose, ctx);
    }
}

int64_t ttl_collector_deadline(const struct ttl_collector *c)
{
    if (collector_looking(c)) {
        return 0;
    }
    return c->found.len > 0 ? c->propose_at : c->look_at;
}
