#include "front/service.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "front/mirror.h"
#include "front/request.h"
#include "state/adopt/mirrored.h"
#include "state/command_bounds.h"
#include "state/initial_acls.h"
#include "state/memory_estimate.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BEATS_PER_TICK = 4,
    GIVE_BACK_BYTES = 16 << 20, /* below this, returning memory is not worth its time */
    GRANULES_PER_TICK = 40,     /* precision of session expiry: this part of a tick,*/
    GRANULE_MAX_MS = 50,        /* but at most this long */
    TICK_LATE_MS = 20,          /* regular work that is later than this waits for input */
    SEQUENCE_SHIFT = 20,        /* 2^20 batches per ms keep the sequences of two runs apart */
};

/* Session ids of server 255 look like the owners of nodes with a TTL, which leave two bytes 0: one of them is set
 * here. */
static uint64_t not_a_ttl(const struct service *s)
{
    return member_number(s->server_id) == STATE_MEMBER_NUMBER_MAX ? UINT64_C(1) << 55 : 0;
}

static int32_t service_granule_ms(const struct service *s)
{
    int32_t ms = s->limits.tick_ms / GRANULES_PER_TICK + 1;
    return ms < GRANULE_MAX_MS ? ms : GRANULE_MAX_MS;
}

struct session_tracker *service_make_tracker(const struct service *s)
{
    struct session_tracker *t = session_tracker_create(service_granule_ms(s));
    if (t != NULL) {
        session_tracker_lead(t, s->standing.leads);
    }
    return t;
}

int service_init(struct service *s, const struct service_options *options)
{
    *s = (struct service){
        .limits = options->limits,
        .server_id = options->server_id,
        .skip_acl = options->skip_acl,
        .digest = options->digest,
        .verifier = options->verifier,
        .x509_super = options->x509_super,
        .auth_schemes = options->auth_schemes,
        .command_options = options->command_options | COMMAND_LEAVING,
        .read_only_mode = options->read_only_mode,
        .local_sessions = options->local_sessions,
        .local_upgrading = options->local_upgrading,
        .login = options->login,
        .audit = options->audit,
        .close_acls = options->close_acls,
        .local_only = options->local_only,
        .clock = options->clock,
    };
    client_limits_share(&s->limits, SIZE_MAX / 2); /* for callers that set no limits */
    uint64_t wall_ms = (uint64_t)clock_wall_ms(s->clock);
    pipeline_init(&s->pipeline, &options->sink, s->server_id, (int64_t)(wall_ms << SEQUENCE_SHIFT));
    leadership_init(&s->standing);
    /* Time and server id, as in SessionTrackerImpl: unique without messages between servers. */
    s->next_session_id =
        (wall_ms << 24 >> 8) | ((uint64_t)member_number(s->server_id) << 56) | not_a_ttl(s);
    effects_init(&s->effects);
    state_replacement_init(&s->replacement);
    ttl_collector_init(&s->collector, &options->collector);
    map_init(&s->by_session);
    random_bytes(&s->key, sizeof s->key);
    account_init(&s->account, NULL);
    client_addresses_init(&s->addresses, &s->key, &s->account);
    rates_init(&s->auth_failures, &s->key);
    list_init(&s->handshaking);
    list_init(&s->throttled);
    list_init(&s->dirty);
    s->metrics = malloc(sizeof *s->metrics);
    s->state = state_create(&s->key);
    s->watches = watch_table_create(&s->key);
    s->sessions = service_make_tracker(s);
    int rc = local_sessions_init(&s->locals, service_granule_ms(s));
    s->faults = options->test ? faults_create(clock_monotonic_ms(s->clock)) : NULL;
    int noted = session_notes_init(&s->notes, s->limits.ended_sessions_max);
    int slow = slow_log_init(&s->times.slow, s->limits.slow_ms, s->limits.slow_max);
    int traced = request_traces_init(&s->traces, options->traces, s->metrics);
    if (rc != 0 || noted != 0 || slow != 0 || traced != 0 || s->metrics == NULL ||
        s->state == NULL || s->watches == NULL || s->sessions == NULL ||
        (options->test && s->faults == NULL)) {
        return CONCLAVE_ENOMEM;
    }
    server_metrics_reset(s->metrics);
    s->pipeline.clock = s->clock;
    s->pipeline.batch_size = &s->metrics->sync_processor_batch_size;
    return 0;
}

int service_set_limits(struct service *s, const struct client_limits *limits)
{
    assert(limits->tick_ms == s->limits.tick_ms);
    int rc = slow_log_set(&s->times.slow, limits->slow_ms, limits->slow_max);
    if (rc == 0) {
        s->limits = *limits;
        data_limit_follow(s);
    }
    return rc;
}

