/*
 * The public calls, roles and timers, opening and closing. The other files are listed in running_log.h.
 */
#include "replication/running_log.h"

#include "base/random.h"
#include "base/transition.h"
#include "replication/raft/log_messages.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An entry for other servers must fit into a message. */
#define SHARED_ENTRY_MAX (32u << 20)

enum {
    ELECTION_MS = 400,
    HEARTBEAT_MS = 80,
    INSTALL_MS = 30000,   /* interval between offers of a snapshot */
    MAX_INFLIGHT = 65536, /* in entries; send_queue.c limits the bytes */
    CACHE_BYTES = 32 << 20,
};

int64_t running_log_now_ms(const struct replication *r)
{
    return clock_monotonic_ms(r->options.clock);
}

void running_log_note(struct replication *r, bool warning, const char *event, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->callbacks.note(r->callbacks.ctx, warning, event, text);
}

void running_log_fail(struct replication *r, int error, const char *text)
{
    if (r->error != 0) {
        return;
    }
    r->error = error;
    atomic_store(&r->stop, true);
    snapshot_task_cancel(r);
    r->callbacks.failed(r->callbacks.ctx, error, text);
}

void running_log_submit_job(struct replication *r, enum replication_lane lane,
                            struct worker_job *job)
{
    r->jobs++;
    r->host.run(r->host.ctx, lane, job);
}

uint64_t running_log_last_index(const struct replication *r)
{
    return r->table.next - 1;
}

/* Roles. */

/* A leader counts as one only after it has applied an entry of its own term. */
static enum replication_role present_role(const struct replication *r)
{
    if (!engine_is_leader(r->engine)) {
        return engine_is_candidate(r->engine) ? REPLICATION_CANDIDATE : REPLICATION_FOLLOWER;
    }
    return r->applied_term == engine_term(r->engine) ? REPLICATION_LEADER : REPLICATION_CANDIDATE;
}

/* The leader, as a server in that role knows it. */
static uint64_t leader_of(const struct replication *r, enum replication_role role)
{
    return r->error != 0                  ? 0
           : role == REPLICATION_LEADER   ? (uint64_t)r->options.server_id
           : role == REPLICATION_FOLLOWER ? engine_leader(r->engine)
                                          : 0;
}

uint64_t replication_leader(const struct replication *r)
{
    return leader_of(r, present_role(r));
}

uint64_t replication_term(const struct replication *r)
{
    return engine_term(r->engine);
}

static void tell_role(struct replication *r)
{
    enum replication_role role = present_role(r);
    uint64_t leader = leader_of(r, role);
    uint64_t term = engine_term(r->engine);
    if (role != r->told.role || leader != r->told.leader || (leader != 0 && term != r->told.term)) {
        r->told.role = role;
        r->told.leader = leader;
        r->told.term = term;
        r->callbacks.role_changed(r->callbacks.ctx, role, leader, term);
    }
}

/* Submitting. */

int running_log_propose(struct replication *r, uint32_t kind, struct buf *payload_take)
{
    struct engine_result result;
    struct slice payload = buf_slice(payload_take);
    /* Reserve all memory first: once the engine has the entry, it must reach the disk. */
    int rv = append_reserve(r, payload.len);
    if (rv != 0) {
        return rv;
    }
    rv = engine_submit(r->engine, running_log_now_ms(r), kind, payload, &result);
    if (rv != 0) {
        carry_out(r, rv, NULL, NULL);
        return rv;
    }
    assert(result.count == 1 && result.first_index == r->table.next);
    result.count = 0;
    size_t len;
    rv = append_entry(r, engine_term(r->engine), kind, payload, buf_take(payload_take, &len));
    assert(rv == 0);
    if (kind == ENTRY_CONFIGURATION) {
        carry_out_members(r);
    }
    carry_out(r, 0, &result, NULL);
    return 0;
}

