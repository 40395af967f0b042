#include "cluster/snapshot_schedule.h"

#include "base/random.h"

static void plan(struct snapshots *s)
{
    uint64_t half = s->writes / 2;
    s->at = s->service->stats.applied + half + random_below(half > 0 ? half : 1) + 1;
}

void snapshots_init(struct snapshots *s, struct service *service, uint64_t writes)
{
    *s = (struct snapshots){.service = service, .writes = writes};
    plan(s);
}

void snapshots_opened(struct snapshots *s, struct replication *log)
{
    struct replication_stats stats;
    s->log = log;
    plan(s);
    replication_stats(log, &stats);
    s->begun.index = stats.snapshot_index;
}

void snapshots_applied(struct snapshots *s, uint64_t generation)
{
    struct replication_stats stats;
    if (s->service->generation != generation) {
        s->at = 0; /* the log holds the whole state now: it is to be short again */
    }
    if (s->log == NULL || s->service->stats.applied < s->at) {
        return;
    }
    replication_stats(s->log, &stats);
    if (stats.snapshot_worth) {
        plan(s);
        replication_snapshot(s->log);
    }
}

void snapshots_restored(struct snapshots *s)
{
    s->begun.zxid = state_zxid(s->service->state);
}

void snapshots_end(struct snapshots *s)
{
    s->at = UINT64_MAX;
}

int snapshots_begin(struct snapshots *s)
{
    struct replication_stats stats;
    plan(s);
    int rc = state_snapshot_begin(s->service->state);
    if (rc == 0) {
        replication_stats(s->log, &stats);
        snapshots_newest(s, &s->done);
        s->begun = (struct server_snapshot){stats.applied_index, state_zxid(s->service->state)};
        s->generation = s->service->generation;
    }
    return rc;
}

/* Of a state that has been replaced the rest cannot be written any more. */
static bool is_void(const struct snapshots *s)
{
    return s->generation != s->service->generation;
}

int snapshots_step(struct snapshots *s, size_t max_bytes, struct buf *out)
{
    return is_void(s) ? CONCLAVE_ECLOSED : state_snapshot_step(s->service->state, max_bytes, out);
}

void snapshots_abort(struct snapshots *s)
{
    if (!is_void(s)) {
        state_snapshot_abort(s->service->state);
    }
}

void snapshots_newest(const struct snapshots *s, struct server_snapshot *ret)
{
    struct replication_stats stats;
    *ret = (struct server_snapshot){0};
    if (s->log == NULL) {
        return;
    }
    replication_stats(s->log, &stats);
    if (s->begun.index == stats.snapshot_index) {
        *ret = s->begun;
    } else if (s->done.index == stats.snapshot_index) {
        *ret = s->done;
    }
}