void service_finish(struct service *s)
{
    assert(map_count(&s->by_session) == 0 && list_empty(&s->dirty) && list_empty(&s->throttled));
    assert(list_empty(&s->handshaking));
    pipeline_finish(&s->pipeline);
    buf_finish(&s->standing.own);
    slow_log_finish(&s->times.slow);
    request_traces_finish(&s->traces);
    effects_finish(&s->effects);
    buf_finish(&s->collector.found);
    map_finish(&s->by_session);
    client_addresses_finish(&s->addresses);
    rates_finish(&s->auth_failures);
    session_tracker_destroy(s->sessions);
    session_notes_finish(&s->notes);
    local_sessions_finish(&s->locals);
    watch_table_destroy(s->watches);
    state_replacement_finish(&s->replacement);
    state_destroy(s->state);
    faults_destroy(s->faults);
    s->faults = NULL;
    free(s->metrics);
    s->metrics = NULL;
    s->sessions = NULL;
    s->watches = NULL;
    s->state = NULL;
}

int64_t service_beat_ms(const struct service *s)
{
    return s->limits.tick_ms / BEATS_PER_TICK + 1;
}

/* A beat that is late by more than its interval means that this process did not run, so no client could give a sign of
 * life: all sessions get the time back. A shorter pause is less than two intervals, which is half a tick, and a client
 * that pings in time can spare that. */
int64_t service_time_ms(struct service *s)
{
    s->now_ns = clock_monotonic_ns(s->clock);
    int64_t now_ms = s->now_ns / 1000000;
    int64_t late_ms = now_ms - s->beat_at;
    if (!s->serving || late_ms <= service_beat_ms(s)) {
        return now_ms;
    }
    log_warn_advice("server", "stalled",
                    "look for a full CPU, swapping, a slow disk or a paused machine",
                    "lost_ms=%lld", (long long)late_ms);
    s->beat_at = now_ms;
    session_notes_stall(&s->notes, now_ms, late_ms);
    session_tracker_pause(s->sessions, late_ms);
    session_tracker_pause(s->locals.alive, late_ms);
    summary_add(&s->metrics->jvm_pause_time_ms, (uint64_t)late_ms);
    LIST_FOREACH (it, &s->handshaking) {
        CONTAINER_OF(it, struct connection, handshaking)->handshake_at += late_ms;
    }
    return now_ms;
}

void service_close_acls(struct service *s, int64_t now_ms)
{
    if (!s->close_acls || now_ms < s->close_acls_at || !state_acls_are_open(s->state)) {
        return;
    }
    s->close_acls_at = now_ms + s->limits.tick_ms; /* the log may be slow, or lose the command */
    if (leadership_propose(s, 0, COMMAND_CLOSE_ACLS, slice_str("")) != 0) {
        s->close_acls_at = now_ms;
    }
}

int service_begin(struct service *s)
{
    int64_t now_ms = clock_monotonic_ms(s->clock);
    pipeline_begin(&s->pipeline, state_origin_sequence(s->state, s->server_id));
    session_tracker_lead(s->sessions, s->standing.leads);
    int rc = mirror_look(s);
    rc = rc == 0 ? leadership_full_timeouts(s, now_ms) : rc;
    s->beat_at = now_ms + service_beat_ms(s);
    (void)clock_watch_step(&s->clock_watch, s->clock); /* the first look */
    s->serving = true;
    data_limit_follow(s);
    if (s->standing.leads && !s->mirrored) {
        fence_requests_tick(s, now_ms);
        service_close_acls(s, now_ms);
    }
    return rc;
}

static void restored_passed(void *ctx, struct slice bytes)
{
    pages_pass(ctx, bytes);
}

int service_restore(struct service *s, struct slice snapshot)
{
    struct state *state = NULL;
    struct pages_passed pages = {0}; /* the snapshot is a file's, and as large as its state */
    int rc = state_restore_passing(snapshot, &s->key, restored_passed, &pages, &state);
    return rc == 0 ? state_replacement_adopt(s, state) : rc;
}

/* An entry without a connection ends; its owner gets the outcome. */
static void service_conclude(struct service *s, struct pending *entry,
                             const struct effects *effects)
{
    struct pending_owner *owner = entry->owner;
    assert(entry->connection == NULL);
    pipeline_release(&s->pipeline, entry);
    if (owner != NULL) {
        owner->entry = NULL;
        owner->applied(owner, effects);
    }
}