int replication_submit(struct replication *r, struct buf *payload_take)
{
    if (r->error != 0) {
        return CONCLAVE_EIO;
    }
    if (r->stage != LOG_RUNNING) {
        return CONCLAVE_ECLOSED;
    }
    if (payload_take->len > (r->has_others ? SHARED_ENTRY_MAX : FRAME_BODY_MAX / 2)) {
        return CONCLAVE_ETOOBIG;
    }
    if (present_role(r) != REPLICATION_LEADER) {
        return CONCLAVE_EBUSY;
    }
    return running_log_propose(r, ENTRY_COMMAND, payload_take);
}

size_t replication_in_flight(const struct replication *r)
{
    return r->commands;
}

/* The engine adds a barrier if there are several voters; a sole voter leads without one, so it is added here. */
static void own_term_begins(struct replication *r)
{
    struct buf nothing;
    if (!engine_is_leader(r->engine) || r->begun_term == engine_term(r->engine)) {
        return;
    }
    if (engine_term_at(r->engine, running_log_last_index(r)) == engine_term(r->engine)) {
        r->begun_term = engine_term(r->engine); /* a leader keeps its entries */
        return;
    }
    buf_init(&nothing, 0);
    int rv = running_log_propose(r, ENTRY_BARRIER, &nothing);
    if (rv != 0 && rv != CONCLAVE_EBUSY) {
        running_log_fail(r, rv, "the leader cannot begin its term");
    }
}

/* Followers learn the commit index with the next append; if none follows, they are told here. */
static void announce(struct replication *r)
{
    struct engine_result result;
    if (!r->commit_unannounced) {
        return;
    }
    r->commit_unannounced = false;
    if (r->has_others && engine_is_leader(r->engine)) {
        carry_out(r, engine_announce(r->engine, running_log_now_ms(r), &result), &result, NULL);
    }
}

/* Messages. */

void replication_link(struct replication *r, uint64_t peer, bool up)
{
    if (r->error == 0 && r->stage == LOG_RUNNING) {
        send_queue_link(r, peer, up);
        snapshot_sender_link(&r->install.sender, peer, up);
        if (up) {
            skip_entry_link(r, peer);
        }
    }
}

/* The entries of an append as an array. NULL: out of memory, or no entries. */
static struct engine_entry *list_entries(const struct log_message *m)
{
    uint32_t count = m->engine.kind == ENGINE_APPEND ? m->engine.append.count : 0;
    struct engine_entry *entries = count > 0 ? malloc(count * sizeof *entries) : NULL;
    struct slice rest = m->entries;
    for (uint32_t i = 0; entries != NULL && i < count; i++) {
        bool more = log_message_next_entry(&rest, &entries[i]);
        assert(more); /* log_message_decode counted them */
    }
    return entries;
}

static int receive_engine(struct replication *r, uint64_t from, struct log_message *m)
{
    struct engine_result result;
    struct engine_entry *entries = list_entries(m);
    size_t n = m->engine.kind == ENGINE_APPEND ? m->engine.append.count : 0;
    if (n > 0 && entries == NULL) {
        return 0; /* like a lost message */
    }
    m->engine.peer = from;
    int rv = engine_receive(r->engine, running_log_now_ms(r), &m->engine, entries, n, &result);
    const struct carried received = {entries, n > 0 ? m->engine.append.first_index : 0};
    carry_out(r, rv, &result, &received);
    free(entries);
    if (rv == 0 && m->engine.kind == ENGINE_APPEND_RESULT) {
        send_queue_matched(r, from);
        r->commit_unannounced = true; /* it may not know yet that its entries are committed */
    }
    return rv;
}

