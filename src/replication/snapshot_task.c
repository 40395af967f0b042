/*
 * Takes snapshots while the server serves: a slice of the state machine in each turn of the loop; the file worker
 * writes the blocks, and the state machine is never more than a few megabytes ahead of the disk.
 *
 *   IDLE → STEPPING → ENDING → TRIMMING → IDLE
 *              └────────┴→ ABORTING → IDLE
 *
 * A snapshot that cannot be written is dropped and tried again after the next interval; only the log grows meanwhile.
 * The part of the log that an older snapshot needs stays as long as that snapshot.
 */
#include "replication/running_log.h"

#include "base/transition.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AHEAD_MAX (4u << 20)

enum step_kind { STEP_BEGIN, STEP_BLOCK, STEP_FINISH, STEP_ABORT };

/* One piece of work on the file. */
struct snapshot_job {
    struct worker_job job;
    struct replication *r;
    enum step_kind kind;
    struct buf block;
    int rv;
};

/* The work after a durable snapshot. */
struct trim_job {
    struct worker_job job;
    struct replication *r;
    uint64_t snapshot_index;
    uint64_t keep_after;
    uint64_t *snapshots; /* snapshots to remove */
    size_t n_snapshots;
    struct journal_segment *segments; /* segments to remove */
    size_t n_segments;
    uint64_t live_segment; /* the oldest segment that stays */
    bool tidy;             /* no snapshot is being received: incomplete ones are useless */
    int rv;
};

void snapshot_task_init(struct replication *r)
{
    struct snapshot_task *t = &r->snapshot;
    buf_init(&t->pending, 0);
    buf_init(&t->meta.configuration, 0);
    t->writer.fd = -1;
}

void snapshot_task_finish(struct replication *r)
{
    struct snapshot_task *t = &r->snapshot;
    buf_finish(&t->pending);
    buf_finish(&t->meta.configuration);
    error_text_finish(&t->problem);
    free(t->kept);
    t->kept = NULL;
}

/* Runs on the worker. After the first error the later steps only repeat it. */
static void step_work(struct worker_job *job)
{
    struct snapshot_job *s = CONTAINER_OF(job, struct snapshot_job, job);
    struct replication *r = s->r;
    struct snapshot_task *t = &r->snapshot;
    if (s->kind == STEP_ABORT) {
        snapshot_writer_abort(&t->writer);
        return;
    }
    if (t->writer_rv == 0) {
        switch (s->kind) {
        case STEP_BEGIN:
            t->writer_rv = snapshot_writer_begin(&t->writer, r->ops, r->folder.dir,
                                                 r->folder.marker.cluster, &t->meta, &t->problem);
            break;
        case STEP_BLOCK:
            t->writer_rv = snapshot_writer_block(&t->writer, buf_slice(&s->block), &t->problem);
            break;
        case STEP_FINISH:
            t->writer_rv = snapshot_writer_finish(&t->writer, &t->problem);
            break;
        case STEP_ABORT:
            break;
        }
    }
    s->rv = t->writer_rv;
}

static void step_done(struct worker_job *job);

/* Queues a step; block_take may be NULL. False: out of memory. */
static bool queue_step(struct replication *r, enum step_kind kind, struct buf *block_take)
{
    struct snapshot_job *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return false;
    }
    buf_init(&s->block, 0);
    if (block_take != NULL) {
        s->block = *block_take;
        buf_init(block_take, 0);
        r->snapshot.queued += s->block.len;
        r->snapshot.content_size += s->block.len;
    }
    s->r = r;
    s->kind = kind;
    s->job.work = step_work;
    s->job.done = step_done;
    running_log_submit_job(r, LANE_FILES, &s->job);
    return true;
}

static const uint16_t SNAPSHOT_NEXT[] = {
    [SNAPSHOT_IDLE] = TRANSITION_TO(SNAPSHOT_STEPPING),
    [SNAPSHOT_STEPPING] = TRANSITION_TO(SNAPSHOT_ENDING) | TRANSITION_TO(SNAPSHOT_ABORTING) |
                          TRANSITION_TO(SNAPSHOT_IDLE),
    [SNAPSHOT_ENDING] = TRANSITION_TO(SNAPSHOT_TRIMMING) | TRANSITION_TO(SNAPSHOT_ABORTING) |
                        TRANSITION_TO(SNAPSHOT_IDLE),
    [SNAPSHOT_ABORTING] = TRANSITION_TO(SNAPSHOT_IDLE),
    [SNAPSHOT_TRIMMING] = TRANSITION_TO(SNAPSHOT_IDLE),
};

static void snapshot_task_enter(struct replication *r, enum snapshot_state state)
{
    transition_check(SNAPSHOT_NEXT, r->snapshot.state, state);
    r->snapshot.state = state;
}

