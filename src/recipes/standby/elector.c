/* The parts that an elector adds to the contender (contender.h): health, reports and callbacks. */
#include "recipes/standby/elector.h"

#include "base/backoff.h"

#include <assert.h>
#include <stdlib.h>

/* --- states ---------------------------------------------------------------------- */

static const uint16_t elector_next[] = {
    [ELECTOR_READING] = TRANSITION_TO(ELECTOR_FENCING) | TRANSITION_TO(ELECTOR_MARKING),
    [ELECTOR_FENCING] = TRANSITION_TO(ELECTOR_READING),
    [ELECTOR_MARKING] = TRANSITION_TO(ELECTOR_READING),
};

void elector_prepare(struct conclave_elector *e, enum elector_step step)
{
    assert(e->c.state == CONTENDER_PREPARING);
    transition_check(elector_next, e->step, step);
    assert(step != ELECTOR_FENCING || (e->crumb_exists && !e->old.clean));
    e->step = step;
    machine_run_again(&e->c.machine);
}

/* Fencing for a lost lock is still at work: wait until it has ended. */
static bool elector_fences_in_vain(const struct conclave_elector *e)
{
    return e->fence_running && e->fence_generation != e->c.generation;
}

/* For a moment: the last report stays valid, if it can. */
static enum conclave_elector_state elector_state_as_told(const struct conclave_elector *e)
{
    return !recipes_connected(elector_rt(e)) || e->told == CONCLAVE_ELECTOR_ACTIVE ||
                   elector_fences_in_vain(e)
               ? CONCLAVE_ELECTOR_NEUTRAL
               : e->told;
}

enum conclave_elector_state elector_state(const struct conclave_elector *e)
{
    switch (e->c.state) {
    case CONTENDER_WAITING:
    case CONTENDER_FIRST:
        return recipes_connected(elector_rt(e)) ? CONCLAVE_ELECTOR_STANDBY
                                                : CONCLAVE_ELECTOR_NEUTRAL;
    case CONTENDER_PREPARING:
        if (e->step == ELECTOR_FENCING) {
            return elector_fences_in_vain(e) ? CONCLAVE_ELECTOR_NEUTRAL : CONCLAVE_ELECTOR_FENCING;
        }
        return elector_state_as_told(e);
    case CONTENDER_JOINING:
    case CONTENDER_PROVING:
        return elector_state_as_told(e);
    case CONTENDER_GRANTED:
    case CONTENDER_STARTING:
    case CONTENDER_HELD:
    case CONTENDER_INTERRUPTED:
    case CONTENDER_STOPPING:
    case CONTENDER_ENDING:
        return CONCLAVE_ELECTOR_ACTIVE;
    case CONTENDER_OUT:
        if (e->observer && recipes_connected(elector_rt(e))) {
            return CONCLAVE_ELECTOR_OBSERVER;
        }
        return e->connected ? CONCLAVE_ELECTOR_NEUTRAL : CONCLAVE_ELECTOR_INIT;
    default:
        return e->connected ? CONCLAVE_ELECTOR_NEUTRAL : CONCLAVE_ELECTOR_INIT;
    }
}

bool elector_leaving(const struct contender *c)
{
    const struct conclave_elector *e = CONTAINER_OF(c, struct conclave_elector, c);
    return c->closing.ending || e->ceding || e->giving_up || e->observer ||
           e->health != CONCLAVE_HEALTH_HEALTHY || elector_handed_over(e);
}

void elector_give_up(struct conclave_elector *e, const char *reason)
{
    int64_t pause_ms =
        backoff_pause(e->options.backoff_min_ms, e->options.backoff_max_ms, e->failures);
    e->failures++;
    e->giving_up = true;
    e->reason = reason;
    e->c.not_before_ns = client_after_ns(elector_rt(e)->client, pause_ms);
}

/* --- the lock is gone --------------------------------------------------------------- */

static void elector_forget_lock(struct conclave_elector *e)
{
    e->maybe = false;
    if (!e->lock_watch.pending) {
        watch_slot_clear(&e->lock_watch);
    }
}

static void elector_gone(struct contender *c, int why)
{
    elector_forget_lock(elector_of(c));
}

/* Without a node there may be one whose creation was not answered. */
static void elector_session_ended(struct contender *c)
{
    struct conclave_elector *e = elector_of(c);
    if (e->maybe) {
        c->generation++;
        elector_forget_lock(e);
    }
}