void replication_receive(struct replication *r, uint64_t from, struct slice message)
{
    struct log_message m;
    if (r->error != 0 || r->stage != LOG_RUNNING) {
        return;
    }
    int rv = log_message_decode(message, &m);
    if (rv == 0 && !join_silences(r, from, &m)) {
        switch (m.kind) {
        case MESSAGE_ENGINE:
            rv = receive_engine(r, from, &m);
            break;
        case MESSAGE_OFFER:
        case MESSAGE_CHUNK:
        case MESSAGE_WANT:
            rv = snapshot_install_receive(r, from, &m);
            break;
        case MESSAGE_ROUND:
        case MESSAGE_ROUND_OK:
        case MESSAGE_READ:
        case MESSAGE_READ_OK:
            read_index_receive(r, from, &m);
            break;
        case MESSAGE_JOIN:
        case MESSAGE_JOIN_OK:
            join_receive(r, from, &m);
            break;
        case MESSAGE_SKIP_VOTE:
        case MESSAGE_SKIP_DECIDED:
            skip_entry_receive(r, from, &m);
            break;
        }
    }
    if (rv == CONCLAVE_EPROTO) {
        send_queue_refused(r, from);
    }
}

/* Turns. */

void replication_turn(struct replication *r)
{
    if (r->error == 0 && r->stage == LOG_RUNNING) {
        own_term_begins(r);
        tell_role(r);
        announce(r);
        snapshot_install_turn(r);
        read_index_turn(r);
        join_turn(r);
        if (r->skip.waits) {
            skip_entry_turn(r);
        }
    }
    append_flush(r);
    send_queue_flush(r);
}

int64_t replication_deadline(const struct replication *r)
{
    if (snapshot_task_hungry(r) || (r->stage != LOG_RUNNING && r->jobs == 0)) {
        return 0;
    }
    if (r->stage != LOG_RUNNING || r->error != 0) {
        return INT64_MAX;
    }
    int64_t engine = engine_next_timeout_ms(r->engine);
    int64_t install = snapshot_sender_deadline(&r->install.sender);
    int64_t read = read_index_deadline(r);
    int64_t skip = skip_entry_deadline(r);
    int64_t first = engine < install ? engine : install;
    first = first < read ? first : read;
    return first < skip ? first : skip;
}

/* Closing. */

static const uint16_t STAGE_NEXT[] = {
    [LOG_RUNNING] = TRANSITION_TO(LOG_CLOSING),
    [LOG_CLOSING] = TRANSITION_TO(LOG_SEALING) | TRANSITION_TO(LOG_FINISHED),
    [LOG_SEALING] = TRANSITION_TO(LOG_FINISHED),
    [LOG_FINISHED] = 0,
};

static void running_log_enter(struct replication *r, enum running_log_stage stage)
{
    transition_check(STAGE_NEXT, r->stage, stage);
    r->stage = stage;
}

static void free_memory(struct replication *r)
{
    entry_table_finish(&r->table);
    append_finish(r);
    send_queue_finish(r);
    read_index_finish(r);
    join_finish(r);
    skip_entry_finish(r);
    free(r->voters);
    buf_finish(&r->configuration);
    snapshot_task_finish(r);
    snapshot_install_finish(r);
    engine_destroy(r->engine);
    if (r->journal_ready) {
        journal_finish(&r->journal);
    }
    data_folder_close(&r->folder);
    free(r);
}

/* The steps of closing: wait for writes and snapshot, then seal the log. */
static void advance_close(struct replication *r)
{
    if (r->stage == LOG_RUNNING || r->jobs > 0 || r->applying) {
        return;
    }
    if (r->error == 0 && r->stage == LOG_CLOSING) {
        running_log_enter(r, LOG_SEALING);
        append_seal(r);
        if (r->jobs > 0) {
            return;
        }
    }
    assert(list_empty(&r->appends) && r->votes == 0);
    running_log_enter(r, LOG_FINISHED);
}

void running_log_job_done(struct replication *r)
{
    assert(r->jobs > 0);
    r->jobs--;
    append_flush(r);
    advance_close(r);
}

