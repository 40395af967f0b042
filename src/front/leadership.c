#include "front/leadership.h"

#include "base/log.h"
#include "front/service.h"

#include <assert.h>

enum { CONTACT_TICKS_MAX = 2 }; /* ticks without contact after which clients are dropped */

void leadership_init(struct leadership *s)
{
    *s = (struct leadership){
        .leads = true, .sole = true, .contact_at = CONTACT_NEVER, .readable = true, .group = 1};
    list_init(&s->confirming);
    list_init(&s->waiting);
    list_init(&s->held);
    buf_init(&s->own, 0);
}

/* Leading */

struct timeout_context {
    struct service *service;
    int64_t now_ms;
    int rc;
};

static void full_timeout(void *ctx, const struct state_session *session)
{
    struct timeout_context *t = ctx;
    int rc = session_tracker_add(t->service->sessions, session->id, session->timeout_ms, t->now_ms);
    if (rc != 0) {
        t->rc = rc;
    }
}

int leadership_full_timeouts(struct service *s, int64_t now_ms)
{
    struct timeout_context t = {.service = s, .now_ms = now_ms};
    state_session_each(s->state, full_timeout, &t);
    s->collector.look_at = now_ms + s->collector.options.interval_ms;
    return t.rc;
}

int leadership_set(struct service *s, bool leads)
{
    s->standing.leads = leads;
    session_tracker_lead(s->sessions, leads);
    s->fencing = (struct fence_requests){0};
    if (leads) {
        int64_t now_ms = service_time_ms(s);
        s->notes.led_since_ms = now_ms;
        if (s->serving && !s->mirrored) {
            fence_requests_tick(s, now_ms);
            service_close_acls(s, now_ms);
        }
        return leadership_full_timeouts(s, now_ms);
    }
    s->standing.own_count = 0;
    return 0;
}

int leadership_propose(struct service *s, int64_t session_id, int32_t type, struct slice body)
{
    struct leadership *st = &s->standing;
    struct command command = {
        .session_id = session_id,
        .type = type,
        .ids = {.items = slice_str(""), .count = 0},
        .body = body,
    };
    if (st->own_count == 0) {
        struct batch_header header = {.time_ms = clock_wall_ms(s->clock)};
        st->own_first = s->pipeline.batch_count == 0;
        buf_reset(&st->own);
        batch_begin(&st->own, &header);
    }
    size_t before = st->own.len;
    batch_add(&st->own, 0, &command);
    if (!buf_ok(&st->own)) {
        st->own.failed = false;
        st->own.len = before;
        return CONCLAVE_ENOMEM;
    }
    st->own_count++;
    return 0;
}

/* Contact */

/* Drops either the read-only connections, or all others. */
static void drop_clients(struct service *s, bool read_only, const char *reason)
{
    for (struct map_node *node = map_next(&s->by_session, NULL); node != NULL;
         node = map_next(&s->by_session, node)) {
        struct connection *c = CONTAINER_OF(node, struct connection, by_id);
        if (c->read_only == read_only) {
            connection_drop(c, reason);
        }
    }
}

void leadership_drop_clients(struct service *s, const char *reason)
{
    drop_clients(s, false, reason);
    drop_clients(s, true, reason);
}

static void end_session(void *ctx, int64_t id)
{
    struct service *s = ctx;
    local_session_end(&s->locals, id);
    client_addresses_end_session(&s->addresses, id);
}

void leadership_end_read_only(struct service *s, const char *reason)
{
    drop_clients(s, true, reason);
    local_sessions_each_read_only(&s->locals, end_session, s);
}

static void look_at_read_only(struct service *s, bool lost)
{
    struct leadership *st = &s->standing;
    int64_t now_ms = clock_monotonic_ms(s->clock);
    if (!lost) {
        st->lost_ms = 0;
    } else if (st->lost_ms == 0) {
        st->lost_ms = now_ms;
    }
    bool wanted =
        lost && s->read_only_mode && st->readable && now_ms - st->lost_ms >= s->limits.tick_ms;
    if (st->read_only && !wanted) {
        st->read_only = false;
        log_info("server", "read-only-end", "text=\"there is a quorum again\"");
        if (!s->mirrored) {
            leadership_end_read_only(s, "there is a quorum again");
        }
    } else if (wanted && !st->read_only) {
        st->read_only = true;
        log_warn_advice(
            "server", "read-only", "start the missing members, or check the network between them",
            "text=\"there is no quorum: clients that accept a read-only server may read\"");
    }
}

