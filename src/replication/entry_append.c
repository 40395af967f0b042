/*
 * The way of entries to the disk: gathered in a frame, written and synced on LANE_LOG, then reported to the engine.
 * While one write is in progress, the next entries gather; when none is, the entries of a turn are written at its end.
 * Term and vote go the same way, in the same order.
 *
 * A suffix that a new leader replaces may still be in a write. It is written all the same, and its replacement after
 * it: that append cuts the log and continues. Only entries that were not replaced are reported to the engine.
 */
#include "replication/running_log.h"

#include "replication/disk/segment.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A frame of this size is written without waiting for more. */
#define GATHER_BYTES (4u << 20)
/* Larger buffers are not kept for the next write. */
#define KEEP_BYTES (1u << 20)

/* One write of gathered entries. */
struct append_job {
    struct worker_job job;
    struct list node; /* in replication.appends */
    struct replication *r;
    struct buf frame;
    uint64_t first_index;
    uint32_t count;
    uint64_t last_good; /* entries above it were replaced meanwhile */
    uint64_t segment;   /* segment that has the frame */
    uint64_t offset;
    int rv;
    int64_t sync_us;     /* duration of the last sync */
    int64_t gathered_ns; /* when its first entry came */
    int64_t began_ns;    /* when the worker got it */
    bool wants_spare;
    uint64_t spare_size;
};

struct vote_job {
    struct worker_job job;
    struct replication *r;
    uint64_t term;
    uint64_t voted_for;
    bool joined; /* this server may vote from now on */
    int rv;
};

/* Spare segments. */

static void spare_work(struct worker_job *job)
{
    struct replication *r = CONTAINER_OF(job, struct replication, spare_job);
    r->spare_rv = journal_make_spare(&r->journal, r->spare_size, &r->stop);
}

static void spare_done(struct worker_job *job)
{
    struct replication *r = CONTAINER_OF(job, struct replication, spare_job);
    r->spare_busy = false;
    if (r->spare_rv != 0) {
        r->spare_hold = true;
        running_log_note(r, true, "log_spare_failed", "error=%d reason=\"%s\"", -r->spare_rv,
                         strerror(-r->spare_rv));
    }
    running_log_job_done(r);
}

static void make_spare(struct replication *r, uint64_t size)
{
    if (r->spare_busy || r->spare_hold || r->stage != LOG_RUNNING || r->error != 0) {
        return;
    }
    r->spare_busy = true;
    r->spare_size = size;
    r->spare_job.work = spare_work;
    r->spare_job.done = spare_done;
    running_log_submit_job(r, LANE_FILES, &r->spare_job);
}

/* Writing. */

static void append_work(struct worker_job *job)
{
    struct append_job *a = CONTAINER_OF(job, struct append_job, job);
    struct journal *journal = &a->r->journal;
    a->rv = journal_append(journal, &a->frame, a->first_index, a->count);
    a->segment = journal->frame_segment;
    a->offset = journal->frame_offset;
    a->sync_us = atomic_load(&journal->sync_last_us);
    a->wants_spare = a->rv == 0 && journal_wants_spare(journal, &a->spare_size);
}

static void append_job_free(struct append_job *a)
{
    if (a != NULL) {
        buf_finish(&a->frame);
        free(a);
    }
}

void append_finish(struct replication *r)
{
    append_job_free(r->spare_append);
    r->spare_append = NULL;
    buf_finish(&r->gather);
}

static void append_job_recycle(struct replication *r, struct append_job *a)
{
    if (r->spare_append != NULL || a->frame.cap > KEEP_BYTES) {
        append_job_free(a);
        return;
    }
    buf_reset(&a->frame);
    r->spare_append = a;
}

/* Records where the entries of the frame are on the disk. */
static void note_places(struct replication *r, const struct append_job *a, uint64_t last)
{
    uint64_t at = a->offset + FRAME_HEADER_SIZE;
    for (uint64_t index = a->first_index; index <= last; index++) {
        struct entry_table_entry *entry = entry_table_at(&r->table, index);
        assert(entry != NULL && a->segment <= UINT32_MAX && at <= UINT32_MAX - ENTRY_HEADER_SIZE);
        entry->segment = (uint32_t)a->segment;
        entry->offset = (uint32_t)(at + ENTRY_HEADER_SIZE);
        at += ENTRY_HEADER_SIZE + (uint64_t)entry->length;
    }
}

