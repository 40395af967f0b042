/* The parts that a candidate of an election adds to the contender (contender.h). */
#include "recipes/hold/election.h"

#include "base/backoff.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

static bool election_leaving(const struct contender *c)
{
    const struct conclave_election *e = CONTAINER_OF(c, struct conclave_election, c);
    return c->closing.ending || e->resign != RESIGN_NONE;
}

/* --- the way to a grant ----------------------------------------------------------- */

static void election_out(struct contender *c)
{
    struct conclave_election *e = election_of(c);
    if (e->resign != RESIGN_NONE) {
        e->parked = e->resign == RESIGN_PARK;
        e->resign = RESIGN_NONE;
    }
    if (!e->parked && !e->options.observe_only && recipes_connected(election_rt(e)) &&
        contender_may_join(c)) {
        e->data_dirty = false;
        contender_join(c, NAME_PLAIN, e->data, e->data_len);
        c->create.node.no_wait = e->options.no_wait;
    }
}

static void election_joined(struct contender *c)
{
    election_of(c)->regrant = false;
}

static void election_not_joined(struct contender *c, int error)
{
    contender_enter(c, CONTENDER_OUT);
    if (error == CONCLAVE_EBUSY) {
        contender_end(c, error); /* no_wait */
    } else if (error != CONCLAVE_ECANCELED) {
        contender_trouble(c, error);
    }
}

/* Another is before it. */
static bool election_wait_in_line(struct place *place)
{
    struct contender *c = CONTAINER_OF(place, struct contender, place);
    if (!election_of(c)->options.no_wait) {
        return true;
    }
    contender_end(c, CONCLAVE_EBUSY);
    return false;
}

/* A leader steps down as if it had resigned; who waits joins again, at the end. */
static bool election_pass(struct place *place)
{
    struct contender *c = CONTAINER_OF(place, struct contender, place);
    struct conclave_election *e = election_of(c);
    bool granted = contender_is_granted(c);
    if (granted ? !e->options.requeue : e->options.no_wait) {
        contender_end(c, granted ? CONCLAVE_ECANCELED : CONCLAVE_EBUSY);
    } else if (e->resign == RESIGN_NONE) {
        e->resign = RESIGN_REQUEUE;
    }
    return true;
}

static const struct place_class election_place_class = {
    .judge = place_judge_first,
    .free = contender_place_free,
    .gone = contender_place_gone,
    .trouble = contender_place_trouble,
    .wait = election_wait_in_line,
    .pass = election_pass,
};

/* The lease is proved while the takeover is checked; every proof starts this check again. */
static bool election_ready(struct contender *c)
{
    struct conclave_election *e = election_of(c);
    if (c->state == CONTENDER_FIRST) {
        election_take_over(e, TAKEOVER_UNKNOWN);
        if (e->options.takeover_delay_ms == 0) {
            election_take_over(e, TAKEOVER_DONE);
        }
        return true;
    }
    if (e->takeover != TAKEOVER_DONE) {
        election_takeover_run(e);
        return false;
    }
    return true;
}

/* --- the lead --------------------------------------------------------------------- */

static int election_begin(struct contender *c)
{
    struct conclave_election *e = election_of(c);
    struct conclave_token token = {c->token};
    bool regrant = e->regrant;
    if (e->callbacks.on_elected == NULL) {
        return 0;
    }
    client_unlock(contender_client(c));
    int answer = e->callbacks.on_elected(e, token, regrant, c->ctx);
    client_lock(contender_client(c));
    return answer;
}

/* on_elected has failed: back into the queue, later each time, or out. */
static void election_declined(struct conclave_election *e)
{
    struct contender *c = &e->c;
    int64_t pause_ms =
        backoff_pause(e->options.backoff_min_ms, e->options.backoff_max_ms, e->failures);
    e->failures++;
    c->not_before_ns = client_after_ns(contender_client(c), pause_ms);
    if (!e->options.requeue) {
        contender_end(c, CONCLAVE_ECANCELED);
    } else if (e->resign == RESIGN_NONE) {
        e->resign = RESIGN_REQUEUE;
    }
}

static void election_began(struct contender *c, int answer)
{
    struct conclave_election *e = election_of(c);
    e->regrant = c->node != NULL;
    if (answer == 0) {
        e->failures = 0;
    }
    if (c->state != CONTENDER_HELD) {
        return; /* revoked meanwhile */
    }
    if (answer != 0) {
        election_declined(e);
    } else if (e->options.ack) {
        e->ack_wanted = true; /* else the user may have asked for it already */
    }
}

static void election_held(struct contender *c)
{
    struct conclave_election *e = election_of(c);
    if (!machine_pauses(&c->machine)) {
        place_run(&c->place, false);
    }
    election_data_run(e);
    if (e->ack_wanted && c->state == CONTENDER_HELD) {
        election_ack_run(e);
    }
}