void leadership_set_leaving(struct service *s, bool leaving)
{
    if (leaving && !s->standing.leaving) {
        log_info("server", "leaving", "clients=%zu text=\"a reconfig removed this server\"",
                 map_count(&s->by_session));
    }
    s->standing.leaving = leaving;
    for (struct map_node *node = map_next(&s->by_session, NULL); leaving && node != NULL;
         node = map_next(&s->by_session, node)) {
        connection_send_away(CONTAINER_OF(node, struct connection, by_id));
    }
}

void leadership_contact(struct service *s, int64_t at_ms)
{
    if (at_ms > s->standing.contact_at) {
        s->standing.contact_at = at_ms;
    }
}

void leadership_lose_contact(struct service *s)
{
    s->standing.contact_at = CONTACT_NEVER;
    leadership_look_at_contact(s);
}

static int64_t contact_age_ms(const struct service *s)
{
    return s->now_ns / 1000000 - s->standing.contact_at;
}

bool leadership_in_contact(const struct service *s)
{
    return !s->standing.gathering && (s->standing.sole || contact_age_ms(s) <= s->limits.tick_ms);
}

void leadership_look_at_contact(struct service *s)
{
    struct leadership *st = &s->standing;
    s->now_ns = clock_monotonic_ns(s->clock);
    bool lost = !st->sole && contact_age_ms(s) > (int64_t)CONTACT_TICKS_MAX * s->limits.tick_ms;
    if (lost) {
        st->asked = 0; /* waiting reads are dropped, or asked for again */
        st->group_used |= !list_empty(&st->waiting);
        drop_clients(s, false, "this server has no leader with a quorum");
    }
    look_at_read_only(s, lost);
}

/* Confirmed reads */

uint64_t leadership_confirm_group(struct service *s, struct connection *c)
{
    struct leadership *st = &s->standing;
    if (st->sole) {
        return 0;
    }
    st->group_used = true;
    if (list_empty(&c->confirming)) {
        list_push_back(&st->confirming, &c->confirming);
    }
    return st->group;
}

void leadership_confirmed(struct service *s, uint64_t ticket)
{
    struct leadership *st = &s->standing;
    struct list ready;
    if (st->asked == 0 || ticket < st->ticket) {
        return;
    }
    assert(st->confirmed < st->asked && st->asked < st->group);
    st->confirmed = st->asked;
    st->asked = 0;
    s->now_ns = clock_monotonic_ns(s->clock);
    struct list *node;
    list_init(&ready);
    while ((node = list_pop_front(&st->confirming)) != NULL) {
        list_push_back(&ready,
                       node); /* a connection that still waits puts itself on the list again */
    }
    while ((node = list_pop_front(&ready)) != NULL) {
        connection_resume(CONTAINER_OF(node, struct connection, confirming));
    }
    while (!list_empty(&st->waiting)) {
        struct confirmation *c = CONTAINER_OF(st->waiting.next, struct confirmation, link);
        if (c->group > st->confirmed) {
            break;
        }
        list_remove(&c->link);
        c->fn(c->ctx);
    }
}

void leadership_submit_own(struct service *s)
{
    if (s->standing.own_count > 0) {
        assert(s->standing.own.len > 0);
        s->standing.own_count = 0;
        s->pipeline.sink.submit_own(s->pipeline.sink.ctx, &s->standing.own);
    }
}

/* Whether reads wait for a ticket, and one can be requested now. */
static bool leadership_wants_ticket(const struct service *s)
{
    return s->standing.group_used && s->standing.asked == 0 && leadership_in_contact(s);
}