/* Drops the snapshot. Its file is removed after the blocks that are still queued. */
static void snapshot_task_give_up(struct replication *r)
{
    struct snapshot_task *t = &r->snapshot;
    if (t->state == SNAPSHOT_STEPPING) {
        r->callbacks.snapshot_abort(r->callbacks.ctx);
    }
    buf_reset(&t->pending);
    snapshot_task_enter(r, SNAPSHOT_ABORTING);
    if (!queue_step(r, STEP_ABORT, NULL)) {
        running_log_fail(r, CONCLAVE_ENOMEM, "out of memory while taking a snapshot");
    }
}

void snapshot_task_cancel(struct replication *r)
{
    if (r->snapshot.state == SNAPSHOT_STEPPING) {
        snapshot_task_give_up(r);
    }
}

/* Queues the full blocks of the pending bytes; with `all` also the rest. */
static bool queue_blocks(struct replication *r, bool all)
{
    struct snapshot_task *t = &r->snapshot;
    while (t->pending.len >= SNAPSHOT_BLOCK_SIZE || (all && t->pending.len > 0)) {
        struct buf block;
        size_t len = t->pending.len < SNAPSHOT_BLOCK_SIZE ? t->pending.len : SNAPSHOT_BLOCK_SIZE;
        buf_init(&block, 0);
        buf_append(&block, t->pending.data, len);
        if (!buf_ok(&block) || !queue_step(r, STEP_BLOCK, &block)) {
            buf_finish(&block);
            return false;
        }
        buf_consume(&t->pending, len);
    }
    return true;
}

/* If it is too far ahead of the disk, the state machine waits until half of that is written. */
bool snapshot_task_hungry(const struct replication *r)
{
    return r->snapshot.state == SNAPSHOT_STEPPING && !r->snapshot.ahead;
}

void snapshot_task_step(struct replication *r)
{
    struct snapshot_task *t = &r->snapshot;
    assert(snapshot_task_hungry(r));
    int rv = r->callbacks.snapshot_step(r->callbacks.ctx, SNAPSHOT_BLOCK_SIZE, &t->pending);
    if (t->state != SNAPSHOT_STEPPING) {
        return; /* the callback closed the log */
    }
    if (rv < 0 || !buf_ok(&t->pending) || !queue_blocks(r, rv == 0)) {
        r->snapshots_failed++;
        running_log_note(r, true, "snapshot_failed", "index=%" PRIu64 " reason=\"%s\"",
                         t->meta.index, conclave_strerror(rv < 0 ? rv : CONCLAVE_ENOMEM));
        snapshot_task_give_up(r);
        return;
    }
    if (rv == 0) {
        snapshot_task_enter(r, SNAPSHOT_ENDING);
        if (!queue_step(r, STEP_FINISH, NULL)) {
            snapshot_task_give_up(r);
        }
    } else if (t->queued >= AHEAD_MAX) {
        t->ahead = true;
    }
}

static void snapshot_task_ended(struct replication *r)
{
    snapshot_task_enter(r, SNAPSHOT_IDLE);
    error_text_finish(&r->snapshot.problem);
    if (r->error == 0 && r->stage == LOG_RUNNING) {
        snapshot_task_maybe(r);
    }
}

/* Removes files that are no longer needed: first the log's metadata changes, on its worker, then the files go. */

static void trim_free(struct trim_job *j)
{
    free(j->snapshots);
    free(j->segments);
    free(j);
}

static void remove_work(struct worker_job *job)
{
    struct trim_job *j = CONTAINER_OF(job, struct trim_job, job);
    struct replication *r = j->r;
    if (j->tidy) {
        snapshot_incoming_remove(r->ops, r->folder.dir);
    }
    for (size_t i = 0; i < j->n_snapshots; i++) {
        int rv = snapshot_remove(r->ops, r->folder.dir, j->snapshots[i]);
        j->rv = j->rv != 0 ? j->rv : rv;
    }
    for (size_t i = 0; i < j->n_segments; i++) {
        int rv = journal_dispose(&r->journal, &j->segments[i]);
        j->rv = j->rv != 0 ? j->rv : rv;
    }
}

static void remove_done(struct worker_job *job)
{
    struct trim_job *j = CONTAINER_OF(job, struct trim_job, job);
    struct replication *r = j->r;
    r->spare_hold = false;
    if (j->rv != 0) {
        running_log_note(r, true, "trim_failed", "error=%d reason=\"%s\"", -j->rv,
                         strerror(-j->rv));
    } else if (j->n_segments > 0 || j->n_snapshots > 0) {
        running_log_note(r, false, "log_trimmed", "segments=%zu snapshots=%zu below=%" PRIu64,
                         j->n_segments, j->n_snapshots, j->keep_after + 1);
    }
    trim_free(j);
    snapshot_task_ended(r);
    running_log_job_done(r);
}