/* Counts the sync, and keeps the times for the entries that are applied next. */
static void note_times(struct replication *r, const struct append_job *a)
{
    if (r->options.sync_time != NULL && r->options.sync) {
        summary_add(r->options.sync_time, (uint64_t)a->sync_us);
    }
    if (r->options.sync_histogram != NULL && r->options.sync) {
        histogram_add_many(r->options.sync_histogram, (uint64_t)a->sync_us, 1);
    }
    r->append_times[r->append_times_next++ % APPEND_TIMES_KEPT] = (struct append_times){
        .first = a->first_index,
        .last = a->last_good,
        .times = {a->gathered_ns, clock_monotonic_ns(r->options.clock)},
    };
}

struct replication_entry_times replication_entry_times(const struct replication *r, uint64_t index)
{
    for (unsigned i = 1; i <= APPEND_TIMES_KEPT; i++) {
        const struct append_times *t =
            &r->append_times[(r->append_times_next - i) % APPEND_TIMES_KEPT];
        if (index >= t->first && index <= t->last) {
            return t->times;
        }
    }
    LIST_FOREACH (node, &r->appends) {
        const struct append_job *a = CONTAINER_OF(node, struct append_job, node);
        if (index >= a->first_index && index <= a->last_good) {
            return (struct replication_entry_times){.appended_ns = a->gathered_ns};
        }
    }
    bool gathers = r->gather_count > 0 && index >= r->gather_first;
    return (struct replication_entry_times){.appended_ns = gathers ? r->gather_ns : 0};
}

int64_t replication_disk_wait_ms(const struct replication *r)
{
    if (list_empty(&r->appends)) {
        return 0;
    }
    const struct append_job *a = CONTAINER_OF(r->appends.next, struct append_job, node);
    return (clock_monotonic_ns(r->options.clock) - a->began_ns) / 1000000;
}

static void append_done(struct worker_job *job)
{
    struct append_job *a = CONTAINER_OF(job, struct append_job, job);
    struct replication *r = a->r;
    struct engine_result result;
    list_remove(&a->node);
    if (a->rv != 0) {
        /* The log is not used any more: every later job only returns the error. */
        running_log_fail(r, a->rv, error_text_of(&r->journal.problem, a->rv));
    } else {
        note_times(r, a);
    }
    if (r->error == 0) {
        if (a->wants_spare) {
            make_spare(r, a->spare_size);
        }
        append_flush(r); /* the disk works while these entries are applied */
        if (a->last_good >= a->first_index) {
            note_places(r, a, a->last_good);
            int rv = engine_persisted(r->engine, running_log_now_ms(r), a->last_good, &result);
            carry_out(r, rv, &result, NULL);
        }
        snapshot_task_maybe(r);
    }
    append_job_recycle(r, a);
    running_log_job_done(r);
}

/* Gives the gathered entries to the worker. */
static void write_gathered(struct replication *r)
{
    struct append_job *a = r->spare_append;
    r->spare_append = NULL;
    if (a == NULL) {
        a = calloc(1, sizeof *a);
        if (a == NULL) {
            running_log_fail(r, CONCLAVE_ENOMEM, "out of memory while writing the log");
            return;
        }
        buf_init(&a->frame, 0);
        a->r = r;
        a->job.work = append_work;
        a->job.done = append_done;
    }
    assert(r->gather_count > 0 && a->frame.len == 0);
    struct buf frame = a->frame;
    a->frame = r->gather;
    r->gather = frame;
    a->first_index = r->gather_first;
    a->count = r->gather_count;
    a->gathered_ns = r->gather_ns;
    a->began_ns = clock_monotonic_ns(r->options.clock);
    a->last_good = a->first_index + a->count - 1;
    r->gather_count = 0;
    list_push_back(&r->appends, &a->node);
    running_log_submit_job(r, LANE_LOG, &a->job);
}

void append_flush(struct replication *r)
{
    if (r->gather_count > 0 && r->error == 0 &&
        (list_empty(&r->appends) || r->gather.len >= GATHER_BYTES)) {
        write_gathered(r);
    }
}

int append_reserve(struct replication *r, size_t len)
{
    if (r->gather_count == 0) {
        frame_begin(&r->gather);
    }
    return buf_ok(&r->gather) && buf_reserve(&r->gather, ENTRY_HEADER_SIZE + len + 8) == 0
               ? entry_table_reserve(&r->table)
               : CONCLAVE_ENOMEM;
}