/* The write gets no answer. */
static void service_give_up(struct service *s, struct pending *entry)
{
    if (entry->connection != NULL) {
        connection_forget(entry->connection, entry);
    } else {
        service_conclude(s, entry, NULL);
    }
}

void service_forget(struct service *s)
{
    struct pipeline *p = &s->pipeline;
    while (s->deferred != NULL || !list_empty(&p->flight)) {
        struct pending *entry = s->deferred != NULL ? s->deferred : pipeline_next(p);
        s->deferred = NULL;
        service_give_up(s, entry);
    }
    pipeline_begin_run(p);
    local_sessions_forget_upgrades(&s->locals);
}

/* Applying */

struct telling {
    struct service *service;
    const struct state_event *event;
};

static void service_tell(void *ctx, struct watcher *w, enum watch_event event, struct slice path)
{
    const struct telling *t = ctx;
    struct connection *c = CONTAINER_OF(w, struct connection, watcher);
    if (!state_event_permitted(t->service->state, t->event, (uintptr_t)c,
                               client_ids_list(&c->identity))) {
        t->service->metrics->conclave_events_hidden_total++;
        return;
    }
    connection_event(c, event, path, t->service->effects.zxid);
    if (t->service->faults != NULL) {
        faults_on_event(t->service->faults);
    }
}

static void service_note_quota(struct service *s, const struct state_quota *q)
{
    s->metrics->conclave_quota_exceeded_total++;
    char who[LOG_WHO_MAX];
    snprintf(who, sizeof who, "%.*s", SLICE_FMT(q->path));
    log_cause(LOG_WARN, "server", "quota-exceeded", who, q->bytes ? "bytes" : "count",
              "raise the quota of this path by conclave quota, or delete nodes",
              "path=%.*s kind=%s limit=%s amount=%lld max=%lld", SLICE_FMT(q->path),
              q->bytes ? "bytes" : "count", q->hard ? "hard" : "soft", (long long)q->amount,
              (long long)q->limit);
}

static bool connection_has_id(const struct map_node *node, const void *key)
{
    const struct connection *c =
        (const void *)((const char *)node - offsetof(struct connection, by_id));
    return c->session_id == *(const int64_t *)key;
}

struct connection *service_connection(struct service *s, int64_t id)
{
    struct map_node *node =
        map_find(&s->by_session, hash_number((uint64_t)id), connection_has_id, &id);
    return node == NULL ? NULL : CONTAINER_OF(node, struct connection, by_id);
}

static int service_session_created(struct service *s, int64_t id)
{
    struct state_session session;
    if (!s->serving || !state_session_find(s->state, id, &session)) {
        return 0;
    }
    return session_tracker_add(s->sessions, id, session.timeout_ms, service_time_ms(s));
}

/* The client now uses another server, unless it has come back here: then a later entry of the log says so. */
static void service_session_moved(struct service *s, int64_t id)
{
    struct connection *c = service_connection(s, id);
    bool served = c != NULL && c->stage == CONNECTION_SERVING;
    session_notes_moved(s, id, served ? c : NULL);
    if (served) {
        service_detach(s, c);
        connection_drop(c, "its session was resumed on another server");
    }
}

static void service_session_closed(struct service *s, int64_t id, enum session_end end,
                                   struct slice by)
{
    struct connection *c = service_connection(s, id);
    if (s->serving) {
        session_notes_ended(s, id, end, by, c);
    }
    if (s->faults != NULL) {
        faults_on_session(s->faults, false, end == SESSION_END_EXPIRED);
    }
    session_tracker_remove(s->sessions, id);
    client_addresses_end_session(&s->addresses, id);
    if (c == NULL) {
        return;
    }
    service_detach(s, c);
    if (c->stage == CONNECTION_SERVING) {
        connection_drop(c, "its session was closed or has expired");
    }
}

/* A local session is now global, or could not become global. */
static void service_session_upgraded(struct service *s, int64_t id, int32_t err)
{
    if (local_session_end(&s->locals, id) && err != 0) {
        service_session_closed(s, id, SESSION_END_CLOSED, SLICE_NULL);
    }
}

static void service_trigger(struct service *s, const struct state_event *event)
{
    struct server_metrics *m = s->metrics;
    struct summary *const told[] = {
        [WATCH_NODE_CREATED] = &m->node_created_watch_count,
        [WATCH_NODE_DELETED] = &m->node_deleted_watch_count,
        [WATCH_NODE_DATA_CHANGED] = &m->node_changed_watch_count,
        [WATCH_NODE_CHILDREN_CHANGED] = &m->node_children_watch_count,
    };
    struct telling telling = {s, event};
    size_t count = watch_trigger(s->watches, (enum watch_event)event->type, event->path,
                                 service_tell, &telling);
    if (count > 0) {
        summary_add(told[event->type], count);
    }
}

