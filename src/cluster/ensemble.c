#include "cluster/ensemble.h"

#include "base/backoff.h"
#include "base/log.h"
#include "cluster/digest_exchange.h"
#include "cluster/member_roles.h"
#include "front/state_replacement.h"

#include <assert.h>
#include <stdlib.h>

enum {
    RESEND_MIN_MS = 250, /* without progress, batches are sent again; doubled each time */
    RESEND_MAX_MS = 4000,
    RETRY_MS = 5,    /* before the next try with a leader that is not ready */
    CLAIM_MS = 2000, /* between two digests that the leader sends */
};

/* A batch of this server that is not applied yet. */
struct unapplied {
    struct list node;
    int64_t sequence;
    int32_t count; /* commands */
    struct buf bytes;
};

void ensemble_send(struct ensemble *e, uint64_t to, struct buf *message_take)
{
    if (buf_ok(message_take)) {
        e->links.send(e->links.ctx, to, message_take);
    }
    buf_finish(message_take);
}

void ensemble_message_begin(struct buf *message, enum ensemble_message_kind kind)
{
    buf_init(message, 0);
    buf_append_u8(message, (uint8_t)kind);
}

static void drop_unapplied(struct ensemble *e, struct unapplied *u)
{
    assert(e->stats.unapplied > 0 && e->stats.unapplied_bytes >= u->bytes.len);
    list_remove(&u->node);
    e->stats.unapplied--;
    e->stats.unapplied_bytes -= u->bytes.len;
    buf_finish(&u->bytes);
    free(u);
}

