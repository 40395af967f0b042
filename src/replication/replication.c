/*
 * The way of an entry on the loop's thread: submitted, gathered with others, written and synced by
 * the log's worker, committed by the engine, applied. While one write is under way the next entries
 * gather; when none is, the turn's entries go at its end.
 *
 * Limits: one voter. The engine then has no messages to send, and every stored entry is committed.
 */
#include "replication/driver.h"

#include "replication/segment.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A frame that large is written without waiting for more. */
#define GATHER_BYTES (4u << 20)
/* Buffers above this are not kept for the next write. */
#define KEEP_BYTES (1u << 20)

int64_t driver_now_ms(const struct replication *r)
{
    return clock_monotonic_ms(r->options.clock);
}

void driver_note(struct replication *r, bool warning, const char *event, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->callbacks.note(r->callbacks.ctx, warning, event, text);
}

void driver_fail(struct replication *r, int error, const char *text)
{
    if (r->error != 0) {
        return;
    }
    r->error = error;
    atomic_store(&r->stop, true);
    snapshot_task_cancel(r);
    r->callbacks.failed(r->callbacks.ctx, error, text);
}

static void engine_failed(struct replication *r, int rv, const char *event)
{
    char text[160];
    snprintf(text, sizeof text, "the consensus engine failed at %s: %s", event,
             conclave_strerror(rv));
    driver_fail(r, rv, text);
}

void driver_submit_job(struct replication *r, enum replication_lane lane, struct worker_job *job)
{
    r->jobs++;
    r->host.run(r->host.ctx, lane, job);
}

/* Roles and timers. */

static void tell_role(struct replication *r)
{
    if (r->role_untold && r->error == 0 && !r->closing) {
        r->role_untold = false;
        r->callbacks.role_changed(r->callbacks.ctx, r->role);
    }
}

static void engine_due(struct replication *r)
{
    struct engine_result result;
    if (driver_now_ms(r) < engine_next_timeout_ms(r->engine)) {
        return;
    }
    int rv = engine_timeout(r->engine, driver_now_ms(r), &result);
    if (rv != 0) {
        engine_failed(r, rv, "timeout");
        return;
    }
    assert(result.messages == 0 && result.count == 0 && !result.vote_changed);
}

/* Pending entries. */

int driver_push_pending(struct replication *r, const struct pending_entry *entry)
{
    struct pending *p = &r->pending;
    if (p->count == p->cap) {
        size_t cap = p->cap == 0 ? 64 : 2 * p->cap;
        struct pending_entry *ring = malloc(cap * sizeof *ring);
        if (ring == NULL) {
            return CONCLAVE_ENOMEM;
        }
        for (size_t i = 0; i < p->count; i++) {
            ring[i] = p->ring[(p->head + i) & (p->cap - 1)];
        }
        free(p->ring);
        p->ring = ring;
        p->cap = cap;
        p->head = 0;
    }
    p->ring[(p->head + p->count++) & (p->cap - 1)] = *entry;
    r->commands += entry->kind == ENTRY_COMMAND;
    return 0;
}

static struct pending_entry pop_pending(struct replication *r)
{
    struct pending *p = &r->pending;
    assert(p->count > 0);
    struct pending_entry entry = p->ring[p->head];
    p->head = (p->head + 1) & (p->cap - 1);
    p->count--;
    r->commands -= entry.kind == ENTRY_COMMAND;
    return entry;
}

/* Applying. */

static int apply_configuration(struct replication *r, uint64_t index, struct slice payload)
{
    struct engine_result result;
    int rv = engine_configuration(r->engine, driver_now_ms(r), index, payload, &result);
    if (rv != 0) {
        return rv;
    }
    buf_reset(&r->configuration);
    buf_append_slice(&r->configuration, payload);
    r->configuration_index = index;
    return buf_ok(&r->configuration) ? 0 : CONCLAVE_ENOMEM;
}