/* A reconfig is in progress: its answer must wait. A repeated reconfig replaces the waiting one. */
static void service_defer(struct service *s, struct pending *entry)
{
    if (s->deferred != NULL) {
        service_give_up(s, s->deferred);
    }
    s->deferred = entry;
}

/* Answers the waiting reconfig with the outcome of the command that ended it. */
static void service_resume(struct service *s)
{
    struct pending *entry = s->deferred;
    const struct state_resumed *r = &s->effects.resumed;
    if (!r->is || entry == NULL) {
        return;
    }
    assert(entry->write && list_empty(&entry->flight));
    s->deferred = NULL;
    if (r->origin != s->server_id) { /* the reconfig was repeated on another server */
        service_give_up(s, entry);
        return;
    }
    struct effects answer = s->effects; /* the other fields belong to the command that ended it */
    answer.err = r->err;
    if (entry->connection != NULL) {
        connection_complete(entry->connection, entry, &answer);
    } else {
        pipeline_release(&s->pipeline, entry);
    }
}

static void service_events(struct service *s)
{
    for (size_t i = 0; i < s->effects.events_count; i++) {
        service_trigger(s, &s->effects.events[i]);
    }
}

int service_configure(struct service *s, const struct state_member *members, size_t count)
{
    s->now_ns = clock_monotonic_ns(s->clock);
    state_configure(s->state, members, count, &s->effects);
    service_events(s);
    service_resume(s);
    return 0;
}

/* Who ended a session. A client's close has no body; an operator's has a name. */
static enum session_end session_end_of(const struct batch_header *header,
                                       const struct command *command)
{
    if (command->type == COMMAND_MIRROR_TRANSACTION) {
        return SESSION_END_CLOSED; /* the source knows why */
    }
    if (command->body.len > 0) {
        return SESSION_END_KILLED;
    }
    return header->origin == BATCH_ORIGIN_LEADER ? SESSION_END_EXPIRED : SESSION_END_CLOSED;
}

/* The address of the client that waits; NULL: none waits. */
static const char *pending_host(const struct pending *entry)
{
    return entry->connection != NULL ? entry->connection->host
           : entry->owner != NULL    ? entry->owner->host
                                     : NULL;
}

/* Applies a command: events go out first, then the reply, then the end of the session. */
static int service_apply_one(struct service *s, const struct batch_header *header,
                             const struct command *command, bool own)
{
    struct effects *e = &s->effects;
    const struct pending *next = own ? pipeline_first(&s->pipeline) : NULL;
    if (next != NULL && next->connection != NULL) {
        connection_precede(next->connection, next);
    }
    mirrored_apply(s->state, header, command, e);
    s->stats.applied++;
    s->metrics->conclave_writes_repeated_total += own && e->repeated;
    service_events(s);
    if (e->quota.exceeded && own) {
        service_note_quota(s, &e->quota);
    }
    if (e->fenced.refused && own) {
        fence_requests_note(s, command->session_id, &e->fenced);
    }
    if (e->session_change == STATE_SESSION_ATTACHED && !own) {
        service_session_moved(s, e->session_id);
    }
    if (e->session_change == STATE_SESSION_CREATED && s->faults != NULL) {
        faults_on_session(s->faults, true, false);
    }
    if (e->session_change == STATE_SESSION_CREATED || e->session_change == STATE_SESSION_ATTACHED) {
        int rc = service_session_created(s, e->session_id);
        if (rc != 0) {
            return rc;
        }
    }
    if (own && command->type == WIRE_CREATE_SESSION) {
        service_session_upgraded(s, command->session_id, e->err);
    }
    service_resume(s);
    if (own && e->deferred) {
        service_defer(s, pipeline_next(&s->pipeline));
    } else if (own) {
        struct pending *entry = pipeline_next(&s->pipeline);
        if (s->audit != NULL && !e->repeated) {
            audit_log_command(s->audit, command, e, pending_host(entry));
        }
        request_times_write(s, command, entry);
        if (entry->connection != NULL) {
            connection_complete(entry->connection, entry, e);
        } else {
            service_conclude(s, entry, e);
        }
    }
    enum session_end end = SESSION_END_NONE;
    if (e->session_change == STATE_SESSION_CLOSED) {
        end = session_end_of(header, command);
        service_session_closed(s, e->session_id, end, command->body);
    }
    if (command->type == COMMAND_MIRROR_TRANSACTION) {
        mirror_applied(s, command->body.len);
    } else if (command->type == COMMAND_MIRROR_BEGIN || command->type == COMMAND_MIRROR_END) {
        int rc = mirror_look(s);
        if (rc != 0) {
            return rc;
        }
    }
    if (e->gone_count > 0 && s->onlooker.gone != NULL) {
        int64_t time_ms = header->time_ms > 0 ? header->time_ms : clock_wall_ms(s->clock);
        s->onlooker.gone(s->onlooker.ctx, command, e, end, time_ms);
    }
    if (e->events_count > 0 && s->onlooker.wrote != NULL) {
        s->onlooker.wrote(s->onlooker.wrote_ctx, command, e);
    }
    return 0;
}