int append_entry(struct replication *r, uint64_t term, uint32_t kind, struct slice payload,
                 uint8_t *data_take)
{
    const struct entry_table_entry entry = {
        .term = term,
        .hash = entry_table_hash(payload),
        .length = (uint32_t)payload.len,
        .kind = kind,
    };
    uint64_t index = r->table.next;
    int rv = append_reserve(r, payload.len);
    if (rv == 0) {
        rv = entry_table_push(&r->table, &entry);
    }
    if (rv != 0) {
        return rv; /* cannot happen after append_reserve */
    }
    frame_add(&r->gather, term, kind, payload);
    assert(buf_ok(&r->gather));
    entry_table_hold(&r->table, index, data_take);
    r->commands += kind == ENTRY_COMMAND;
    if (kind == ENTRY_BARRIER && payload.len > 0) {
        skip_entry_noted(r, index, payload);
    }
    if (r->gather_count++ == 0) {
        r->gather_first = index;
        r->gather_ns = clock_monotonic_ns(r->options.clock);
    }
    assert(r->gather_first + r->gather_count == r->table.next);
    if (r->gather.len >= GATHER_BYTES) {
        append_flush(r);
    }
    return 0;
}

void append_truncated(struct replication *r, uint64_t index)
{
    assert(index > r->applied); /* what was applied is committed */
    for (uint64_t i = index; i < r->table.next; i++) {
        r->commands -= entry_table_at(&r->table, i)->kind == ENTRY_COMMAND;
    }
    entry_table_truncate(&r->table, index);
    skip_entry_truncated(r, index);
    LIST_FOREACH (node, &r->appends) {
        struct append_job *a = CONTAINER_OF(node, struct append_job, node);
        a->last_good = a->last_good < index ? a->last_good : index - 1;
    }
    if (r->gather_count == 0) {
        return;
    }
    if (r->gather_first >= index) {
        r->gather_count = 0;
        buf_reset(&r->gather);
        return;
    }
    /* The entries that replace the suffix must begin a new frame. */
    uint64_t last_good = index - 1;
    write_gathered(r);
    if (r->error == 0) {
        CONTAINER_OF(r->appends.prev, struct append_job, node)->last_good = last_good;
    }
}

/* Term and vote. */

static void vote_work(struct worker_job *job)
{
    struct vote_job *v = CONTAINER_OF(job, struct vote_job, job);
    if (v->joined) {
        v->r->journal.metadata.joining = false;
    }
    v->rv = journal_set_vote(&v->r->journal, v->term, v->voted_for);
}

static void vote_done(struct worker_job *job)
{
    struct vote_job *v = CONTAINER_OF(job, struct vote_job, job);
    struct replication *r = v->r;
    assert(r->votes > 0);
    r->votes--;
    if (v->rv != 0) {
        running_log_fail(r, v->rv, error_text_of(&r->journal.problem, v->rv));
    } else if (v->joined && r->error == 0) {
        join_written(r);
    }
    free(v);
    send_queue_flush(r);
    running_log_job_done(r);
}

void append_vote(struct replication *r)
{
    struct vote_job *v = calloc(1, sizeof *v);
    if (v == NULL) {
        running_log_fail(r, CONCLAVE_ENOMEM, "out of memory while writing the vote");
        return;
    }
    v->r = r;
    v->term = engine_term(r->engine);
    v->voted_for = engine_voted_for(r->engine);
    v->joined = r->join.state == JOIN_WRITING;
    v->job.work = vote_work;
    v->job.done = vote_done;
    r->votes++;
    running_log_submit_job(r, LANE_LOG, &v->job);
}

/* The clean end. */

static void seal_work(struct worker_job *job)
{
    struct append_job *a = CONTAINER_OF(job, struct append_job, job);
    a->rv = journal_seal(&a->r->journal);
}

static void seal_done(struct worker_job *job)
{
    struct append_job *a = CONTAINER_OF(job, struct append_job, job);
    struct replication *r = a->r;
    if (a->rv != 0) {
        running_log_fail(r, a->rv, error_text_of(&r->journal.problem, a->rv));
    }
    append_job_free(a);
    running_log_job_done(r);
}

void append_seal(struct replication *r)
{
    struct append_job *a = calloc(1, sizeof *a);
    if (a == NULL) {
        return; /* without a seal the next start only checks more */
    }
    a->r = r;
    a->job.work = seal_work;
    a->job.done = seal_done;
    buf_init(&a->frame, 0);
    running_log_submit_job(r, LANE_LOG, &a->job);
}