int driver_apply_entry(struct replication *r, uint64_t index, uint64_t term, uint32_t kind,
                       struct slice payload)
{
    assert(index == r->applied + 1);
    if (kind == ENTRY_CONFIGURATION) {
        int rv = apply_configuration(r, index, payload);
        if (rv != 0) {
            return rv;
        }
    } else if (kind == ENTRY_COMMAND) {
        r->callbacks.apply(r->callbacks.ctx, index, payload);
    }
    r->applied = index;
    r->applied_term = term;
    r->applied_bytes += payload.len;
    return 0;
}

static void flush(struct replication *r);
static int propose(struct replication *r, uint32_t kind, struct buf *payload_take);

/* A leader is told as one only when an entry of its own term is committed. */
static void update_role(struct replication *r)
{
    bool leads = engine_is_leader(r->engine);
    bool ready = leads && r->applied_term == engine_term(r->engine);
    enum replication_role role = ready                            ? REPLICATION_LEADER
                                 : engine_is_candidate(r->engine) ? REPLICATION_CANDIDATE
                                                                  : REPLICATION_FOLLOWER;
    if (role != r->role) {
        r->role = role;
        r->role_untold = true;
    }
    if (leads && !ready && !r->barrier_sent) {
        struct buf nothing;
        buf_init(&nothing, 0);
        int rv = propose(r, ENTRY_BARRIER, &nothing);
        r->barrier_sent = rv == 0;
        if (rv != 0) {
            engine_failed(r, rv, "the barrier");
        }
    }
}

static void apply_committed(struct replication *r)
{
    uint64_t before = r->applied;
    if (r->applying) {
        return; /* called from a callback of the loop below, which goes on by itself */
    }
    r->applying = true;
    while (r->error == 0 && r->applied < engine_commit_index(r->engine)) {
        struct pending_entry entry = pop_pending(r);
        struct slice payload =
            slice_make(entry.data != NULL ? entry.data : (const uint8_t *)"", entry.len);
        int rv = driver_apply_entry(r, r->applied + 1, entry.term, entry.kind, payload);
        free(entry.data);
        if (rv != 0) {
            engine_failed(r, rv, "apply");
        }
    }
    r->applying = false;
    if (r->applied > before) {
        r->callbacks.apply_done(r->callbacks.ctx);
    }
    if (r->error == 0) {
        update_role(r);
        snapshot_task_maybe(r);
    }
}

/* Writing. */

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
        driver_note(r, true, "log_spare_failed", "error=%d reason=\"%s\"", -r->spare_rv,
                    strerror(-r->spare_rv));
    }
    driver_job_done(r);
}

static void make_spare(struct replication *r, uint64_t size)
{
    if (r->spare_busy || r->spare_hold || r->closing || r->error != 0) {
        return;
    }
    r->spare_busy = true;
    r->spare_size = size;
    r->spare_job.work = spare_work;
    r->spare_job.done = spare_done;
    driver_submit_job(r, LANE_FILES, &r->spare_job);
}

static void append_work(struct worker_job *job)
{
    struct append_job *a = CONTAINER_OF(job, struct append_job, job);
    a->rv = journal_append(&a->r->journal, &a->frame, a->first_index, a->count);
    a->sync_us = atomic_load(&a->r->journal.sync_last_us);
    a->wants_spare = a->rv == 0 && journal_wants_spare(&a->r->journal, &a->spare_size);
}