/* Whether the state admits the batch; *ret_own: clients of this server wait for it. */
static bool service_admits_batch(struct service *s, const struct batch_header *header,
                                 bool *ret_own)
{
    if (state_batch_admit(s->state, header) != STATE_BATCH_APPLY) {
        return false;
    }
    *ret_own = s->serving && pipeline_owns(&s->pipeline, header);
    return true;
}

int service_skip(struct service *s, struct batch_reader *batch)
{
    struct command command;
    bool own = false;
    int rc = 0;
    if (!service_admits_batch(s, &batch->header, &own)) {
        return 0;
    }
    while (own && (rc = batch_next(batch, &command)) == 1) {
        service_give_up(s, pipeline_next(&s->pipeline));
    }
    return rc;
}

int service_apply(struct service *s, struct batch_reader *batch)
{
    struct command command;
    bool own = false;
    int rc = 0;
    (void)service_time_ms(s);
    if (service_admits_batch(s, &batch->header, &own)) {
        if (own) {
            request_times_begin(s, batch->header.sequence);
        }
        while ((rc = batch_next(batch, &command)) == 1) {
            rc = service_apply_one(s, &batch->header, &command, own);
            if (rc != 0) {
                return rc;
            }
        }
        if (own) {
            request_times_end(s, &command);
        }
    }
    if (s->serving) {
        data_limit_follow(s);
    }
    effects_trim(&s->effects);
    return rc;
}

/* Turns and regular work */

/* The accounted bytes, of the state and of clients. */
static size_t service_kept(const struct service *s)
{
    const size_t *bytes = s->account.bytes;
    return state_memory(s->state) + account_buffers(&s->account) + bytes[ACCOUNT_WATCHES] +
           bytes[ACCOUNT_REQUESTS];
}

/* Runs each turn, because clients can fill and free everything between two beats. */
static void service_note_kept(struct service *s)
{
    size_t kept = service_kept(s);
    s->kept_peak = kept > s->kept_peak ? kept : s->kept_peak;
}

/* Requests and bytes that make connections wait; when it falls, a waiting connection may continue. */
static size_t service_load(const struct service *s)
{
    return s->pipeline.outstanding + s->account.bytes[ACCOUNT_REQUESTS] +
           account_buffers(&s->account);
}

void service_throttle(struct service *s, struct connection *c)
{
    assert(list_empty(&c->throttled));
    size_t load = service_load(s);
    s->throttled_load = load > s->throttled_load ? load : s->throttled_load;
    list_push_back(&s->throttled, &c->throttled);
}

bool service_has_work(const struct service *s)
{
    const struct state_replacement *r = &s->replacement;
    return leadership_has_work(s) || (r->id != 0 && r->in_flight == 0) ||
           (!list_empty(&s->throttled) && service_load(s) < s->throttled_load);
}

void service_turn(struct service *s)
{
    service_note_kept(s);
    bool serves = leadership_in_contact(s) || s->standing.read_only;
    s->throttled_load = service_load(s);
    if (!list_empty(&s->throttled) && serves && service_admits(s)) {
        struct list *node;
        while ((node = list_pop_front(&s->throttled)) != NULL) {
            struct connection *c = CONTAINER_OF(node, struct connection, throttled);
            if (list_empty(&c->dirty)) {
                list_push_back(&s->dirty, &c->dirty);
            }
        }
    }
    leadership_turn(s);
    state_replacement_turn(s);
}

bool service_admits(struct service *s)
{
    const struct pipeline *p = &s->pipeline;
    size_t count = s->limits.outstanding_max;
    size_t bytes = s->limits.outstanding_bytes_max;
    if (s->throttling) {
        count -= count / 4;
        bytes -= bytes / 4;
    }
    s->throttling = p->outstanding >= count || s->account.bytes[ACCOUNT_REQUESTS] >= bytes;
    return !s->throttling;
}

