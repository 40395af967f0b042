#include "cluster/snapshot_schedule.h"

#include "base/random.h"

#include <assert.h>

static void plan(struct snapshot_schedule *s)
{
    /* At random, so that the members of an ensemble do not take their snapshots at the same time. */
    uint64_t half = s->writes / 2;
    s->at = s->service->stats.applied + half + random_below(half > 0 ? half : 1) + 1;
}

void snapshot_schedule_init(struct snapshot_schedule *s, struct service *service, uint64_t writes)
{
    *s = (struct snapshot_schedule){.service = service, .writes = writes};
    plan(s);
}

void snapshot_schedule_opened(struct snapshot_schedule *s, struct replication *log)
{
    struct replication_stats stats;
    s->log = log;
    plan(s);
    replication_stats(log, &stats);
    s->begun.index = stats.snapshot_index;
}

/* Pieces of a state that are not complete are in the log only, so a snapshot must not replace the log yet. */
static bool pieces_wait(const struct snapshot_schedule *s)
{
    return s->service->replacement.pieces.id != 0;
}

void snapshot_schedule_applied(struct snapshot_schedule *s, uint64_t generation)
{
    struct replication_stats stats;
    if (s->service->generation != generation) {
        s->at = 0; /* the log now contains a whole state: a snapshot makes it short again */
    }
    if (s->log == NULL || s->service->stats.applied < s->at || pieces_wait(s)) {
        return;
    }
    replication_stats(s->log, &stats);
    if (stats.snapshot_worth) {
        plan(s);
        replication_snapshot(s->log);
    }
}

int snapshot_schedule_begin(struct snapshot_schedule *s)
{
    struct replication_stats stats;
    assert(s->log != NULL);
    plan(s);
    int rc = pieces_wait(s) ? CONCLAVE_EBUSY : state_snapshot_begin(s->service->state);
    if (rc == 0) {
        replication_stats(s->log, &stats);
        snapshot_schedule_newest(s, &s->done);
        s->begun = (struct server_snapshot){stats.applied_index, state_zxid(s->service->state)};
        s->generation = s->service->generation;
    }
    return rc;
}

/* The rest of a snapshot cannot be written after its state was replaced. */
static bool is_void(const struct snapshot_schedule *s)
{
    return s->generation != s->service->generation;
}

int snapshot_schedule_step(struct snapshot_schedule *s, size_t max_bytes, struct buf *out)
{
    return is_void(s) ? CONCLAVE_ECLOSED : state_snapshot_step(s->service->state, max_bytes, out);
}

void snapshot_schedule_abort(struct snapshot_schedule *s)
{
    if (!is_void(s)) {
        state_snapshot_abort(s->service->state);
    }
}

void snapshot_schedule_newest(const struct snapshot_schedule *s, struct server_snapshot *ret)
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