bool leadership_has_work(const struct service *s)
{
    const struct leadership *st = &s->standing;
    return st->own_count > 0 || pipeline_has_work(&s->pipeline) || leadership_wants_ticket(s) ||
           (!list_empty(&st->held) && leadership_in_contact(s));
}

void leadership_turn(struct service *s)
{
    struct leadership *st = &s->standing;
    struct list *node;
    bool in_contact = leadership_in_contact(s);
    while (in_contact && (node = list_pop_front(&st->held)) != NULL) {
        connection_output_added(CONTAINER_OF(node, struct connection, held));
    }
    /* Own commands were decided before or after the clients' writes of this turn: the log keeps that order. */
    if (st->own_first) {
        leadership_submit_own(s);
    }
    pipeline_turn(&s->pipeline, false);
    leadership_submit_own(s);
    assert(st->own_count == 0);
    if (!leadership_wants_ticket(s)) {
        return;
    }
    assert(st->group > st->confirmed);
    st->asked = st->group++;
    st->group_used = false;
    st->ticket = s->pipeline.sink.read_index(s->pipeline.sink.ctx);
}

/* Signs of life */

/* Looks at the session only if the last sign of life here is older than the timeout. */
static bool is_over(const struct service *s, const struct connection *c, int64_t now_ms)
{
    return !c->local && now_ms - c->touched_ms >= c->timeout_ms &&
           session_tracker_is_over(s->sessions, c->session_id, now_ms);
}

static void note_touch(struct connection *c, int64_t now_ms)
{
    if (now_ms - c->heard_ms > c->gap_ms && c->heard_ms != CONTACT_NEVER) {
        c->gap_ms = now_ms - c->heard_ms;
    }
    c->heard_ms = now_ms;
}

void leadership_touch(struct service *s, struct connection *c)
{
    int64_t now_ms = s->now_ns / 1000000;
    if (c->local) { /* the leader does not know a local session */
        session_tracker_touch(s->locals.alive, c->session_id, now_ms);
        note_touch(c, now_ms);
        return;
    }
    if (c->touched_ms != now_ms && leadership_in_contact(s) && !is_over(s, c, now_ms) &&
        session_tracker_touch(s->sessions, c->session_id, now_ms)) {
        c->touched_ms = now_ms;
        note_touch(c, now_ms);
    }
}

bool leadership_may_answer(struct service *s, struct connection *c)
{
    if (c->mapped && c->stage == CONNECTION_SERVING && is_over(s, c, s->now_ns / 1000000)) {
        connection_drop(c, "its session was silent for its whole timeout");
        return false;
    }
    return true;
}

bool leadership_may_send(struct service *s, struct connection *c)
{
    if (!c->mapped || c->read_only || c->out.len == 0) {
        return true;
    }
    s->now_ns = clock_monotonic_ns(s->clock);
    if (!leadership_in_contact(s)) {
        if (c->stage == CONNECTION_CLOSING) {
            connection_end(c);
        } else if (list_empty(&c->held)) {
            list_push_back(&s->standing.held, &c->held);
        }
        return false;
    }
    if (c->answered) {
        if (!leadership_may_answer(s, c)) {
            return false;
        }
        c->answered = false;
        leadership_touch(s, c);
    }
    return true;
}

void leadership_touch_waiting(struct service *s)
{
    s->now_ns = clock_monotonic_ns(s->clock);
    if (s->deferred != NULL && s->deferred->connection != NULL) {
        leadership_touch(s, s->deferred->connection);
    }
    LIST_FOREACH (it, &s->pipeline.flight) {
        struct pending *entry = CONTAINER_OF(it, struct pending, flight);
        if (entry->connection != NULL && entry->connection->mapped) {
            leadership_touch(s, entry->connection);
        }
    }
    LIST_FOREACH (at, &s->standing.confirming) {
        leadership_touch(s, CONTAINER_OF(at, struct connection, confirming));
    }
    LIST_FOREACH (on, &s->throttled) {
        leadership_touch(s, CONTAINER_OF(on, struct connection, throttled));
    }
}