void elector_lock_gone(struct conclave_elector *e, int why)
{
    contender_node_gone(&e->c, why);
    elector_session_ended(&e->c);
}

/* --- the way to a grant ----------------------------------------------------------- */

static void elector_out(struct contender *c)
{
    struct conclave_elector *e = elector_of(c);
    e->ceding = false;
    e->giving_up = false;
    if (elector_leaving(c) || !recipes_connected(elector_rt(e))) {
        return;
    }
    if (client_now_ns(contender_client(c)) < c->not_before_ns) {
        client_timer_start(contender_client(c), &e->stay_out, c->not_before_ns);
    } else if (contender_may_join(c)) {
        contender_enter(c, CONTENDER_JOINING);
    }
}

static void elector_on_stayed_out(struct conclave_client *client, void *ctx)
{
    contender_run(&((struct conclave_elector *)ctx)->c);
}

/* The lease is that of the breadcrumb as it was written. */
static void elector_prove(struct conclave_elector *e)
{
    struct contender *c = &e->c;
    if (!c->holder.added) {
        c->holder.version = e->crumb_version;
        contender_add_lease(c);
    } else if (c->holder.until_ns != 0 && elector_lock_verified(e)) {
        contender_grant(c);
    }
}

/* In PREPARING and PROVING: the lock is ours. */
static void elector_run_holding(struct conclave_elector *e)
{
    struct contender *c = &e->c;
    if (elector_leaving(c)) {
        lease_remove(&elector_rt(e)->lease, &c->holder);
        contender_enter(c, CONTENDER_LEAVING);
        return;
    }
    if (!recipes_connected(elector_rt(e))) {
        return; /* no caller sees the lease yet; requests in flight end first */
    }
    elector_held(c);
    if (c->state == CONTENDER_PROVING) {
        elector_prove(e);
    } else if (e->step == ELECTOR_READING) {
        elector_read_run(e);
    } else if (e->step == ELECTOR_FENCING) {
        elector_fence_run(e);
    } else {
        elector_mark_run(e);
    }
}

static bool elector_run_own(struct contender *c)
{
    struct conclave_elector *e = elector_of(c);
    elector_handed_run(e);
    switch (c->state) {
    case CONTENDER_JOINING:
    case CONTENDER_WAITING:
    case CONTENDER_FIRST:
        elector_lock_run(e);
        return true;
    case CONTENDER_PREPARING:
    case CONTENDER_PROVING:
        elector_run_holding(e);
        return true;
    default:
        return false;
    }
}

/* --- the time as active ----------------------------------------------------------- */

static int elector_begin(struct contender *c)
{
    struct conclave_elector *e = elector_of(c);
    struct conclave_token token = {c->token};
    if (e->callbacks.activate == NULL) {
        return 0;
    }
    client_unlock(contender_client(c));
    int answer = e->callbacks.activate(e, token, c->ctx);
    client_lock(contender_client(c));
    return answer;
}

static void elector_began(struct contender *c, int answer)
{
    struct conclave_elector *e = elector_of(c);
    if (answer == 0) {
        e->failures = 0;
    } else if (c->state == CONTENDER_HELD) {
        elector_give_up(e, "activation failed");
    }
}

static void elector_revoked(struct contender *c)
{
    struct conclave_elector *e = elector_of(c);
    /* GRANTED: the user never knew, and nothing was done that had to be fenced */
    e->in_order = c->state == CONTENDER_GRANTED;
    e->ready = false;
    e->untrusted = e->health != CONCLAVE_HEALTH_HEALTHY;
}

static void elector_deactivate(struct contender *c, int why, int64_t stop_within_ms)
{
    struct conclave_elector *e = elector_of(c);
    int answer = 0;
    if (e->callbacks.deactivate != NULL) {
        client_unlock(contender_client(c));
        answer = e->callbacks.deactivate(e, why, stop_within_ms, c->ctx);
        client_lock(contender_client(c));
    }
    /* An unhealthy process may say anything: its successor makes sure. */
    e->in_order = answer == 0 && !e->untrusted;
}

static void elector_stopped(struct contender *c)
{
    contender_enter(c, CONTENDER_LEAVING);
}