static void trim_work(struct worker_job *job)
{
    struct trim_job *j = CONTAINER_OF(job, struct trim_job, job);
    j->rv = journal_trim(&j->r->journal, j->snapshot_index, j->keep_after, &j->segments,
                         &j->n_segments);
    j->live_segment = j->r->journal.segments[0].sequence;
}

static void trim_done(struct worker_job *job)
{
    struct trim_job *j = CONTAINER_OF(job, struct trim_job, job);
    struct replication *r = j->r;
    if (j->rv != 0) {
        running_log_fail(r, j->rv, error_text_of(&r->journal.problem, j->rv));
        trim_free(j);
        snapshot_task_ended(r);
    } else {
        r->live_segment = j->live_segment; /* before the files are reused */
        j->tidy = r->install.receiver.state == RECEIVE_IDLE;
        j->job.work = remove_work;
        j->job.done = remove_done;
        running_log_submit_job(r, LANE_FILES, &j->job);
    }
    running_log_job_done(r);
}

/* Puts the new snapshot into the list of kept ones. */
static bool keep_new(struct snapshot_task *t)
{
    struct kept_snapshot *kept = calloc(t->n_kept + 2, sizeof *kept);
    if (kept == NULL) {
        return false;
    }
    size_t n = 0;
    kept[n++] = (struct kept_snapshot){t->meta.index, true};
    for (size_t i = 0; i < t->n_kept; i++) {
        if (t->kept[i].index != t->meta.index) {
            kept[n++] = t->kept[i];
        }
    }
    free(t->kept);
    t->kept = kept;
    t->n_kept = n;
    return true;
}

void snapshot_task_installed(struct replication *r, uint64_t index)
{
    struct snapshot_task *t = &r->snapshot;
    assert(t->state == SNAPSHOT_IDLE);
    t->meta.index = index;
    if (!keep_new(t)) {
        running_log_fail(r, CONCLAVE_ENOMEM, "out of memory after installing a snapshot");
    }
    t->attempt_index = index;
    t->attempt_bytes = r->applied_bytes;
}

void snapshot_task_damaged(struct replication *r, uint64_t index)
{
    for (size_t i = 0; i < r->snapshot.n_kept; i++) {
        if (r->snapshot.kept[i].index == index) {
            r->snapshot.kept[i].good = false;
        }
    }
}

/* Plans what to remove: with enough good snapshots, all older ones, and the log before the oldest good one. With only
 * one good snapshot, the log stays complete. */
static bool plan_trim(struct replication *r, struct trim_job *j)
{
    struct snapshot_task *t = &r->snapshot;
    size_t want = r->options.snapshots_kept > 2 ? (size_t)r->options.snapshots_kept : 2;
    size_t good = 0;
    uint64_t oldest = 0;
    for (size_t i = 0; i < t->n_kept && good < want; i++) {
        if (t->kept[i].good) {
            good++;
            oldest = t->kept[i].index;
        }
    }
    if (good < 2) {
        return true;
    }
    j->keep_after = oldest > r->options.trailing_entries ? oldest - r->options.trailing_entries : 0;
    if (good < want) {
        return true;
    }
    j->snapshots = calloc(t->n_kept, sizeof *j->snapshots);
    if (j->snapshots == NULL) {
        return false;
    }
    size_t n = 0;
    for (size_t i = 0; i < t->n_kept; i++) {
        if (t->kept[i].index < oldest) {
            j->snapshots[j->n_snapshots++] = t->kept[i].index;
        } else {
            t->kept[n++] = t->kept[i];
        }
    }
    t->n_kept = n;
    return true;
}

/* The file is durable under its final name. */
static void completed(struct replication *r)
{
    struct snapshot_task *t = &r->snapshot;
    struct engine_result result;
    int rv = engine_snapshot(r->engine, running_log_now_ms(r), &t->meta,
                             r->options.trailing_entries, &result);
    if (rv != 0) {
        running_log_fail(r, rv, "the consensus engine refused a snapshot");
        snapshot_task_ended(r);
        return;
    }
    carry_out(r, rv, &result, NULL);
    entry_table_trim(&r->table, t->meta.index > r->options.trailing_entries
                                    ? t->meta.index - r->options.trailing_entries
                                    : 0);
    assert(t->meta.index > r->snapshot_index && t->meta.index <= r->applied);
    r->snapshot_index = t->meta.index;
    t->newest_size = t->content_size;
    running_log_note(r, false, "snapshot_written",
                     "index=%" PRIu64 " bytes=%" PRIu64 " ms=%" PRId64, t->meta.index,
                     t->content_size, running_log_now_ms(r) - t->started_ms);
    if (r->options.snapshot_time != NULL) {
        summary_add(r->options.snapshot_time, (uint64_t)(running_log_now_ms(r) - t->started_ms));
    }

    struct trim_job *j = calloc(1, sizeof *j);
    if (j == NULL || !keep_new(t) || !plan_trim(r, j)) {
        free(j);
        running_log_fail(r, CONCLAVE_ENOMEM, "out of memory while trimming the log");
        snapshot_task_ended(r);
        return;
    }
    snapshot_task_enter(r, SNAPSHOT_TRIMMING);
    j->r = r;
    j->snapshot_index = t->meta.index;
    j->job.work = trim_work;
    j->job.done = trim_done;
    running_log_submit_job(r, LANE_LOG, &j->job);
}

