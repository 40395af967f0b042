#include "front/traces/request_traces.h"

#include "base/clock.h"
#include "front/limits/server_metrics.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int request_traces_init(struct request_traces *t, const struct trace_options *options,
                        struct server_metrics *metrics)
{
    *t = (struct request_traces){.metrics = metrics};
    if (options == NULL || !options->on) {
        return 0;
    }
    t->on = true;
    t->lots = options->sample > 0 ? UINT64_MAX / (uint64_t)options->sample : 0;
    t->open = calloc(TRACES_OPEN_MAX, sizeof *t->open);
    t->done = calloc(TRACES_DONE_MAX, sizeof *t->done);
    return t->open == NULL || t->done == NULL ? CONCLAVE_ENOMEM : 0;
}

void request_traces_finish(struct request_traces *t)
{
    free(t->open);
    free(t->done);
    *t = (struct request_traces){.on = false};
}

struct request_trace *request_traces_find(const struct request_traces *t, const void *owner,
                                          int32_t xid)
{
    for (size_t i = 0; i < t->open_count; i++) {
        if (t->open[i].owner == owner && t->open[i].what.xid == xid) {
            return &t->open[i];
        }
    }
    return NULL;
}

struct request_trace *request_traces_begin(struct request_traces *t, const void *owner,
                                           int64_t begun_ns)
{
    assert(t->on && owner != NULL);
    if (t->open_count == TRACES_OPEN_MAX) {
        t->metrics->conclave_traces_dropped_total++;
        return NULL;
    }
    struct request_trace *r = &t->open[t->open_count++];
    memset(r, 0, sizeof *r);
    r->owner = owner;
    r->begun_ns = r->until_ns = begun_ns;
    r->what.count = 1;
    return r;
}

void request_trace_part(struct request_trace *r, enum request_part part, int64_t until_ns)
{
    assert(part < PART_COUNT && r->owner != NULL);
    if (until_ns > r->until_ns) {
        r->part_ns[part] += until_ns - r->until_ns;
        r->until_ns = until_ns;
    }
}

/* Moves open trace number i to those that are done; the last open one takes its place. The only time of the wall clock is
 * that of the end, so that a step of the clock cannot make a request negative. */
static void trace_end(struct request_traces *t, size_t i)
{
    assert(i < t->open_count && t->done_count <= TRACES_DONE_MAX);
    struct request_trace *r = &t->open[i];
    if (t->done_count == TRACES_DONE_MAX) {
        t->metrics->conclave_traces_dropped_total++;
    } else {
        struct request_trace *to = &t->done[(t->first + t->done_count++) % TRACES_DONE_MAX];
        *to = *r;
        to->begun_ns = clock_wall_ns() - (r->until_ns - r->begun_ns);
        to->owner = NULL;
    }
    if (--t->open_count != i) {
        *r = t->open[t->open_count];
    }
}

void request_traces_applied(struct request_traces *t, int64_t now_ns)
{
    for (size_t i = 0; i < t->open_count; i++) {
        struct request_trace *r = &t->open[i];
        if (r->applying) {
            request_trace_part(r, PART_APPLY, now_ns);
            r->applying = false;
        }
    }
}

void request_traces_sent(struct request_traces *t, const void *owner, bool taken, bool all,
                         int64_t now_ns)
{
    for (size_t i = t->open_count; i > 0; i--) {
        struct request_trace *r = &t->open[i - 1];
        if (r->owner != owner || r->applying) {
            continue;
        }
        if (all || (taken && r->given)) {
            request_trace_part(r, PART_SEND, now_ns);
            trace_end(t, i - 1);
        } else {
            r->given = r->given || taken;
        }
    }
}

void request_traces_gone(struct request_traces *t, const void *owner, int64_t now_ns)
{
    for (size_t i = t->open_count; i > 0; i--) {
        struct request_trace *r = &t->open[i - 1];
        if (r->owner == owner) {
            request_trace_part(r, PART_SEND, now_ns);
            r->unsent = true;
            trace_end(t, i - 1);
        }
    }
}

const struct request_trace *request_traces_peek(const struct request_traces *t, size_t i)
{
    return i < t->done_count ? &t->done[(t->first + i) % TRACES_DONE_MAX] : NULL;
}

void request_traces_pop(struct request_traces *t, size_t count)
{
    assert(count <= t->done_count);
    t->first = (t->first + count) % TRACES_DONE_MAX;
    t->done_count -= count;
}
