/*
 * Snapshots to and from other servers: connects the sender and the receiver with the running log.
 *
 * A received snapshot replaces state and log. When it is complete and no other work is in progress, the engine decides
 * whether it still wants it; then
 *   the intention is made durable → the file gets its name → the log begins anew after it
 *   → the state is restored → the engine learns of it
 * The next start completes an installation that a crash interrupted: journal_resume_install.
 */
#include "replication/snapshot_install.h"

#include "base/transition.h"
#include "replication/running_log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* --- the host of sender and receiver -------------------------------------------------------------- */

static int64_t host_now_ms(void *ctx)
{
    return running_log_now_ms(ctx);
}

static void host_run(void *ctx, struct worker_job *job)
{
    running_log_submit_job(ctx, LANE_FILES, job);
}

static void host_ran(void *ctx)
{
    running_log_job_done(ctx);
}

static void host_send(void *ctx, uint64_t to, struct buf *message_take)
{
    send_queue_send(ctx, to, message_take);
}

static void host_warn(void *ctx, const char *text)
{
    running_log_note(ctx, true, "snapshot_stream_failed", "reason=\"%s\"", text);
}

static const uint16_t INSTALL_NEXT[] = {
    [INSTALL_IDLE] = TRANSITION_TO(INSTALL_WAITING),
    /* another offer may take its place */
    [INSTALL_WAITING] =
        TRANSITION_TO(INSTALL_WAITING) | TRANSITION_TO(INSTALL_BEGUN) | TRANSITION_TO(INSTALL_IDLE),
    [INSTALL_BEGUN] = TRANSITION_TO(INSTALL_IDLE),
};

static void install_enter(struct snapshot_install *in, enum snapshot_install_state state)
{
    transition_check(INSTALL_NEXT, in->state, state);
    in->state = state;
}

static void ready(void *ctx, uint64_t from, const struct log_message_offer *offer)
{
    struct replication *r = ctx;
    struct snapshot_install *in = &r->install;
    if (in->state == INSTALL_BEGUN || r->stage != LOG_RUNNING || r->error != 0) {
        return;
    }
    install_enter(in, INSTALL_WAITING);
    in->from = from;
    in->offer = *offer;
    snapshot_task_cancel(r);
}

static void accepted(void *ctx, int rv);

void snapshot_install_init(struct replication *r)
{
    const struct stream_host host = {r, host_now_ms, host_run, host_ran, host_send, host_warn};
    const struct snapshot_receiver_callbacks callbacks = {r, ready, accepted};
    /* The folder's name is known only later; nothing is sent or received before that. */
    snapshot_sender_init(&r->install.sender, &host, r->ops, NULL);
    snapshot_receiver_init(&r->install.receiver, &host, &callbacks, r->ops, NULL,
                           r->folder.marker.cluster);
}

void snapshot_install_finish(struct replication *r)
{
    struct snapshot_install *in = &r->install;
    snapshot_sender_finish(&in->sender);
    snapshot_receiver_finish(&in->receiver);
    free(in->segments);
    error_text_finish(&in->problem);
}

/* --- sending -------------------------------------------------------------------------------------- */

void snapshot_install_send(struct replication *r, const struct engine_message *install)
{
    r->install.sender.dir = r->folder.dir;
    snapshot_sender_begin(&r->install.sender, install);
}

void snapshot_install_tick(struct replication *r)
{
    struct snapshot_sender *s = &r->install.sender;
    snapshot_sender_tick(s);
    if (s->damaged != r->install.damage_noted) {
        r->install.damage_noted = s->damaged;
        snapshot_task_damaged(r,
                              s->damaged); /* a damaged snapshot must not let the log be trimmed */
    }
    if (s->damaged != 0 && s->damaged == r->snapshot_index) {
        replication_snapshot(r); /* members that are behind need a good one */
    }
}

/* --- receiving ------------------------------------------------------------------------------------ */

static struct engine_message as_install(uint64_t from, const struct log_message_offer *offer)
{
    struct engine_message m = {.kind = ENGINE_INSTALL, .peer = from, .term = offer->term};
    m.install.index = offer->index;
    m.install.term = offer->snapshot_term;
    m.install.configuration_index = offer->configuration_index;
    return m;
}

static int receive_offer(struct replication *r, uint64_t from,
                         const struct log_message_offer *offer)
{
    struct snapshot_install *in = &r->install;
    struct engine_result result;
    if (offer->term < engine_term(r->engine) || in->state != INSTALL_IDLE) {
        return 0; /* from an old leader, or another installation is in progress */
    }
    if (offer->index > engine_commit_index(r->engine) &&
        engine_term_at(r->engine, offer->index) != offer->snapshot_term) {
        in->receiver.dir = r->folder.dir;
        snapshot_receiver_offer(&in->receiver, from, offer);
        return 0;
    }
    /* This server has these entries already: the engine tells the other's engine. */
    const struct engine_message m = as_install(from, offer);
    int rv = engine_receive(r->engine, running_log_now_ms(r), &m, NULL, 0, &result);
    carry_out(r, rv, &result, NULL);
    if (rv == 0) {
        assert(!result.install);
        snapshot_receiver_decline(&in->receiver, from, offer);
    }
    return rv;
}

int snapshot_install_receive(struct replication *r, uint64_t from, const struct log_message *m)
{
    switch (m->kind) {
    case MESSAGE_OFFER:
        return receive_offer(r, from, &m->offer);
    case MESSAGE_CHUNK:
        snapshot_receiver_chunk(&r->install.receiver, from, &m->chunk);
        return 0;
    case MESSAGE_WANT:
        snapshot_sender_wanted(&r->install.sender, from, &m->wanted);
        return 0;
    default:
        return CONCLAVE_EPROTO;
    }
}