static void append_job_free(struct append_job *a)
{
    if (a != NULL) {
        buf_finish(&a->frame);
        free(a);
    }
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

static void append_done(struct worker_job *job)
{
    struct append_job *a = CONTAINER_OF(job, struct append_job, job);
    struct replication *r = a->r;
    struct engine_result result;
    r->writes--;
    if (a->rv != 0) {
        /* The worker's thread is past its last use of the log: every later job only returns the
         * error. */
        driver_fail(r, a->rv, problem_text(&r->journal.problem, a->rv));
    } else if (r->options.sync_time != NULL && r->options.sync) {
        summary_add(r->options.sync_time, (uint64_t)a->sync_us);
    }
    if (r->error == 0) {
        int rv =
            engine_persisted(r->engine, driver_now_ms(r), a->first_index + a->count - 1, &result);
        if (rv != 0) {
            engine_failed(r, rv, "persisted entries");
        } else {
            assert(result.messages == 0 && result.count == 0 && !result.vote_changed);
        }
    }
    if (r->error == 0) {
        if (a->wants_spare) {
            make_spare(r, a->spare_size);
        }
        flush(r); /* the disk works while these are applied */
        apply_committed(r);
    }
    append_job_recycle(r, a);
    driver_job_done(r);
}

/* Hands what has gathered to the worker, unless a write is under way and more may still gather. */
static void flush(struct replication *r)
{
    if (r->gather_count == 0 || r->error != 0 || (r->writes > 0 && r->gather.len < GATHER_BYTES)) {
        return;
    }
    struct append_job *a = r->spare_append;
    r->spare_append = NULL;
    if (a == NULL) {
        a = calloc(1, sizeof *a);
        if (a == NULL) {
            driver_fail(r, CONCLAVE_ENOMEM, "out of memory while writing the log");
            return;
        }
        buf_init(&a->frame, 0);
        a->r = r;
        a->job.work = append_work;
        a->job.done = append_done;
    }
    struct buf frame = a->frame;
    a->frame = r->gather;
    r->gather = frame;
    a->first_index = r->gather_first;
    a->count = r->gather_count;
    r->gather_count = 0;
    r->writes++;
    driver_submit_job(r, LANE_LOG, &a->job);
}

static int propose(struct replication *r, uint32_t kind, struct buf *payload_take)
{
    struct engine_result result;
    struct slice payload = buf_slice(payload_take);
    struct pending_entry entry = {.term = engine_term(r->engine), .kind = kind, .len = payload.len};

    /* All memory first: once the engine has the entry it must reach the disk. */
    if (r->gather_count == 0) {
        frame_begin(&r->gather);
    }
    if (!buf_ok(&r->gather) || buf_reserve(&r->gather, ENTRY_HEADER_SIZE + payload.len + 8) != 0) {
        return CONCLAVE_ENOMEM;
    }
    int rv = driver_push_pending(r, &entry);
    if (rv != 0) {
        return rv;
    }
    struct pending *p = &r->pending;
    struct pending_entry *pushed = &p->ring[(p->head + p->count - 1) & (p->cap - 1)];
    rv = engine_submit(r->engine, driver_now_ms(r), kind, payload, &result);
    if (rv != 0) {
        p->count--;
        r->commands -= kind == ENTRY_COMMAND;
        return rv;
    }
    assert(result.count == 1 && result.first_index == r->last_index + 1 && result.messages == 0);
    frame_add(&r->gather, entry.term, kind, payload);
    assert(buf_ok(&r->gather));
    pushed->data = buf_take(payload_take, &pushed->len);
    if (r->gather_count++ == 0) {
        r->gather_first = result.first_index;
    }
    r->last_index = result.first_index;
    if (r->gather.len >= GATHER_BYTES) {
        flush(r);
    }
    return 0;
}

int replication_submit(struct replication *r, struct buf *payload_take)
{
    if (r->error != 0) {
        return CONCLAVE_EIO;
    }
    if (r->closing) {
        return CONCLAVE_ECLOSED;
    }
    if (payload_take->len > FRAME_BODY_MAX / 2) {
        return CONCLAVE_ETOOBIG;
    }
    if (r->role != REPLICATION_LEADER) {
        return CONCLAVE_EBUSY;
    }
    return propose(r, ENTRY_COMMAND, payload_take);
}

size_t replication_in_flight(const struct replication *r)
{
    return r->commands;
}

void replication_turn(struct replication *r)
{
    tell_role(r);
    flush(r);
}

int64_t replication_deadline(const struct replication *r)
{
    if (r->finished || snapshot_task_hungry(r)) {
        return 0;
    }
    return r->closing || r->error != 0 ? INT64_MAX : engine_next_timeout_ms(r->engine);
}

/* Opening and closing. */

static void free_memory(struct replication *r)
{
    while (r->pending.count > 0) {
        struct pending_entry entry = pop_pending(r);
        free(entry.data);
    }
    free(r->pending.ring);
    buf_finish(&r->gather);
    buf_finish(&r->configuration);
    append_job_free(r->spare_append);
    snapshot_task_finish(r);
    engine_destroy(r->engine);
    if (r->journal_ready) {
        journal_finish(&r->journal);
    }
    folder_close(&r->folder);
    free(r);
}

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
        driver_fail(r, a->rv, problem_text(&r->journal.problem, a->rv));
    }
    append_job_free(a);
    driver_job_done(r);
}