static bool service_collect(void *ctx, struct slice body)
{
    struct service *s = ctx;
    int rc = leadership_propose(s, 0, WIRE_DELETE_CONTAINER, body);
    if (rc != 0) {
        log_cause(
            LOG_WARN, "server", "collection-delayed", "collection", NULL,
            "nothing to do: the server tries again; when it repeats, check the leader and the disk",
            "error=%s", conclave_errname(rc));
    }
    return rc == 0;
}

static void service_note_expiry(struct service *s, int64_t id, const struct connection *c)
{
    s->metrics->stale_sessions_expired++;
    char who[32];
    snprintf(who, sizeof who, "0x%llx", (unsigned long long)id);
    log_cause(LOG_INFO, "server", "session-expired", who, NULL, NULL, "session=%s connected=%s",
              who, c != NULL ? "yes" : "no");
}

/* Whether the server owes it replies or has unread input: then the server causes the silence. */
static bool service_owes(const struct connection *c)
{
    return c != NULL &&
           (c->pending_count > 0 || c->verification != NULL || !list_empty(&c->throttled));
}

static int64_t service_expire_local(void *ctx, int64_t id, int64_t heard_ms, int32_t timeout_ms)
{
    struct service *s = ctx;
    struct connection *c = service_connection(s, id);
    if (service_owes(c)) {
        session_tracker_touch(s->locals.alive, id, s->now_ns / 1000000);
        return SESSION_LIVES;
    }
    service_note_expiry(s, id, c);
    service_end_local(s, id, SESSION_END_EXPIRED, SLICE_NULL);
    return SESSION_ENDS;
}

/* How long the leader must wait for reports of the server that has the session's client. */
static int64_t service_expiry_wait(struct service *s, int64_t id, int64_t heard_ms,
                                   int32_t timeout_ms)
{
    struct state_session session;
    if (s->standing.sole || !state_session_find(s->state, id, &session) || session.owner == 0 ||
        session.owner == s->server_id) {
        return 0;
    }
    return s->pipeline.sink.expiry_wait(s->pipeline.sink.ctx, session.owner, heard_ms, timeout_ms);
}

static void service_note_decision(struct service *s, int64_t id, int64_t heard_ms,
                                  int32_t timeout_ms)
{
    struct reporter_ages ages = {.report_ms = -1, .reborn_ms = -1};
    struct state_session session = {.owner = 0};
    if (state_session_find(s->state, id, &session) && !s->standing.sole && session.owner != 0 &&
        session.owner != s->server_id && s->pipeline.sink.reporter_ages != NULL) {
        s->pipeline.sink.reporter_ages(s->pipeline.sink.ctx, session.owner, &ages.report_ms,
                                       &ages.reborn_ms);
    }
    session_notes_decided(s, id, heard_ms, timeout_ms, session.owner, &ages);
}

static int64_t service_expire(void *ctx, int64_t id, int64_t heard_ms, int32_t timeout_ms)
{
    struct service *s = ctx;
    struct connection *c = service_connection(s, id);
    if (service_owes(c) || s->standing.gathering) {
        session_tracker_touch(s->sessions, id, s->now_ns / 1000000);
        return SESSION_LIVES;
    }
    int64_t wait_ms = service_expiry_wait(s, id, heard_ms, timeout_ms);
    if (wait_ms > 0) {
        return wait_ms;
    }
    int rc = leadership_propose(s, id, WIRE_CLOSE_SESSION, slice_str(""));
    if (rc != 0) {
        log_warn_advice(
            "server", "expiry-delayed",
            "nothing to do: the server tries again; when it repeats, check the leader and the disk",
            "session=0x%llx error=%s", (unsigned long long)id, conclave_errname(rc));
        return SESSION_LIVES;
    }
    service_note_decision(s, id, heard_ms, timeout_ms);
    service_note_expiry(s, id, c);
    return SESSION_ENDS;
}

/* Returns free memory of the allocator to the system, after a large part of the accounted bytes was freed. */
static void service_give_back(struct service *s)
{
    service_note_kept(s);
    size_t kept = service_kept(s);
    if (s->kept_peak - kept > GIVE_BACK_BYTES && kept < s->kept_peak / 4 * 3) {
        s->kept_peak = kept;
        memory_give_back();
    }
}

/* Whether this call of service_tick is so late that input must be read first; the next one is not. */
static bool service_reads_first(struct service *s)
{
    int64_t late_ms = clock_monotonic_ms(s->clock) - service_deadline(s);
    s->reads_first = s->serving && !s->reads_first && late_ms > TICK_LATE_MS;
    return s->reads_first;
}