/* --- installing ----------------------------------------------------------------------------------- */

static void snapshot_install_run(struct replication *r, enum replication_lane lane,
                                 void (*work)(struct worker_job *job),
                                 void (*done)(struct worker_job *job))
{
    r->install.job.work = work;
    r->install.job.done = done;
    running_log_submit_job(r, lane, &r->install.job);
}

static struct replication *owner(struct worker_job *job)
{
    return CONTAINER_OF(job, struct replication, install.job);
}

/* Whether to continue. If the log fails or closes here, the next start completes the installation. */
static bool goes_on(struct replication *r, const struct error_text *problem)
{
    if (r->install.rv != 0) {
        running_log_fail(r, r->install.rv, error_text_of(problem, r->install.rv));
    }
    return r->error == 0 && r->stage == LOG_RUNNING;
}

/* Replaces the state and the log by the snapshot. */
static void finish(struct replication *r)
{
    struct snapshot_install *in = &r->install;
    const struct snapshot_meta *meta = &in->reader.meta;
    struct engine_result result;
    if (meta->index <= r->applied || meta->term < r->applied_term) {
        running_log_fail(r, CONCLAVE_ECORRUPT,
                         "the snapshot of the leader is older than this state");
        return;
    }
    int rv = r->callbacks.restore(r->callbacks.ctx, in->reader.content);
    if (rv != 0) {
        running_log_fail(r, rv, "the snapshot of the leader cannot be loaded");
        return;
    }
    entry_table_reset(&r->table, meta->index + 1);
    r->commands = 0;
    r->snapshot_index = meta->index;
    r->applied = meta->index;
    r->applied_term = meta->term;
    install_enter(in, INSTALL_IDLE);
    snapshot_task_installed(r, meta->index);
    rv = engine_installed(r->engine, running_log_now_ms(r), meta, &result);
    carry_out(r, rv, &result, NULL);
    if (rv == 0) {
        rv = apply_configuration(r, meta->configuration_index, buf_slice(&meta->configuration));
    }
    if (rv != 0) {
        running_log_fail(r, rv, "the snapshot of the leader does not fit");
        return;
    }
    carry_out_members(r);
    running_log_note(r, false, "snapshot_installed", "index=%" PRIu64 " bytes=%zu server=%" PRIu64,
                     meta->index, in->reader.content.len, in->from);
    snapshot_receiver_done(&in->receiver);
    r->callbacks.apply_done(r->callbacks.ctx);
}

static void open_work(struct worker_job *job)
{
    struct replication *r = owner(job);
    struct snapshot_install *in = &r->install;
    for (size_t i = 0; i < in->n_segments; i++) {
        /* The next start removes files that cannot be removed now. */
        int err = journal_dispose(&r->journal, &in->segments[i]);
        (void)err;
    }
    in->rv = snapshot_reader_open(&in->reader, r->ops, r->folder.dir, in->offer.index,
                                  r->folder.marker.cluster, &in->problem);
}

static void open_done(struct worker_job *job)
{
    struct replication *r = owner(job);
    struct snapshot_install *in = &r->install;
    bool open = in->rv == 0;
    free(in->segments);
    in->segments = NULL;
    if (goes_on(r, &in->problem)) {
        finish(r);
    }
    if (open) {
        snapshot_reader_close(&in->reader);
    }
    running_log_job_done(r);
}

static void reset_work(struct worker_job *job)
{
    struct replication *r = owner(job);
    struct snapshot_install *in = &r->install;
    in->rv = journal_reset(&r->journal, in->offer.index, &in->segments, &in->n_segments);
}

static void reset_done(struct worker_job *job)
{
    struct replication *r = owner(job);
    if (goes_on(r, &r->journal.problem)) {
        r->live_segment = r->journal.segments[0].sequence;
        snapshot_install_run(r, LANE_FILES, open_work, open_done);
    }
    running_log_job_done(r);
}

static void accepted(void *ctx, int rv)
{
    struct replication *r = ctx;
    r->install.rv = rv;
    if (goes_on(r, &r->install.problem)) {
        snapshot_install_run(r, LANE_LOG, reset_work, reset_done);
    }
}

static void begin_work(struct worker_job *job)
{
    struct replication *r = owner(job);
    r->install.rv = journal_begin_install(&r->journal, r->install.offer.index);
}

static void begin_done(struct worker_job *job)
{
    struct replication *r = owner(job);
    if (goes_on(r, &r->journal.problem)) {
        snapshot_receiver_accept(&r->install.receiver);
    }
    running_log_job_done(r);
}

/* Whether no other work uses log or state. */
static bool settled(const struct replication *r)
{
    return list_empty(&r->appends) && r->gather_count == 0 && r->votes == 0 && !r->applying &&
           !r->fetching && r->snapshot.state == SNAPSHOT_IDLE;
}

void snapshot_install_turn(struct replication *r)
{
    struct snapshot_install *in = &r->install;
    struct engine_result result;
    if (!engine_is_leader(r->engine)) {
        snapshot_sender_stop(&in->sender);
    }
    if (in->state != INSTALL_WAITING || !settled(r)) {
        return;
    }
    const struct engine_message m = as_install(in->from, &in->offer);
    int rv = engine_receive(r->engine, running_log_now_ms(r), &m, NULL, 0, &result);
    if (rv != 0 || !result.install) {
        install_enter(in, INSTALL_IDLE);
        carry_out(r, rv, &result, NULL);
        snapshot_receiver_discard(&in->receiver);
        return;
    }
    install_enter(in, INSTALL_BEGUN);
    carry_out(r, rv, &result, NULL);
    snapshot_install_run(r, LANE_LOG, begin_work, begin_done);
}