static void election_revoked(struct contender *c)
{
    struct conclave_election *e = election_of(c);
    e->stopped_clean = false;
    e->ack_wanted = false;
}

static void election_revoke_end(struct contender *c, int why, int64_t stop_within_ms)
{
    struct conclave_election *e = election_of(c);
    if (e->callbacks.on_revoked != NULL) {
        client_unlock(contender_client(c));
        e->callbacks.on_revoked(e, why, stop_within_ms, c->ctx);
        client_lock(contender_client(c));
    }
    e->stopped_clean = c->node != NULL;
}

/* The outcome of the candidacy. */
static void election_stopped(struct contender *c)
{
    struct conclave_election *e = election_of(c);
    bool lapsed = c->stop_why == CONCLAVE_ELOST && c->node != NULL;
    if (!election_leaving(c)) {
        if (lapsed && (c->state == CONTENDER_GRANTED || e->options.regrant)) {
            contender_enter(c, CONTENDER_WAITING);
            return;
        }
        if (!e->options.requeue) {
            contender_end(c, c->stop_why);
        }
    }
    contender_enter(c, CONTENDER_LEAVING);
}

/* --- the end of node and session ----------------------------------------------------- */

static void election_gone(struct contender *c, int why)
{
    struct conclave_election *e = election_of(c);
    e->regrant = false;
    if (why != CONCLAVE_ELOST) {
        e->acked = false; /* went with the session */
        e->marked = false;
    } else {
        /* Somebody deletes our nodes: not a reason to make new ones without end. */
        int64_t now = client_now_ns(contender_client(c));
        if (e->lost_ns != 0 && now < clock_add_ms(e->lost_ns, e->options.backoff_min_ms)) {
            c->not_before_ns = clock_add_ms(now, e->options.backoff_min_ms);
        }
        e->lost_ns = now;
    }
    if (contender_is_queued(c) && !e->options.requeue && !election_leaving(c)) {
        contender_end(c, why);
    }
}

static bool election_is_clear(struct contender *c)
{
    observer_stop(&election_of(c)->observer);
    return true;
}

static void election_session_ended(struct contender *c)
{
    struct conclave_election *e = election_of(c);
    e->acked = false; /* went with the session, though the node may have gone before */
    e->marked = false;
    e->ack_unknown = false;
}

static void election_on_state(struct contender *c, enum conclave_state state)
{
    observer_on_state(&election_of(c)->observer, state);
}

static void election_after_run(struct contender *c)
{
    struct conclave_election *e = election_of(c);
    if (contender_is_queued(c) && recipes_connected(election_rt(e))) {
        election_data_run(e);
    }
    observer_run(&e->observer);
}

/* --- callbacks and handle ------------------------------------------------------------ */

static bool election_tell_leader(struct contender *c)
{
    return c->state != CONTENDER_CLOSED && observer_tell(&election_of(c)->observer);
}

static void election_closed(void *self, int why)
{
    struct conclave_election *e = self;
    if (e->callbacks.on_closed != NULL) {
        e->callbacks.on_closed(e, why, e->c.ctx);
    }
}

static void election_init(struct contender *c)
{
    struct conclave_election *e = election_of(c);
    observer_init(&e->observer, e);
    election_ack_init(e);
}

static void election_finish(struct contender *c)
{
    struct conclave_election *e = election_of(c);
    ensure_path_finish(&e->ack_dir);
    watch_slot_clear(&e->ack_watch);
    observer_finish(&e->observer);
    client_timer_stop(election_rt(e)->client, &e->delay);
}

const struct contender_class election_class = {
    .size = sizeof(struct conclave_election),
    .place = &election_place_class,
    .copy = election_copy,
    .init = election_init,
    .arrows =
        {
            [CONTENDER_JOINING] = CONTENDER_TO(OUT),
            [CONTENDER_FIRST] = CONTENDER_TO(WAITING) | CONTENDER_TO(PROVING),
            [CONTENDER_PROVING] = CONTENDER_TO(WAITING) | CONTENDER_TO(GRANTED),
            [CONTENDER_GRANTED] = CONTENDER_TO(WAITING),
            [CONTENDER_ENDING] = CONTENDER_TO(WAITING),
        },
    .leaving = election_leaving,
    .out = election_out,
    .joined = election_joined,
    .not_joined = election_not_joined,
    .ready = election_ready,
    .begin = election_begin,
    .began = election_began,
    .held = election_held,
    .revoked = election_revoked,
    .end = election_revoke_end,
    .stopped = election_stopped,
    .gone = election_gone,
    .leave = election_leave,
    .is_clear = election_is_clear,
    .session_ended = election_session_ended,
    .on_state = election_on_state,
    .after_run = election_after_run,
    .tell_last = election_tell_leader,
    .closed = election_closed,
    .finish = election_finish,
    .free_copies = election_free_copies,
};