void replication_close(struct replication *r, void (*cb)(void *ctx), void *ctx)
{
    running_log_enter(r, LOG_CLOSING);
    r->close_cb = cb;
    r->close_ctx = ctx;
    atomic_store(&r->stop, true);
    snapshot_task_cancel(r);
    snapshot_sender_stop(&r->install.sender);
    append_flush(r);
    if (!r->applying) {
        advance_close(r);
    }
}

void replication_tick(struct replication *r)
{
    struct engine_result result;
    if (r->stage == LOG_FINISHED) {
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
    advance_close(r);
    int64_t now = running_log_now_ms(r);
    if (r->stage == LOG_RUNNING && r->error == 0) {
        snapshot_install_tick(r);
    }
    if (r->stage == LOG_RUNNING && r->error == 0 && now >= engine_next_timeout_ms(r->engine)) {
        carry_out(r, engine_timeout(r->engine, now, &result), &result, NULL);
    }
}

/* Opening. */

static void set_defaults(struct replication_options *o)
{
    o->clock = o->clock != NULL ? o->clock : clock_system();
    o->election_ms = o->election_ms > 0 ? o->election_ms : ELECTION_MS;
    o->heartbeat_ms = o->heartbeat_ms > 0 ? o->heartbeat_ms : HEARTBEAT_MS;
    o->cache_bytes = o->cache_bytes > 0 ? o->cache_bytes : CACHE_BYTES;
    if (o->seed == 0) {
        random_bytes(&o->seed, sizeof o->seed);
    }
}

static int make_engine(struct replication *r)
{
    const struct replication_options *o = &r->options;
    r->engine = engine_create((uint64_t)o->server_id);
    if (r->engine == NULL) {
        return CONCLAVE_ENOMEM;
    }
    engine_seed(r->engine, o->seed);
    engine_set_timeouts(r->engine, (unsigned)o->election_ms, (unsigned)o->heartbeat_ms, INSTALL_MS);
    engine_set_max_inflight(r->engine, MAX_INFLIGHT);
    return 0;
}

int replication_open(const struct replication_host *host, const struct replication_options *options,
                     const struct replication_callbacks *callbacks, const struct file_ops *ops,
                     struct replication **ret, char **ret_text)
{
    struct error_text problem = {NULL};
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
    r->skip.marker = -1;
    set_defaults(&r->options);
    list_init(&r->appends);
    entry_table_init(&r->table, 1);
    buf_init(&r->gather, 0);
    buf_init(&r->configuration, 0);
    send_queue_init(r);
    read_index_init(r);
    snapshot_task_init(r);
    snapshot_install_init(r);

    int rv = make_engine(r);
    if (rv == 0) {
        rv = start_recover(r, (uint64_t)options->server_id, &problem);
    }
    if (rv != 0) {
        *ret_text = error_text_take(&problem, rv);
        free_memory(r);
        return rv;
    }
    error_text_finish(&problem);
    r->options.founders = NULL; /* owned by the caller, and used only at the start */
    r->told.term = engine_term(r->engine);
    *ret = r;
    return 0;
}

void replication_stats(const struct replication *r, struct replication_stats *ret)
{
    ret->role = present_role(r);
    ret->term = engine_term(r->engine);
    ret->leader = replication_leader(r);
    ret->last_index = running_log_last_index(r);
    ret->commit_index = engine_commit_index(r->engine);
    ret->applied_index = r->applied;
    ret->snapshot_index = r->snapshot_index;
    ret->snapshots_failed = r->snapshots_failed;
    ret->snapshot_busy = r->snapshot.state != SNAPSHOT_IDLE || r->snapshot.wanted;
    ret->snapshot_worth = snapshot_task_worth(r);
    ret->log_bytes = atomic_load(&r->journal.bytes);
    ret->syncs = atomic_load(&r->journal.syncs);
    ret->sync_max_us = atomic_load(&r->journal.sync_max_us);
    ret->sync_total_us = atomic_load(&r->journal.sync_total_us);
}
