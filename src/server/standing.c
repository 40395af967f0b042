#include "server/standing.h"

#include "base/log.h"
#include "server/service.h"

#include <assert.h>

enum { CONTACT_TICKS_MAX = 2 }; /* ticks without contact after which clients are dropped */

void standing_init(struct standing *s)
{
    *s = (struct standing){
        .leads = true, .sole = true, .in_contact = true, .readable = true, .group = 1};
    list_init(&s->confirming);
    list_init(&s->waiting);
    list_init(&s->touched);
    buf_init(&s->own, 0);
}

void standing_finish(struct standing *s)
{
    buf_finish(&s->own);
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

int service_full_timeouts(struct service *s, int64_t now_ms)
{
    struct timeout_context t = {.service = s, .now_ms = now_ms};
    state_session_each(s->state, full_timeout, &t);
    collector_begin(&s->collector, now_ms);
    return t.rc;
}

int service_lead(struct service *s, bool leads)
{
    s->standing.leads = leads;
    s->fencing = (struct fencing){0};
    if (leads) {
        int64_t now_ms = service_time_ms(s);
        if (s->serving) {
            fencing_tick(s, now_ms);
        }
        return service_full_timeouts(s, now_ms);
    }
    s->standing.own_count = 0;
    return 0;
}

int service_propose(struct service *s, int64_t session_id, int32_t type, struct slice body)
{
    struct standing *st = &s->standing;
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

/* Drops either the read-only connections or all others. */
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

void service_drop_clients(struct service *s, const char *reason)
{
    drop_clients(s, false, reason);
    drop_clients(s, true, reason);
}

static void end_session(void *ctx, int64_t id)
{
    struct service *s = ctx;
    local_session_end(&s->locals, id);
    addresses_end_session(&s->addresses, id);
}

/* Ends all read-only connections and sessions: their clients can reach a quorum again. */
static void end_read_only(struct service *s)
{
    s->standing.read_only = false;
    log_info("server", "read-only-end", "text=\"there is a quorum again\"");
    drop_clients(s, true, "there is a quorum again");
    local_sessions_each_read_only(&s->locals, end_session, s);
}

static void look_at_read_only(struct service *s, bool lost)
{
    struct standing *st = &s->standing;
    int64_t now_ms = clock_monotonic_ms(s->clock);
    if (!lost) {
        st->lost_ms = 0;
    } else if (st->lost_ms == 0) {
        st->lost_ms = now_ms;
    }
    bool wanted =
        lost && s->read_only_mode && st->readable && now_ms - st->lost_ms >= s->limits.tick_ms;
    if (st->read_only && !wanted) {
        end_read_only(s);
    } else if (wanted && !st->read_only) {
        st->read_only = true;
        log_warn("server", "read-only",
                 "text=\"there is no quorum: clients that ask for it may read\"");
    }
}

void service_set_leaving(struct service *s, bool leaving)
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

void service_set_contact(struct service *s, int64_t contact_ms)
{
    struct standing *st = &s->standing;
    st->in_contact = contact_ms <= s->limits.tick_ms;
    if (contact_ms > (int64_t)CONTACT_TICKS_MAX * s->limits.tick_ms) {
        st->asked = 0; /* those who waited go, or are asked for again */
        st->group_used |= !list_empty(&st->waiting);
        drop_clients(s, false, "this server has no leader with a quorum");
    }
    look_at_read_only(s, contact_ms > (int64_t)CONTACT_TICKS_MAX * s->limits.tick_ms);
}

/* Confirmed reads */

uint64_t service_confirm_group(struct service *s, struct connection *c)
{
    struct standing *st = &s->standing;
    if (st->sole) {
        return 0;
    }
    st->group_used = true;
    if (list_empty(&c->confirming)) {
        list_push_back(&st->confirming, &c->confirming);
    }
    return st->group;
}

void service_confirmed(struct service *s, uint64_t ticket)
{
    struct standing *st = &s->standing;
    struct list ready;
    if (st->asked == 0 || ticket < st->ticket) {
        return;
    }
    st->confirmed = st->asked;
    st->asked = 0;
    s->now_ns = clock_monotonic_ns(s->clock);
    struct list *node;
    list_init(&ready);
    while ((node = list_pop_front(&st->confirming)) != NULL) {
        list_push_back(&ready, node); /* who still waits puts itself on the list again */
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

static void submit_own(struct service *s)
{
    if (s->standing.own_count > 0) {
        s->standing.own_count = 0;
        s->pipeline.sink.submit_own(s->pipeline.sink.ctx, &s->standing.own);
    }
}

void service_standing_turn(struct service *s)
{
    struct standing *st = &s->standing;
    if (st->own_first) {
        submit_own(s);
    }
    pipeline_turn(&s->pipeline, false);
    submit_own(s);
    if (!st->group_used || st->asked != 0 || !st->in_contact) {
        return;
    }
    st->asked = st->group++;
    st->group_used = false;
    st->ticket = s->pipeline.sink.read_index(s->pipeline.sink.ctx);
}

/* Signs of life */

void service_note_touch(struct service *s, struct connection *c)
{
    if (!s->standing.leads && list_empty(&c->touched)) {
        list_push_back(&s->standing.touched, &c->touched);
    }
}

size_t service_take_touches(struct service *s, struct buf *out)
{
    size_t count = 0;
    struct list *node;
    if (s->deferred != NULL && s->deferred->connection != NULL) {
        service_note_touch(s, s->deferred->connection); /* its silence is ours */
    }
    while ((node = list_pop_front(&s->standing.touched)) != NULL) {
        const struct connection *c = CONTAINER_OF(node, struct connection, touched);
        buf_append_i64(out, c->session_id);
        count++;
    }
    return count;
}