void service_expire_sessions(struct service *s, int64_t now_ms)
{
    session_tracker_expire(s->locals.alive, now_ms, service_expire_local, s);
    if (s->standing.leads && !s->mirrored) {
        session_tracker_expire(s->sessions, now_ms, service_expire, s);
    }
}

static void service_watch_clock(struct service *s)
{
    int64_t step_ms = clock_watch_step(&s->clock_watch, s->clock);
    if (step_ms != 0) {
        s->metrics->conclave_clock_steps_total++;
        log_warn_advice(
            "server", "clock-stepped",
            "let chrony or ntpd slew the clock; times in logs and of nodes jump, sessions "
            "and leases do not",
            "by_ms=%lld", (long long)step_ms);
    }
}

void service_tick(struct service *s)
{
    bool reads_first = service_reads_first(s);
    int64_t now_ms = service_time_ms(s);
    if (!s->serving) {
        return;
    }
    if (s->beat_at <= now_ms) {
        session_notes_stall(&s->notes, now_ms, now_ms - s->beat_at);
        s->beat_at = now_ms + service_beat_ms(s);
        session_notes_beat(s, now_ms);
        service_give_back(s);
        service_watch_clock(s);
    }
    if (s->faults != NULL) {
        faults_tick(s, now_ms);
    }
    if (!reads_first) {
        service_expire_sessions(s, now_ms);
    }
    if (s->standing.leads && !s->mirrored) {
        ttl_collector_tick(&s->collector, s->state, now_ms, clock_wall_ms(s->clock),
                           service_collect, s);
        fence_requests_tick(s, now_ms);
        service_close_acls(s, now_ms);
    }
    log_tick();
    while (!list_empty(&s->handshaking)) {
        struct connection *c = CONTAINER_OF(s->handshaking.next, struct connection, handshaking);
        if (c->handshake_at > now_ms) {
            break;
        }
        list_remove(&c->handshaking);
        if (c->stage == CONNECTION_CLOSING) {
            connection_drop(c, "the client did not read its last answers in time");
            continue;
        }
        if (c->stage == CONNECTION_SERVING) {
            s->metrics->conclave_slow_clients_cut_total++;
            connection_drop(c, "its unread answers or its unfinished request kept memory that "
                               "other clients needed");
            continue;
        }
        s->metrics->sessionless_connections_expired++;
        bool securing = c->stage == CONNECTION_SECURING;
        s->metrics->unsuccessful_handshake += securing;
        connection_drop(c, securing ? "the TLS handshake did not end in time"
                                    : "no session request in time");
    }
}

int64_t service_deadline(const struct service *s)
{
    int64_t at = s->beat_at;
    int64_t local = session_tracker_deadline(s->locals.alive);
    at = local < at ? local : at;
    if (s->faults != NULL && faults_deadline(s->faults) < at) {
        at = faults_deadline(s->faults);
    }
    if (s->standing.leads && !s->mirrored) {
        int64_t expiry = session_tracker_deadline(s->sessions);
        int64_t collection = ttl_collector_deadline(&s->collector);
        at = expiry < at ? expiry : at;
        at = collection < at ? collection : at;
    }
    if (!list_empty(&s->handshaking)) {
        const struct connection *c =
            CONTAINER_OF(s->handshaking.next, struct connection, handshaking);
        if (c->handshake_at < at) {
            at = c->handshake_at;
        }
    }
    return at;
}

int64_t service_oldest_write_ms(const struct service *s)
{
    const struct pipeline *p = &s->pipeline;
    if (list_empty(&p->flight)) {
        return 0;
    }
    const struct pending *oldest = CONTAINER_OF(p->flight.next, struct pending, flight);
    return (clock_monotonic_ns(s->clock) - oldest->taken_ns) / 1000000;
}

int64_t service_disk_wait_ms(const struct service *s)
{
    const struct pipeline_sink *sink = &s->pipeline.sink;
    return sink->disk_wait != NULL ? sink->disk_wait(sink->ctx) : 0;
}

void service_reset_stats(struct service *s)
{
    server_metrics_reset(s->metrics);
    s->stats.packets_received = 0;
    s->stats.packets_sent = 0;
}

/* Connections */

int64_t service_next_session_id(struct service *s)
{
    struct state_session taken;
    do {
        s->next_session_id++;
    } while (state_session_find(s->state, (int64_t)s->next_session_id, &taken));
    return (int64_t)s->next_session_id;
}