/* The steps of closing: writes, snapshot, seal. */
static void advance_close(struct replication *r)
{
    if (!r->closing || r->jobs > 0 || r->applying) {
        return;
    }
    if (r->error == 0 && !r->sealing) {
        struct append_job *a = calloc(1, sizeof *a);
        r->sealing = true;
        if (a != NULL) { /* without a seal the next start only looks more closely */
            a->r = r;
            a->job.work = seal_work;
            a->job.done = seal_done;
            buf_init(&a->frame, 0);
            driver_submit_job(r, LANE_LOG, &a->job);
            return;
        }
    }
    r->finished = true;
}

void replication_tick(struct replication *r)
{
    if (r->finished) {
        void (*cb)(void *ctx) = r->close_cb;
        void *ctx = r->close_ctx;
        free_memory(r);
        if (cb != NULL) {
            cb(ctx);
        }
        return;
    }
    if (snapshot_task_hungry(r)) {
        snapshot_task_step(r);
    }
    if (!r->closing && r->error == 0) {
        engine_due(r);
    }
}

void driver_job_done(struct replication *r)
{
    assert(r->jobs > 0);
    r->jobs--;
    flush(r);
    advance_close(r);
}

void replication_close(struct replication *r, void (*cb)(void *ctx), void *ctx)
{
    assert(!r->closing);
    r->closing = true;
    r->close_cb = cb;
    r->close_ctx = ctx;
    atomic_store(&r->stop, true);
    snapshot_task_cancel(r);
    flush(r);
    if (!r->applying) {
        advance_close(r);
    }
}

int replication_open(const struct replication_host *host, const struct replication_options *options,
                     const struct replication_callbacks *callbacks, const struct file_ops *ops,
                     struct replication **ret, char **ret_text)
{
    struct problem problem = {NULL};
    struct replication *r = calloc(1, sizeof *r);
    if (r == NULL) {
        *ret_text = strdup("out of memory");
        return CONCLAVE_ENOMEM;
    }
    assert(options->server_id > 0);
    r->host = *host;
    r->options = *options;
    r->callbacks = *callbacks;
    r->ops = ops != NULL ? ops : file_ops_system();
    r->folder.lock = -1;
    r->role = REPLICATION_FOLLOWER;
    if (r->options.clock == NULL) {
        r->options.clock = clock_system();
    }
    buf_init(&r->gather, 0);
    buf_init(&r->configuration, 0);
    snapshot_task_init(r);

    int rv = start_recover(r, (uint64_t)options->server_id, &problem);
    if (rv != 0) {
        *ret_text = problem_take(&problem, rv);
        free_memory(r);
        return rv;
    }
    problem_finish(&problem);
    update_role(r);
    *ret = r;
    return 0;
}

void replication_stats(const struct replication *r, struct replication_stats *ret)
{
    ret->role = r->role;
    ret->term = engine_term(r->engine);
    ret->last_index = r->last_index;
    ret->commit_index = engine_commit_index(r->engine);
    ret->applied_index = r->applied;
    ret->snapshot_index = r->snapshot_index;
    ret->snapshot_busy = r->snapshot.state != SNAPSHOT_IDLE || r->snapshot.wanted;
    ret->snapshot_worth = snapshot_task_worth(r);
    ret->log_bytes = atomic_load(&r->journal.bytes);
    ret->syncs = atomic_load(&r->journal.syncs);
    ret->sync_max_us = atomic_load(&r->journal.sync_max_us);
    ret->sync_total_us = atomic_load(&r->journal.sync_total_us);
}