static void step_done(struct worker_job *job)
{
    struct snapshot_job *s = CONTAINER_OF(job, struct snapshot_job, job);
    struct replication *r = s->r;
    struct snapshot_task *t = &r->snapshot;
    assert(t->queued >= s->block.len);
    t->queued -= s->block.len;
    if (s->kind == STEP_ABORT) {
        if (t->writer_rv != 0) {
            r->snapshots_failed++;
            running_log_note(r, true, "snapshot_failed", "index=%" PRIu64 " reason=\"%s\"",
                             t->meta.index, error_text_of(&t->problem, t->writer_rv));
        }
        snapshot_task_ended(r);
    } else if (s->rv != 0) {
        if (t->state == SNAPSHOT_STEPPING || t->state == SNAPSHOT_ENDING) {
            snapshot_task_give_up(r);
        }
    } else if (s->kind == STEP_FINISH) {
        if (r->error == 0) {
            completed(r);
        } else {
            snapshot_task_ended(r); /* the complete file stays for the next start */
        }
    } else if (t->queued < AHEAD_MAX / 2) {
        t->ahead = false;
    }
    buf_finish(&s->block);
    free(s);
    running_log_job_done(r);
}

bool snapshot_task_worth(const struct replication *r)
{
    return r->applied_bytes - r->snapshot.attempt_bytes >= r->snapshot.newest_size;
}

static bool due(const struct replication *r)
{
    const struct snapshot_task *t = &r->snapshot;
    uint64_t since = t->attempt_index > r->snapshot_index ? t->attempt_index : r->snapshot_index;
    /* Applied entries may not be on this server's disk yet, but the log must not end before a snapshot. */
    if (r->applied <= r->snapshot_index || r->applied > engine_stored(r->engine)) {
        return false;
    }
    return t->wanted ||
           (r->options.snapshot_entries > 0 && r->applied - since >= r->options.snapshot_entries &&
            snapshot_task_worth(r)) ||
           (r->options.snapshot_log_bytes > 0 &&
            r->applied_bytes - t->attempt_bytes >= r->options.snapshot_log_bytes);
}

void snapshot_task_maybe(struct replication *r)
{
    struct snapshot_task *t = &r->snapshot;
    if (t->state != SNAPSHOT_IDLE || r->install.state != INSTALL_IDLE || r->stage != LOG_RUNNING ||
        r->error != 0 || r->applying || !due(r)) {
        return;
    }
    t->wanted = false;
    t->attempt_index = r->applied;
    t->attempt_bytes = r->applied_bytes;
    t->meta.index = r->applied;
    t->meta.term = r->applied_term;
    t->meta.configuration_index = r->configuration_index;
    buf_reset(&t->meta.configuration);
    buf_append_slice(&t->meta.configuration, buf_slice(&r->configuration));
    t->writer_rv = 0;
    t->content_size = 0;
    t->ahead = false;
    t->started_ms = running_log_now_ms(r);
    int rv = buf_ok(&t->meta.configuration) ? r->callbacks.snapshot_begin(r->callbacks.ctx)
                                            : CONCLAVE_ENOMEM;
    if (rv == 0) {
        snapshot_task_enter(r, SNAPSHOT_STEPPING);
        if (!queue_step(r, STEP_BEGIN, NULL)) {
            snapshot_task_enter(r, SNAPSHOT_IDLE);
            r->callbacks.snapshot_abort(r->callbacks.ctx);
            rv = CONCLAVE_ENOMEM;
        }
    }
    if (rv != 0) {
        r->snapshots_failed++;
        running_log_note(r, true, "snapshot_failed", "index=%" PRIu64 " reason=\"%s\"", r->applied,
                         conclave_strerror(rv));
    }
}

void replication_snapshot(struct replication *r)
{
    if (r->error != 0 || r->stage != LOG_RUNNING) {
        return;
    }
    r->snapshot.wanted = r->snapshot.state == SNAPSHOT_IDLE;
    snapshot_task_maybe(r);
}
