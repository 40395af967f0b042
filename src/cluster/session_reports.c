#include "cluster/session_reports.h"

#include "base/random.h"
#include "cluster/ensemble.h"

#include <assert.h>
#include <stdlib.h>

enum {
    INTERVALS_PER_TICK = 8,
    INTERVAL_MAX_MS = 125,
    DRIFT_PART = 512, /* clocks differ in rate by at most 1 / DRIFT_PART */
    ROUNDING_MS = 2,
    SIGN_BYTES = 8 + 4,
};

/* By how much a time of `ms` may be longer on another server's clock. */
static int64_t drift_ms(int64_t ms)
{
    return ms / DRIFT_PART + ROUNDING_MS;
}

static int64_t now_ms(const struct ensemble *e)
{
    return clock_monotonic_ms(e->clock);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void session_reports_begin_life(struct ensemble *e)
{
    struct session_reports *r = &e->reports;
    random_bytes(&r->life, sizeof r->life);
    r->generation = e->service->generation;
    r->born_ms = now_ms(e);
}

void session_reports_finish(struct ensemble *e)
{
    free(e->reports.reporters);
}

void session_reports_leader_changed(struct ensemble *e)
{
    struct session_reports *r = &e->reports;
    r->known_ms = 0;
    r->own.number = 0;
    r->n_reporters = 0;
    if (e->role == REPLICATION_LEADER) {
        r->since_ms = now_ms(e);
        r->since_own_ms = session_tracker_own_ms(e->service->sessions, r->since_ms);
    }
}

int64_t session_reports_interval_ms(const struct ensemble *e)
{
    int64_t ms = e->service->limits.tick_ms / INTERVALS_PER_TICK + 1;
    return ms < INTERVAL_MAX_MS ? ms : INTERVAL_MAX_MS;
}

/* On a server that reports */

struct composing {
    struct buf *message;
    int64_t now_ms;
};

static void add_sign(void *ctx, int64_t id, int64_t heard_ms)
{
    const struct composing *c = ctx;
    int64_t age_ms = c->now_ms - heard_ms;
    buf_append_i64(c->message, id);
    buf_append_i32(c->message, age_ms < INT32_MAX ? (int32_t)age_ms : INT32_MAX);
}

static void send_report(struct ensemble *e)
{
    struct session_reports *r = &e->reports;
    struct buf message;
    struct composing composing = {&message, now_ms(e)};
    assert(e->leader != 0 && e->role != REPLICATION_LEADER);
    if (r->generation != e->service->generation) {
        session_reports_begin_life(e); /* a replaced state has a new record of sessions */
    }
    ensemble_message_begin(&message, ENSEMBLE_REPORT);
    buf_append_i64(&message, (int64_t)r->life);
    buf_append_i32(&message, (int32_t)++r->number);
    buf_append_i64(&message, composing.now_ms);
    buf_append_i64(&message, composing.now_ms - r->born_ms);
    buf_append_i32(&message, e->service->limits.tick_ms);
    buf_append_i64(&message, r->known_term);
    buf_append_i64(&message, r->known_ms);
    session_tracker_report(e->service->sessions, r->number, add_sign, &composing);
    ensemble_send(e, e->leader, &message);
}

void session_reports_acknowledged(struct ensemble *e, uint64_t from, struct slice bytes)
{
    struct session_reports *r = &e->reports;
    struct wire_reader reader = wire_reader_make(bytes);
    uint64_t life = (uint64_t)wire_read_i64(&reader);
    uint32_t number = (uint32_t)wire_read_i32(&reader);
    int64_t sent_ms = wire_read_i64(&reader);
    int64_t term = wire_read_i64(&reader);
    int64_t leader_ms = wire_read_i64(&reader);
    if (bytes.len != 8 + 4 + 8 + 8 + 8 || number > r->number || sent_ms > now_ms(e)) {
        e->stats.refused++;
        return;
    }
    if (life != r->life || r->generation != e->service->generation || e->replication == NULL) {
        return;
    }
    /* Valid even if another server leads by now: when the sender asked, a majority knew of no newer leader. */
    session_tracker_reported(e->service->sessions, number);
    leadership_contact(e->service, sent_ms);
    if (from == e->leader) {
        r->known_term = term;
        r->known_ms = leader_ms;
    }
}

/* On the leader */

static struct reporter *find_reporter(const struct session_reports *r, uint64_t id)
{
    for (size_t i = 0; i < r->n_reporters; i++) {
        if (r->reporters[i].id == id) {
            return &r->reporters[i];
        }
    }
    return NULL;
}

static struct reporter *add_reporter(struct session_reports *r, uint64_t id)
{
    if (!array_room(&r->reporters, r->n_reporters, &r->cap_reporters, sizeof *r->reporters)) {
        return NULL; /* out of memory: the server will report again */
    }
    r->reporters[r->n_reporters] = (struct reporter){.id = id};
    return &r->reporters[r->n_reporters++];
}

/* When a server that has not reported in this life may have sent its last answer, at the latest. */
static int64_t unheard_ms(const struct ensemble *e)
{
    int64_t grace_ms = e->service->limits.tick_ms;
    return e->reports.since_ms + grace_ms + drift_ms(grace_ms);
}

struct report {
    uint64_t life;
    struct report_name name;
    int64_t born_age_ms;
    int32_t grace_ms;
    int64_t known_term;
    int64_t known_ms;
};

static bool read_report(struct wire_reader *reader, struct report *ret)
{
    *ret = (struct report){.life = (uint64_t)wire_read_i64(reader)};
    ret->name.number = (uint32_t)wire_read_i32(reader);
    ret->name.sent_ms = wire_read_i64(reader);
    ret->born_age_ms = wire_read_i64(reader);
    ret->grace_ms = wire_read_i32(reader);
    ret->known_term = wire_read_i64(reader);
    ret->known_ms = wire_read_i64(reader);
    return ret->name.number != 0 && ret->grace_ms >= 0 && ret->born_age_ms >= 0 &&
           wire_left(reader) % SIGN_BYTES == 0;
}

/* The sessions that a server may have answered in an earlier life. */
struct life_end {
    const struct ensemble *e;
    int64_t owner;
    int64_t began_ms;
    int64_t end_ms;
};

static void end_life_of(void *ctx, const struct state_session *session)
{
    const struct life_end *end = ctx;
    if (session->owner == end->owner) {
        session_tracker_extend(end->e->service->sessions, session->id, end->began_ms, end->end_ms);
    }
}

/* A server has begun another life, at `now` at the latest. Until then, or until it lost contact, it may have answered
 * its sessions. Sessions that it got after that life are left as they are. */
static void end_life(const struct ensemble *e, const struct reporter *p, int64_t now)
{
    int64_t contact_ms = p->heard_ms + p->grace_ms + drift_ms(p->grace_ms);
    struct life_end end = {.e = e,
                           .owner = (int64_t)p->id,
                           .began_ms = p->began_ms,
                           .end_ms = contact_ms < now ? contact_ms : now - 1};
    state_session_each(e->service->state, end_life_of, &end);
}

/* Handles the first report of a life. */
static void begin_reporter(const struct ensemble *e, struct reporter *p, const struct report *r,
                           bool known)
{
    int64_t now = now_ms(e);
    int64_t born_ms = now - r->born_age_ms + drift_ms(r->born_age_ms);
    int64_t floor_ms = CONTACT_NEVER;
    if (known) {
        end_life(e, p, now);
        floor_ms = p->floor_ms;
    } else if (born_ms > e->reports.since_ms) {
        floor_ms = unheard_ms(e);
    }
    *p = (struct reporter){
        .id = p->id,
        .life = r->life,
        .floor_ms = floor_ms,
        .began_ms = known ? now : CONTACT_NEVER,
        .complete_ms = CONTACT_NEVER,
        .sent_ms = r->name.sent_ms,
    };
}

/* The time until which this report and earlier ones contain all answers of the server. */
static int64_t complete_until(const struct ensemble *e, const struct reporter *p,
                              const struct report *r, int64_t now)
{
    int64_t passed_ms = r->name.sent_ms - p->sent_ms;
    int64_t complete_ms = p->complete_ms;
    if (passed_ms > 0 && complete_ms != CONTACT_NEVER) {
        complete_ms = later(complete_ms, complete_ms + passed_ms - drift_ms(passed_ms));
    }
    if (r->known_ms > 0 && r->known_term == (int64_t)replication_term(e->replication)) {
        complete_ms = later(complete_ms, r->known_ms);
    }
    return complete_ms < now ? complete_ms : now;
}

void session_reports_take(struct ensemble *e, uint64_t from, struct slice bytes)
{
    struct wire_reader reader = wire_reader_make(bytes);
    struct report r;
    if (!read_report(&reader, &r)) {
        e->stats.refused++;
        return;
    }
    if (e->role != REPLICATION_LEADER || e->replication == NULL) {
        return; /* the server will report again, to the leader that it then knows */
    }
    struct reporter *p = find_reporter(&e->reports, from);
    bool known = p != NULL;
    if (!known && (p = add_reporter(&e->reports, from)) == NULL) {
        return;
    }
    if (p->life != r.life || !known) {
        begin_reporter(e, p, &r, known);
    }
    int64_t now = service_time_ms(e->service);
    while (wire_left(&reader) >= SIGN_BYTES) {
        int64_t id = wire_read_i64(&reader);
        int64_t age_ms = wire_read_i32(&reader);
        session_tracker_touch(e->service->sessions, id, now - later(age_ms, 0));
    }
    p->grace_ms = r.grace_ms;
    p->heard_ms = now;
    p->heard_own_ms = session_tracker_own_ms(e->service->sessions, now);
    p->complete_ms = complete_until(e, p, &r, now);
    p->sent_ms = later(p->sent_ms, r.name.sent_ms);
    /* At most one round per server: a report that arrives meanwhile waits for the next one. */
    if (p->asked.number != 0) {
        p->next = r.name;
    } else {
        p->asked = r.name;
        p->ticket = replication_read_index(e->replication);
    }
}

static void acknowledge(struct ensemble *e, const struct reporter *p)
{
    struct buf message;
    assert(p->asked.number != 0);
    ensemble_message_begin(&message, ENSEMBLE_REPORTED);
    buf_append_i64(&message, (int64_t)p->life);
    buf_append_i32(&message, (int32_t)p->asked.number);
    buf_append_i64(&message, p->asked.sent_ms);
    buf_append_i64(&message, (int64_t)replication_term(e->replication));
    buf_append_i64(&message, now_ms(e));
    ensemble_send(e, p->id, &message);
}

void session_reports_confirmed(struct ensemble *e, uint64_t ticket)
{
    struct session_reports *r = &e->reports;
    if (e->role != REPLICATION_LEADER || e->replication == NULL) {
        return;
    }
    bool serves = !e->service->standing.gathering; /* else no server may answer clients */
    if (r->own.number != 0 && ticket >= r->own_ticket) {
        r->own.number = 0;
        leadership_contact(e->service, serves ? r->own.sent_ms : CONTACT_NEVER);
    }
    for (size_t i = 0; i < r->n_reporters; i++) {
        struct reporter *p = &r->reporters[i];
        assert(p->next.number == 0 || p->asked.number != 0);
        if (p->asked.number == 0 || ticket < p->ticket) {
            continue;
        }
        if (serves) {
            acknowledge(e, p);
        }
        p->asked = p->next;
        p->next.number = 0;
        if (p->asked.number != 0) {
            p->ticket = replication_read_index(e->replication);
        }
    }
}

int64_t session_reports_expiry_wait(struct ensemble *e, int64_t owner, int64_t heard_ms,
                                    int32_t timeout_ms)
{
    const struct session_reports *r = &e->reports;
    const struct reporter *p = find_reporter(r, (uint64_t)owner);
    int64_t over_ms = timeout_ms + drift_ms(timeout_ms);
    if (p != NULL && p->complete_ms >= later(heard_ms, p->floor_ms) + over_ms) {
        return 0;
    }
    if (p != NULL && heard_ms < p->began_ms) {
        return later(later(heard_ms, p->floor_ms) + over_ms - now_ms(e), 0);
    }
    int64_t grace_ms = p != NULL ? p->grace_ms : e->service->limits.tick_ms;
    int64_t last_ms = p != NULL ? p->heard_own_ms : r->since_own_ms;
    int64_t now = session_tracker_own_ms(e->service->sessions, now_ms(e));
    int64_t left_ms = last_ms + grace_ms + drift_ms(grace_ms) + over_ms - now;
    if (left_ms <= 0) {
        return 0;
    }
    /* The report may only be late. The longer the server is silent, the less often the leader checks. */
    int64_t again_ms = later(session_reports_interval_ms(e) / 2 + 1, now - last_ms);
    return again_ms < left_ms ? again_ms : left_ms;
}

void session_reports_ages(const struct ensemble *e, int64_t owner, int64_t *ret_report_ms,
                          int64_t *ret_reborn_ms)
{
    const struct reporter *p = find_reporter(&e->reports, (uint64_t)owner);
    /* The time of the decision, against which a session's silence is held: a later look at the clock differs. */
    int64_t now = e->service->now_ns / 1000000;
    if (p != NULL) {
        *ret_report_ms = later(now - p->heard_ms, 0);
        *ret_reborn_ms =
            p->began_ms != CONTACT_NEVER ? later(now - p->began_ms, 0) : *ret_reborn_ms;
    }
}

/* Regular work */

void session_reports_tell(struct ensemble *e)
{
    struct session_reports *r = &e->reports;
    if (e->replication == NULL || e->leader == 0) {
        return;
    }
    leadership_touch_waiting(e->service);
    if (e->role != REPLICATION_LEADER) {
        send_report(e);
    } else if (r->own.number == 0) {
        r->own = (struct report_name){1, now_ms(e)};
        r->own_ticket = replication_read_index(e->replication);
    }
}