static struct unapplied *oldest(const struct ensemble *e)
{
    /* The analyzer does not see list_remove. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    return list_empty(&e->unapplied) ? NULL
                                     : CONTAINER_OF(e->unapplied.next, struct unapplied, node);
}

static void drop_all_unapplied(struct ensemble *e)
{
    struct unapplied *u;
    while ((u = oldest(e)) != NULL) {
        drop_unapplied(e, u);
    }
}

static void moved(struct ensemble *e)
{
    e->resend_wait_ms = RESEND_MIN_MS;
    e->resend_at = clock_monotonic_ms(e->clock) + e->resend_wait_ms;
}

void ensemble_init(struct ensemble *e, struct service *service, int64_t id,
                   const struct clock_source *clock, const struct ensemble_links *links)
{
    *e = (struct ensemble){
        .service = service,
        .links = *links,
        .clock = clock,
        .id = id,
        .role = REPLICATION_FOLLOWER,
        .sole = true,
        .resend_wait_ms = RESEND_MIN_MS,
        .retry_at = INT64_MAX,
        .stats = {.proposal_last = -1, .proposal_min = -1, .proposal_max = -1},
    };
    list_init(&e->unapplied);
    session_reports_begin_life(e);
}

void ensemble_finish(struct ensemble *e)
{
    drop_all_unapplied(e);
    assert(e->stats.unapplied == 0 && e->stats.unapplied_bytes == 0);
    session_reports_finish(e);
}

/* Sending batches */

static void ensemble_fail(struct ensemble *e, int error)
{
    if (e->failed != NULL) {
        e->failed(e->failed_ctx, error, "the log accepts no more writes");
    }
}

static void count_proposal(struct ensemble *e, size_t len)
{
    struct ensemble_stats *s = &e->stats;
    int64_t size = (int64_t)len;
    s->proposal_last = size;
    s->proposal_max = size > s->proposal_max ? size : s->proposal_max;
    s->proposal_min = s->proposal_min < 0 || size < s->proposal_min ? size : s->proposal_min;
}

/* Sends a kept batch to the log or to the leader. On failure the batch stays: ensemble_tick or a new leader sends it
 * again. */
static void route(struct ensemble *e, const struct unapplied *u)
{
    struct buf copy;
    if (e->replication == NULL) {
        return;
    }
    buf_init(&copy, 0);
    if (e->role == REPLICATION_LEADER) {
        buf_append_slice(&copy, buf_slice(&u->bytes));
        int rc = buf_ok(&copy) ? replication_submit(e->replication, &copy) : CONCLAVE_ENOMEM;
        if (rc != 0 && rc != CONCLAVE_EBUSY && rc != CONCLAVE_ENOMEM && rc != CONCLAVE_ECLOSED) {
            ensemble_fail(e, rc);
        }
    } else if (e->leader != 0) {
        buf_append_u8(&copy, ENSEMBLE_BATCH);
        buf_append_slice(&copy, buf_slice(&u->bytes));
        if (buf_ok(&copy)) {
            e->stats.forwarded++;
            e->links.send(e->links.ctx, e->leader, &copy);
        }
    }
    buf_finish(&copy);
}

static void retry_soon(struct ensemble *e)
{
    int64_t at = clock_monotonic_ms(e->clock) + RETRY_MS;
    e->retry_at = at < e->retry_at ? at : e->retry_at;
}

static void resend(struct ensemble *e)
{
    e->retry_at = INT64_MAX;
    LIST_FOREACH (it, &e->unapplied) {
        e->stats.resent++;
        route(e, CONTAINER_OF(it, struct unapplied, node));
    }
    moved(e);
}

/* A sole voter does not lead at once: first the entry that begins its term must reach the disk. Commands kept until
 * then go before later ones. */
static bool keeps_nothing(const struct ensemble *e)
{
    return e->sole && e->role == REPLICATION_LEADER && list_empty(&e->unapplied);
}

static int sink_submit(void *ctx, struct buf *payload_take)
{
    struct ensemble *e = ctx;
    count_proposal(e, payload_take->len);
    if (keeps_nothing(e)) {
        assert(e->replication != NULL && e->stats.unapplied == 0);
        int rc = replication_submit(e->replication, payload_take);
        if (rc != 0) {
            ensemble_fail(e, rc);
        }
        return rc;
    }
    struct batch_reader reader;
    if (batch_open(buf_slice(payload_take), &reader) != 0) {
        /* A whole state (a restored snapshot) is not a batch: it is never sent twice. */
        return e->replication != NULL ? replication_submit(e->replication, payload_take)
                                      : CONCLAVE_EBUSY;
    }
    struct unapplied *u = calloc(1, sizeof *u);
    if (u == NULL) {
        return CONCLAVE_ENOMEM;
    }
    u->sequence = reader.header.sequence;
    u->count = reader.header.count;
    u->bytes = *payload_take;
    buf_init(payload_take, 0);
    if (list_empty(&e->unapplied)) {
        moved(e);
    }
    assert(list_empty(&e->unapplied) ||
           CONTAINER_OF(e->unapplied.prev, struct unapplied, node)->sequence < u->sequence);
    list_push_back(&e->unapplied, &u->node);
    e->stats.unapplied++;
    e->stats.unapplied_bytes += u->bytes.len;
    route(e, u);
    return 0;
}

static void sink_submit_own(void *ctx, struct buf *payload_take)
{
    struct ensemble *e = ctx;
    int rc =
        e->replication != NULL ? replication_submit(e->replication, payload_take) : CONCLAVE_EBUSY;
    if (rc != 0 && keeps_nothing(e)) {
        ensemble_fail(e, rc);
    }
}

static size_t sink_in_flight(void *ctx)
{
    struct ensemble *e = ctx;
    return keeps_nothing(e) ? replication_in_flight(e->replication) : e->stats.unapplied;
}

static uint64_t sink_read_index(void *ctx)
{
    struct ensemble *e = ctx;
    return replication_read_index(e->replication);
}

static int64_t sink_expiry_wait(void *ctx, int64_t owner, int64_t heard_ms, int32_t timeout_ms)
{
    return session_reports_expiry_wait(ctx, owner, heard_ms, timeout_ms);
}

static void sink_reporter_ages(void *ctx, int64_t owner, int64_t *ret_report_ms,
                               int64_t *ret_reborn_ms)
{
    session_reports_ages(ctx, owner, ret_report_ms, ret_reborn_ms);
}

static int64_t sink_disk_wait(void *ctx)
{
    const struct ensemble *e = ctx;
    return e->replication != NULL ? replication_disk_wait_ms(e->replication) : 0;
}

struct pipeline_sink ensemble_sink(struct ensemble *e)
{
    return (struct pipeline_sink){
        .submit = sink_submit,
        .submit_own = sink_submit_own,
        .in_flight = sink_in_flight,
        .read_index = sink_read_index,
        .expiry_wait = sink_expiry_wait,
        .reporter_ages = sink_reporter_ages,
        .disk_wait = sink_disk_wait,
        .ctx = e,
    };
}

/* Applied entries */

/* Drops own batches that the state has admitted. */
static void ensemble_settle(struct ensemble *e, int64_t sequence)
{
    struct unapplied *u;
    bool any = false;
    while ((u = oldest(e)) != NULL && u->sequence <= sequence) {
        drop_unapplied(e, u);
        any = true;
    }
    if (any) {
        moved(e);
    }
}

static void forget(struct ensemble *e)
{
    drop_all_unapplied(e);
    service_forget(e->service);
}

/* The log contains a batch of an earlier run of this server with a sequence number that this run has not reached yet:
 * the wall clock was set back between the runs. The state would never admit the unanswered batches of this run. So
 * their clients are disconnected, and the run continues above that number, and above later batches of the earlier
 * run. */
static void overtake(struct ensemble *e, int64_t sequence)
{
    if (sequence <= e->service->pipeline.sequence) {
        return;
    }
    log_warn_advice("server", "clock-set-back",
                    "let an NTP client slew the clock instead of setting it",
                    "sequence=%lld unapplied=%zu", (long long)sequence, e->stats.unapplied);
    leadership_drop_clients(e->service, "the server's clock was set back");
    forget(e);
    pipeline_begin(&e->service->pipeline, sequence);
}

/* A batch of this server was applied, skipped, or not admitted because an earlier one is missing. */
static void own_is_out(struct ensemble *e, int64_t sequence)
{
    int64_t admitted = state_origin_sequence(e->service->state, e->id);
    ensemble_settle(e, admitted);
    const struct unapplied *u = oldest(e);
    assert(u == NULL || u->sequence > admitted);
    if (u != NULL && sequence > admitted && e->lost != u->sequence) {
        e->lost = u->sequence; /* only once: the batches after it arrive without it, too */
        retry_soon(e);
    }
}

/* Handles an entry, applied or skipped. Only this function reads the entry's header. */
static int take_entry(struct ensemble *e, uint64_t index, struct slice payload,
                      int (*take)(struct service *s, struct batch_reader *batch))
{
    struct batch_reader batch;
    int rc = batch_open(payload, &batch);
    if (rc != 0) {
        return rc;
    }
    bool own = batch.header.origin == e->id;
    if (own && !e->sole && e->service->serving) {
        overtake(e, batch.header.sequence);
    }
    if (own && e->replication != NULL && e->service->serving) {
        struct replication_entry_times t = replication_entry_times(e->replication, index);
        request_times_entry(e->service, t.appended_ns, t.synced_ns);
    }
    rc = take(e->service, &batch);
    if (rc != 0) {
        return rc;
    }
    if (own && !list_empty(&e->unapplied)) {
        own_is_out(e, batch.header.sequence);
    }
    digest_exchange_applied(e, index);
    return 0;
}

int ensemble_apply(struct ensemble *e, uint64_t index, struct slice payload)
{
    if (!replacement_is(payload)) {
        return take_entry(e, index, payload, service_apply);
    }
    int rc = state_replacement_begin(e->service, payload);
    if (rc == 0) {
        digest_exchange_applied(e, index);
    }
    return rc;
}

int ensemble_skip(struct ensemble *e, uint64_t index, struct slice payload)
{
    if (!replacement_is(payload)) {
        return take_entry(e, index, payload, service_skip);
    }
    digest_exchange_applied(e, index);
    return 0;
}

int ensemble_restore(struct ensemble *e, struct slice snapshot)
{
    digest_check_reset(&e->agreement);
    e->restored = true;
    int rc = service_restore(e->service, snapshot);
    if (rc == 0 && e->service->serving) {
        forget(e); /* the snapshot contains their outcome, but does not show it */
    }
    return rc;
}

void ensemble_suspend(struct ensemble *e)
{
    e->replication = NULL;
    e->role = REPLICATION_FOLLOWER;
    e->leader = 0;
    if (leadership_set(e->service, false) != 0) {
        abort(); /* fails only for a leader */
    }
    leadership_lose_contact(e->service);
}

int ensemble_resume(struct ensemble *e)
{
    struct state *state = state_create(&e->service->key);
    digest_check_reset(&e->agreement);
    int rc = state != NULL ? state_replacement_adopt(e->service, state) : CONCLAVE_ENOMEM;
    forget(e);
    return rc;
}

void ensemble_confirmed(struct ensemble *e, uint64_t ticket)
{
    leadership_confirmed(e->service, ticket);
    session_reports_confirmed(e, ticket);
}

/* Leader and members */

int ensemble_role(struct ensemble *e, enum replication_role role, uint64_t leader)
{
    bool led = e->role == REPLICATION_LEADER;
    bool leads = role == REPLICATION_LEADER;
    bool other = leader != 0 && (leader != e->leader || led != leads);
    int rc = 0;
    assert(!leads || e->replication != NULL);
    e->role = role;
    e->leader = leader;
    if (led != leads) {
        e->stats.elections += leads;
        e->leads_since_ms = clock_monotonic_ms(e->clock);
        rc = leadership_set(e->service, leads);
    }
    session_notes_leader(e->service, leader);
    if (other) {
        /* Report at once: only an acknowledgement of the new leader keeps this server in contact. */
        e->tick_at = 0;
        session_reports_leader_changed(e);
        resend(e);
    }
    return rc;
}

void ensemble_expect(struct ensemble *e, const struct configuration_member *members, size_t count)
{
    assert(count > 0 && count <= MEMBERS_MAX);
    e->n_others = 0;
    e->n_voters = 0;
    for (size_t i = 0; i < count; i++) {
        if (members[i].role == MEMBER_VOTER) {
            e->voters[e->n_voters++] = members[i].id;
        }
        if (members[i].id != (uint64_t)e->id) {
            e->others[e->n_others++] = members[i].id;
        }
    }
    assert(e->n_others + 1 >= count && e->n_voters <= count);
    e->sole = count == 1 && members[0].id == (uint64_t)e->id;
    e->service->standing.sole = e->sole;
}

int ensemble_configuration(struct ensemble *e, uint64_t index,
                           const struct configuration_member *members, size_t count)
{
    struct state_member list[MEMBERS_MAX];
    assert(count <= MEMBERS_MAX);
    for (size_t i = 0; i < count; i++) {
        list[i] = member_of_log(&members[i]);
    }
    ensemble_expect(e, members, count);
    int rc = service_configure(e->service, list, count);
    /* A change of members changes the state, so it has a digest like any entry; but the state of a snapshot is that of a
     * later entry. */
    if (rc == 0 && !e->restored) {
        digest_exchange_applied(e, index);
    }
    e->restored = false;
    return rc;
}

void ensemble_link(struct ensemble *e, uint64_t member)
{
    if (member == e->leader && e->role != REPLICATION_LEADER) {
        resend(e); /* batches on the old link may be lost */
    }
}

/* Messages */

static void take_batch(struct ensemble *e, uint64_t from, struct slice bytes)
{
    struct batch_reader reader;
    struct command command;
    struct buf batch;
    if (e->role != REPLICATION_LEADER || e->replication == NULL) {
        /* The sender may learn of the election before this leader's log is ready. */
        ensemble_message_begin(&batch, ENSEMBLE_LATER);
        ensemble_send(e, from, &batch);
        return;
    }
    if (batch_open(bytes, &reader) != 0 || reader.header.origin != (int64_t)from) {
        e->stats.refused++;
        return;
    }
    int64_t now_ms = service_time_ms(e->service);
    int rc;
    /* A write is a sign of life of its session, so the leader must not expire it now. */
    while ((rc = batch_next(&reader, &command)) == 1) {
        session_tracker_touch(e->service->sessions, command.session_id, now_ms);
    }
    if (rc != 0) {
        e->stats.refused++;
        return;
    }
    /* Commands that this leader has already decided come first, for example the end of a session. */
    leadership_submit_own(e->service);
    buf_init(&batch, 0);
    buf_append_slice(&batch, bytes);
    rc = buf_ok(&batch) ? batch_stamp_time(&batch, clock_wall_ms(e->clock)) : CONCLAVE_ENOMEM;
    if (rc == 0) {
        e->stats.taken++;
        rc = replication_submit(e->replication, &batch);
    }
    if (rc != 0) {
        buf_finish(&batch);
    }
}

bool ensemble_has_left(const struct ensemble *e, uint64_t member)
{
    return e->left == member &&
           clock_monotonic_ms(e->clock) - e->left_ms <= e->service->limits.tick_ms;
}

int ensemble_transfer(struct ensemble *e, uint64_t to)
{
    struct buf message;
    if (e->replication == NULL || e->leader == 0 || e->leader == to) {
        return e->leader != 0 && e->leader == to ? CONCLAVE_EINVAL : CONCLAVE_EBUSY;
    }
    if (e->role == REPLICATION_LEADER) {
        return replication_transfer(e->replication, to);
    }
    ensemble_message_begin(&message, ENSEMBLE_TRANSFER);
    buf_append_i64(&message, (int64_t)to);
    int rc = buf_ok(&message) ? 0 : CONCLAVE_ENOMEM;
    ensemble_send(e, e->leader, &message);
    return rc;
}

/* An administrator asked another member for the transfer. The leader logs the outcome. */
static void take_transfer(struct ensemble *e, struct slice bytes)
{
    struct wire_reader r = wire_reader_make(bytes);
    if (bytes.len != 8) {
        e->stats.refused++;
    } else if (e->role == REPLICATION_LEADER) {
        uint64_t to = (uint64_t)wire_read_i64(&r);
        int rc = to != (uint64_t)e->id ? replication_transfer(e->replication, to) : CONCLAVE_EINVAL;
        log_info("server", "transfer", "to=%llu result=%s",
                 (unsigned long long)member_number((int64_t)to),
                 rc == 0 ? "begun" : conclave_errname(rc));
    }
}

void ensemble_message(struct ensemble *e, uint64_t from, struct slice message)
{
    uint8_t kind = message.len > 0 ? message.data[0] : 0;
    struct slice rest = message.len > 0 ? slice_make(message.data + 1, message.len - 1) : message;
    switch (kind) {
    case ENSEMBLE_BATCH:
        take_batch(e, from, rest);
        break;
    case ENSEMBLE_LATER:
        if (from == e->leader) {
            retry_soon(e);
        }
        break;
    case ENSEMBLE_TRANSFER:
        take_transfer(e, rest);
        break;
    case ENSEMBLE_DIGEST:
        digest_exchange_take(e, from, rest);
        break;
    case ENSEMBLE_LEFT:
        e->left = from;
        e->left_ms = clock_monotonic_ms(e->clock);
        break;
    case ENSEMBLE_REPORT:
        session_reports_take(e, from, rest);
        break;
    case ENSEMBLE_REPORTED:
        session_reports_acknowledged(e, from, rest);
        break;
    default:
        e->stats.refused++;
        break;
    }
}

/* Regular work */

/* After a reconfig that removes this server: disconnects its clients, and tells the leader when none is left. */
static void leave(struct ensemble *e)
{
    struct buf message;
    bool leaving = e->replication != NULL && state_is_leaving(e->service->state, e->id);
    leadership_set_leaving(e->service, leaving);
    if (!leaving || e->leader == 0 || map_count(&e->service->by_session) > 0) {
        return;
    }
    ensemble_message_begin(&message, ENSEMBLE_LEFT);
    ensemble_send(e, e->leader, &message);
}

void ensemble_tick(struct ensemble *e)
{
    int64_t now_ms = clock_monotonic_ms(e->clock);
    if (now_ms >= e->retry_at) {
        resend(e);
    }
    if (!list_empty(&e->unapplied) && now_ms >= e->resend_at && e->leader != 0) {
        int64_t wait_ms = backoff_next(e->resend_wait_ms, RESEND_MAX_MS);
        resend(e);
        e->resend_wait_ms = wait_ms;
        e->resend_at = now_ms + e->resend_wait_ms;
    }
    if (!e->sole && now_ms >= e->tick_at) {
        e->tick_at = now_ms + session_reports_interval_ms(e);
        session_reports_tell(e);
        leave(e);
        if (now_ms >= e->claim_at) {
            e->claim_at = now_ms + CLAIM_MS;
            digest_exchange_tell(e);
        }
        leadership_look_at_contact(e->service);
    }
    if (e->sole &&
        e->service->standing.read_only) { /* the others were removed before they answered */
        leadership_look_at_contact(e->service);
    }
}

int64_t ensemble_deadline(const struct ensemble *e)
{
    bool waits = !list_empty(&e->unapplied) && e->leader != 0;
    int64_t at = e->sole && !e->service->standing.read_only ? INT64_MAX : e->tick_at;
    at = waits && e->resend_at < at ? e->resend_at : at;
    return e->retry_at < at ? e->retry_at : at;
}