int service_claim(struct service *s, struct connection *c, int64_t session_id)
{
    struct connection *old = service_connection(s, session_id);
    if (old == c) {
        return 0;
    }
    if (old != NULL) {
        service_detach(s, old);
        connection_drop(old, "its session was resumed on a newer connection");
    }
    assert(!c->mapped);
    c->session_id = session_id;
    c->trace_seed = wire_trace_seed(session_id, c->trace_link);
    int rc = map_insert(&s->by_session, &c->by_id, hash_number((uint64_t)session_id));
    c->mapped = rc == 0;
    return rc;
}

void service_end_local(struct service *s, int64_t id, enum session_end end, struct slice by)
{
    if (local_session_end(&s->locals, id)) {
        service_session_closed(s, id, end, by);
    }
}

int service_kill_session(struct service *s, int64_t id, struct wire_vector ids, const char *by)
{
    struct state_session session;
    struct local_session *local = local_session_find(&s->locals, id);
    struct command command = {
        .session_id = id, .type = WIRE_CLOSE_SESSION, .ids = ids, .body = slice_str(by)};
    if (local != NULL && !local->upgrading) {
        struct effects ended = {.session_change = STATE_SESSION_CLOSED, .session_id = id};
        if (s->audit != NULL) {
            audit_log_command(s->audit, &command, &ended, NULL);
        }
        service_end_local(s, id, SESSION_END_KILLED, command.body);
        return 0;
    }
    if (!leadership_in_contact(s)) {
        return CONCLAVE_CONNECTION_LOSS; /* it would be carried out later, when nobody expects it any more */
    }
    if (!state_session_find(s->state, id, &session)) {
        return CONCLAVE_NO_NODE;
    }
    (void)service_time_ms(s);
    struct pending *entry =
        pipeline_pending(&s->pipeline, &s->account, command.body.len, s->now_ns);
    if (entry == NULL) {
        return CONCLAVE_ENOMEM;
    }
    entry->type = command.type;
    int rc = pipeline_write(&s->pipeline, &command, clock_wall_ms(s->clock), entry);
    if (rc != 0) {
        pipeline_release(&s->pipeline, entry);
    }
    return rc;
}

/* The error by which a write is refused before it gets into the log; 0: none. */
static int service_write_refusal(struct service *s, const struct command *command)
{
    const struct request request = {.type = command->type, .body = command->body};
    if (!leadership_in_contact(s)) {
        return CONCLAVE_CONNECTION_LOSS;
    }
    if (!service_admits(s)) {
        return CONCLAVE_THROTTLED;
    }
    int rc = command_bounds_check(&s->limits.command, command->type, command->body, command->ids);
    return rc == 0 && data_limit_refuses(s, &request) ? CONCLAVE_QUOTA_EXCEEDED : rc;
}

int service_write(struct service *s, const struct command *command, struct pending_owner *owner)
{
    struct command own = *command;
    own.options = s->command_options | COMMAND_BOUNDED | COMMAND_LOCAL;
    (void)service_time_ms(s);
    int rc = service_write_refusal(s, command);
    if (rc != 0) {
        return rc;
    }
    struct pending *entry =
        pipeline_pending(&s->pipeline, &s->account, own.ids.items.len + own.body.len, s->now_ns);
    if (entry == NULL) {
        return CONCLAVE_ENOMEM;
    }
    assert(owner->entry == NULL);
    entry->type = own.type;
    entry->owner = owner;
    owner->entry = entry;
    rc = pipeline_write(&s->pipeline, &own, clock_wall_ms(s->clock), entry);
    if (rc != 0) {
        owner->entry = NULL;
        pipeline_release(&s->pipeline, entry);
    }
    return rc;
}

void service_disown(struct pending_owner *owner)
{
    if (owner->entry != NULL) {
        assert(owner->entry->owner == owner);
        owner->entry->owner = NULL;
        owner->entry = NULL;
    }
}

int service_attach(struct service *s, struct connection *c, int64_t session_id)
{
    int rc = service_claim(s, c, session_id);
    return rc != 0
               ? rc
               : session_tracker_add(s->sessions, session_id, c->timeout_ms, service_time_ms(s));
}

void service_detach(struct service *s, struct connection *c)
{
    if (c->mapped) {
        assert(service_connection(s, c->session_id) == c);
        map_remove(&s->by_session, &c->by_id);
        c->mapped = false;
    }
}

bool service_authenticated(const struct service *s, const struct client_ids *identity)
{
    return s->auth_schemes == NULL || client_ids_has_any(identity, s->auth_schemes);
}