static void elector_lease_lost(struct contender *c, int why)
{
    int64_t until_ns = c->holder.until_ns;
    bool ran_out =
        why == CONCLAVE_ELOST && until_ns != 0 && client_now_ns(contender_client(c)) >= until_ns;
    if (contender_is_granted(c)) {
        /* The breadcrumb is another's now: somebody may be active already. */
        contender_revoke(c, why == CONCLAVE_NO_NODE ? CONCLAVE_ELOST : why, ran_out ? until_ns : 0);
    } else if (c->state == CONTENDER_PROVING) {
        contender_enter(c, CONTENDER_LEAVING);
    }
}

/* --- callbacks and handle ------------------------------------------------------------ */

static bool elector_is_clear(struct contender *c)
{
    struct conclave_elector *e = elector_of(c);
    return elector_card_leave(e) && !e->fence_running;
}

static void elector_on_state(struct contender *c, enum conclave_state state)
{
    if (!state_is_final(state) && state != CONCLAVE_STATE_LOST &&
        state != CONCLAVE_STATE_SUSPENDED) {
        elector_of(c)->connected = true;
    }
    elector_card_on_state(elector_of(c), state);
}

static bool elector_state_is_new(const struct conclave_elector *e)
{
    return !e->told_any || elector_state(e) != e->told;
}

static void elector_after_run(struct contender *c)
{
    elector_card_publish(elector_of(c));
    if (elector_state_is_new(elector_of(c))) {
        handle_post(&c->handle);
    }
}

static bool elector_tell_state(struct contender *c)
{
    struct conclave_elector *e = elector_of(c);
    const char *reason = e->reason;
    if (!elector_state_is_new(e)) {
        return false;
    }
    enum conclave_elector_state state = elector_state(e);
    e->told = state;
    e->told_any = true;
    e->reason = "";
    client_notify(contender_client(c));
    if (e->callbacks.on_state != NULL) {
        client_unlock(contender_client(c));
        e->callbacks.on_state(e, state, reason, c->ctx);
        client_lock(contender_client(c));
    }
    return true;
}

static void elector_closed(void *self, int why)
{
    struct conclave_elector *e = self;
    if (e->callbacks.on_closed != NULL) {
        e->callbacks.on_closed(e, why, e->c.ctx);
    }
}

static void elector_init(struct contender *c)
{
    struct conclave_elector *e = elector_of(c);
    c->place.parent = e->line_path; /* the one lock has no line */
    c->holder.path = e->crumb_path;
    c->holder.versioned = true;
    elector_lock_init(e);
    elector_mark_init(e);
    elector_handed_init(e);
    elector_card_init(e);
    client_timer_init(&e->stay_out, elector_on_stayed_out, e);
    e->reason = "";
    e->connected = recipes_connected(contender_rt(c));
}

static void elector_finish(struct contender *c)
{
    client_timer_stop(contender_client(c), &elector_of(c)->stay_out);
    elector_lock_finish(elector_of(c));
    elector_mark_finish(elector_of(c));
    elector_handed_finish(elector_of(c));
    member_finish(&elector_of(c)->card);
}

const struct contender_class elector_class = {
    .size = sizeof(struct conclave_elector),
    .place = &contender_place_class,
    .copy = elector_copy,
    .init = elector_init,
    .arrows =
        {
            [CONTENDER_JOINING] = CONTENDER_TO(PREPARING) | CONTENDER_TO(LEAVING),
            [CONTENDER_WAITING] = CONTENDER_TO(JOINING) | CONTENDER_TO(PREPARING),
            [CONTENDER_FIRST] = CONTENDER_TO(PREPARING),
            [CONTENDER_PREPARING] = CONTENDER_TO(PROVING) | CONTENDER_TO(LEAVING),
            [CONTENDER_PROVING] = CONTENDER_TO(GRANTED),
        },
    .leaving = elector_leaving,
    .run = elector_run_own,
    .out = elector_out,
    .joined = elector_joined,
    .not_joined = elector_not_joined,
    .begin = elector_begin,
    .began = elector_began,
    .held = elector_held,
    .revoked = elector_revoked,
    .end = elector_deactivate,
    .stopped = elector_stopped,
    .gone = elector_gone,
    .lease_lost = elector_lease_lost,
    .leave = elector_leave,
    .is_clear = elector_is_clear,
    .session_ended = elector_session_ended,
    .on_state = elector_on_state,
    .after_run = elector_after_run,
    .tell_first = elector_tell_state,
    .closed = elector_closed,
    .finish = elector_finish,
    .free_copies = elector_free_copies,
};
