#include "recipes/hold/elector.h"

#include "base/random.h"

#include <assert.h>
#include <stdlib.h>

/* Before trying again what failed for want of memory, or was refused for now. A new link ends the
 * wait. */
enum { RETRY_MS = 250 };

static const struct handle_class elector_class;

/* --- states ---------------------------------------------------------------------- */

#define TO(phase) (1u << PHASE_##phase)

static const unsigned allowed[] = {
    [PHASE_OUT] = TO(JOINING) | TO(CLOSED),
    [PHASE_JOINING] = TO(WAITING) | TO(READING) | TO(LEAVING),
    [PHASE_WAITING] = TO(JOINING) | TO(READING) | TO(LEAVING),
    [PHASE_READING] = TO(FENCING) | TO(MARKING) | TO(PROVING) | TO(LEAVING),
    [PHASE_FENCING] = TO(READING) | TO(LEAVING),
    [PHASE_MARKING] = TO(READING) | TO(PROVING) | TO(LEAVING),
    [PHASE_PROVING] = TO(ACTIVE) | TO(LEAVING),
    [PHASE_ACTIVE] = TO(STOPPING) | TO(LEAVING),
    [PHASE_STOPPING] = TO(LEAVING),
    [PHASE_LEAVING] = TO(OUT),
    [PHASE_CLOSED] = 0,
};

void elector_enter(struct conclave_elector *e, enum elector_phase phase)
{
    assert((allowed[e->phase] & (1u << phase)) != 0);
    e->phase = phase;
}

/* What fences still is at work for a lock that is lost: nothing is done before it has ended. */
static bool fences_in_vain(const struct conclave_elector *e)
{
    return e->fence_running && e->fence_generation != e->generation;
}

enum conclave_elector_state elector_state(const struct conclave_elector *e)
{
    switch (e->phase) {
    case PHASE_WAITING:
        return recipes_connected(elector_rt(e)) ? CONCLAVE_ELECTOR_STANDBY
                                                : CONCLAVE_ELECTOR_NEUTRAL;
    case PHASE_FENCING:
        return fences_in_vain(e) ? CONCLAVE_ELECTOR_NEUTRAL : CONCLAVE_ELECTOR_FENCING;
    case PHASE_ACTIVE:
    case PHASE_STOPPING:
        return CONCLAVE_ELECTOR_ACTIVE;
    case PHASE_JOINING: /* moments: what was told stands, if it can */
    case PHASE_READING:
    case PHASE_MARKING:
    case PHASE_PROVING:
        return !recipes_connected(elector_rt(e)) || e->told == CONCLAVE_ELECTOR_ACTIVE ||
                       fences_in_vain(e)
                   ? CONCLAVE_ELECTOR_NEUTRAL
                   : e->told;
    default:
        return e->connected ? CONCLAVE_ELECTOR_NEUTRAL : CONCLAVE_ELECTOR_INIT;
    }
}

bool elector_leaving(const struct conclave_elector *e)
{
    return e->closing.ending || e->ceding || e->giving_up || e->health != CONCLAVE_HEALTH_HEALTHY;
}

static void wake_at(struct conclave_elector *e, int64_t at_ns)
{
    client_timer_start(elector_rt(e)->client, &e->wake, at_ns);
}

void elector_retry_later(struct conclave_elector *e)
{
    if (!client_timer_active(&e->wake)) {
        wake_at(e, client_now_ns(elector_rt(e)->client) + (int64_t)RETRY_MS * 1000000);
    }
}

void elector_end(struct conclave_elector *e, int why)
{
    closing_begin(&e->closing, why);
}

void elector_trouble(struct conclave_elector *e, int error)
{
    if (error_is_fatal(error)) {
        elector_end(e, error);
    } else if (error != CONCLAVE_CONNECTION_LOSS) {
        elector_retry_later(e);
    }
}

void elector_give_up(struct conclave_elector *e, const char *reason)
{
    int64_t ms = e->options.backoff_min_ms;
    for (unsigned i = 0; i < e->failures && ms < e->options.backoff_max_ms; i++) {
        ms *= 2;
    }
    ms = ms < e->options.backoff_max_ms ? ms : e->options.backoff_max_ms;
    ms = ms / 2 + (int64_t)random_below((uint64_t)(ms / 2 + 1));
    e->failures++;
    e->giving_up = true;
    e->reason = reason;
    e->not_before_ns = client_now_ns(elector_rt(e)->client) + ms * 1000000;
}

/* --- the term -------------------------------------------------------------------- */

/* Ends the time as active, the published one first of all: nobody may see it true once this has
 * returned. */
static void stop_active(struct conclave_elector *e, int why, int64_t until_ns)
{
    grant_withdraw(&e->grant);
    lease_remove(&elector_rt(e)->lease, &e->holder);
    e->stop_why = why;
    e->stop_until_ns = until_ns;
    e->in_order = false;
    e->untrusted = e->health != CONCLAVE_HEALTH_HEALTHY;
    client_notify(elector_rt(e)->client);
    if (e->term == TERM_DUE) {
        e->term = TERM_NONE; /* the user never knew, and nothing was done that had to be fenced */
        e->in_order = true;
        elector_enter(e, PHASE_LEAVING);
        return;
    }
    elector_enter(e, PHASE_STOPPING);
    if (e->term == TERM_READY) {
        handle_post(&e->handle);
    }
}

static void on_proved(struct lease_holder *holder)
{
    struct conclave_elector *e = CONTAINER_OF(holder, struct conclave_elector, holder);
    if (e->phase == PHASE_ACTIVE && e->term != TERM_DUE) {
        grant_publish(&e->grant, e->czxid, holder->until_ns);
    } else if (e->phase == PHASE_PROVING) {
        elector_run(e);
    }
}

static void on_lease_lost(struct lease_holder *holder, int why)
{
    struct conclave_elector *e = CONTAINER_OF(holder, struct conclave_elector, holder);
    bool ran_out = why == CONCLAVE_ELOST && holder->until_ns != 0 &&
                   client_now_ns(elector_rt(e)->client) >= holder->until_ns;
    if (e->phase == PHASE_ACTIVE) {
        /* The breadcrumb is another's now: somebody may be active already. */
        stop_active(e, why == CONCLAVE_NO_NODE ? CONCLAVE_ELOST : why,
                    ran_out ? holder->until_ns : 0);
    } else if (e->phase == PHASE_PROVING) {
        elector_enter(e, PHASE_LEAVING);
    }
    elector_run(e);
}

/* --- the lock is gone --------------------------------------------------------------- */

void elector_lock_gone(struct conclave_elector *e, int why)
{
    if (e->node == NULL && !e->maybe) {
        return;
    }
    e->generation++;
    e->maybe = false;
    if (!e->lock_watch.pending) {
        watch_slot_clear(&e->lock_watch);
    }
    place_leave(&e->place);
    free(e->node);
    e->node = NULL;
    if (e->phase == PHASE_ACTIVE) {
        stop_active(e, why, 0);
    } else if (e->phase != PHASE_STOPPING && e->phase != PHASE_LEAVING && e->phase != PHASE_OUT &&
               e->phase != PHASE_CLOSED && e->phase != PHASE_JOINING) {
        lease_remove(&elector_rt(e)->lease, &e->holder);
        elector_enter(e, PHASE_LEAVING);
    }
}

/* --- the machine ------------------------------------------------------------------ */

static void close_if_done(struct conclave_elector *e)
{
    if (e->term != TERM_NONE || e->fence_running) {
        return;
    }
    elector_enter(e, PHASE_CLOSED);
    client_timer_stop(elector_rt(e)->client, &e->wake);
    closing_done(&e->closing);
}

static void run_out(struct conclave_elector *e)
{
    struct conclave_client *client = elector_rt(e)->client;
    elector_crumb_forget(e);
    if (e->closing.ending) {
        close_if_done(e);
        return;
    }
    e->ceding = false;
    e->giving_up = false;
    if (e->health != CONCLAVE_HEALTH_HEALTHY || !recipes_connected(elector_rt(e))) {
        return;
    }
    if (client_now_ns(client) < e->not_before_ns) {
        wake_at(e, e->not_before_ns);
    } else if (!client_timer_active(&e->wake)) {
        elector_enter(e, PHASE_JOINING);
    }
}

/* From READING to PROVING: the lock is ours. */
static void run_holding(struct conclave_elector *e)
{
    struct conclave_recipes *rt = elector_rt(e);
    if (elector_leaving(e)) {
        lease_remove(&rt->lease, &e->holder);
        elector_enter(e, PHASE_LEAVING);
        return;
    }
    if (!recipes_connected(rt)) {
        return; /* the lease is not shown to anybody yet; what is in flight ends first */
    }
    elector_lock_watch(e);
    switch (e->phase) {
    case PHASE_READING:
        elector_read_run(e);
        break;
    case PHASE_FENCING:
        elector_fence_run(e);
        break;
    case PHASE_MARKING:
        elector_mark_run(e);
        break;
    case PHASE_PROVING:
        if (!e->holder.added) {
            e->holder.version = e->crumb_version;
            lease_add(&rt->lease, &e->holder);
        } else if (e->holder.until_ns != 0 && elector_lock_verified(e)) {
            elector_enter(e, PHASE_ACTIVE);
            e->term = TERM_DUE;
            handle_post(&e->handle);
        }
        break;
    default:
        break;
    }
}

static void run_active(struct conclave_elector *e)
{
    if (elector_leaving(e)) {
        int why = e->closing.ending ? e->closing.why : CONCLAVE_ECANCELED;
        stop_active(e, why, e->holder.until_ns);
    } else if (recipes_connected(elector_rt(e))) {
        elector_lock_watch(e);
    }
}

static void run_once(struct conclave_elector *e)
{
    switch (e->phase) {
    case PHASE_OUT:
        run_out(e);
        break;
    case PHASE_JOINING:
    case PHASE_WAITING:
        elector_lock_run(e);
        break;
    case PHASE_READING:
    case PHASE_FENCING:
    case PHASE_MARKING:
    case PHASE_PROVING:
        run_holding(e);
        break;
    case PHASE_ACTIVE:
        run_active(e);
        break;
    case PHASE_STOPPING:
        if (e->term == TERM_NONE) {
            elector_enter(e, PHASE_LEAVING);
        }
        break;
    case PHASE_LEAVING:
        elector_leave_run(e);
        break;
    case PHASE_CLOSED:
        break;
    }
}

void elector_run(struct conclave_elector *e)
{
    if (e->running) {
        e->again = true; /* called by what run_once called: its caller looks again */
        return;
    }
    e->running = true;
    handle_ref(&e->handle);
    enum elector_phase before;
    do {
        before = e->phase;
        e->again = false;
        run_once(e);
    } while (e->again || e->phase != before);
    e->running = false;
    if (elector_state(e) != e->told || !e->told_any) {
        handle_post(&e->handle);
    }
    handle_unref(&e->handle);
}

static void on_wake(struct conclave_client *client, void *ctx)
{
    (void)client;
    elector_run(ctx);
}

/* --- callbacks ---------------------------------------------------------------------- */

static void tell_state(struct conclave_elector *e, enum conclave_elector_state state)
{
    struct conclave_client *client = elector_rt(e)->client;
    const char *reason = e->reason;
    e->told = state;
    e->told_any = true;
    e->reason = "";
    client_notify(client);
    if (e->callbacks.on_state != NULL) {
        client_unlock(client);
        e->callbacks.on_state(e, state, reason, e->ctx);
        client_lock(client);
    }
}

static void tell_activate(struct conclave_elector *e)
{
    struct conclave_client *client = elector_rt(e)->client;
    struct conclave_token token = {e->czxid};
    int result = 0;
    if (client_now_ns(client) >= e->holder.until_ns) {
        stop_active(e, CONCLAVE_ELOST, e->holder.until_ns); /* over, though its timer comes late */
        elector_run(e);
        return;
    }
    e->term = TERM_STARTING;
    grant_publish(&e->grant, e->czxid, e->holder.until_ns);
    if (e->callbacks.activate != NULL) {
        client_unlock(client);
        result = e->callbacks.activate(e, token, e->ctx);
        client_lock(client);
    }
    e->term = TERM_READY;
    if (result != 0 && e->phase == PHASE_ACTIVE) {
        elector_give_up(e, "activation failed");
    } else if (result == 0) {
        e->failures = 0;
    }
    if (e->phase == PHASE_STOPPING) {
        handle_post(&e->handle); /* it was lost meanwhile */
    }
    client_notify(client);
    elector_run(e);
}

static void tell_deactivate(struct conclave_elector *e)
{
    struct conclave_client *client = elector_rt(e)->client;
    int64_t within =
        lease_stop_within_ms(client_now_ns(client), e->stop_until_ns, client_timeout_ms(client));
    int why = e->stop_why;
    int result = 0;
    e->term = TERM_ENDING;
    if (e->callbacks.deactivate != NULL) {
        client_unlock(client);
        result = e->callbacks.deactivate(e, why, within, e->ctx);
        client_lock(client);
    }
    e->term = TERM_NONE;
    /* An unhealthy process may say anything: its successor makes sure. */
    e->in_order = result == 0 && !e->untrusted;
    elector_run(e);
}

static void call_closed(void *self, int why)
{
    struct conclave_elector *e = self;
    if (e->callbacks.on_closed != NULL) {
        e->callbacks.on_closed(e, why, e->ctx);
    }
}

static bool elector_run_due(struct handle *h)
{
    struct conclave_elector *e = CONTAINER_OF(h, struct conclave_elector, handle);
    enum conclave_elector_state state = elector_state(e);
    if (state != e->told || !e->told_any) {
        tell_state(e, state);
        return true;
    }
    if (e->phase == PHASE_ACTIVE && e->term == TERM_DUE) {
        tell_activate(e);
        return true;
    }
    if (e->phase == PHASE_STOPPING && e->term == TERM_READY) {
        tell_deactivate(e);
        return true;
    }
    return closing_tell(&e->closing, call_closed, e);
}

/* --- the client's state -------------------------------------------------------------- */

static void on_session_end(struct conclave_elector *e, int why)
{
    elector_lock_gone(e, why);
    e->maybe = false;
}

static void on_link(struct conclave_elector *e)
{
    struct conclave_client *client = elector_rt(e)->client;
    e->connected = true;
    if (client_now_ns(client) >= e->not_before_ns) {
        client_timer_stop(client, &e->wake);
    }
    if (e->node != NULL && e->node_session != client_session_id(client)) {
        on_session_end(e, CONCLAVE_SESSION_EXPIRED);
    }
    if (e->options.lease.grace_ms > lease_grace_max_ms(client_timeout_ms(client))) {
        elector_end(e, CONCLAVE_EINVAL); /* the server gave less time than was asked for */
    }
}

static void elector_on_state(struct handle *h, enum conclave_state state)
{
    struct conclave_elector *e = CONTAINER_OF(h, struct conclave_elector, handle);
    handle_ref(h);
    switch (state) {
    case CONCLAVE_STATE_CLOSED:
        elector_end(e, CONCLAVE_ECLOSED);
        on_session_end(e, CONCLAVE_ECLOSED);
        break;
    case CONCLAVE_STATE_AUTH_FAILED:
        elector_end(e, CONCLAVE_AUTH_FAILED);
        on_session_end(e, CONCLAVE_AUTH_FAILED);
        break;
    case CONCLAVE_STATE_LOST:
        on_session_end(e, CONCLAVE_SESSION_EXPIRED);
        break;
    case CONCLAVE_STATE_SUSPENDED:
        if (e->phase == PHASE_ACTIVE && e->options.lease.stop_on_suspend) {
            stop_active(e, CONCLAVE_ELOST, e->holder.until_ns);
        }
        break;
    default:
        on_link(e);
        break;
    }
    protected_create_run(&e->create);
    elector_run(e);
    handle_unref(h);
}

/* --- the handle --------------------------------------------------------------------- */

void elector_free_copies(struct conclave_elector *e)
{
    free(e->dir);
    free(e->lock_path);
    free(e->line_path);
    free(e->crumb_path);
    free(e->override_path);
    free(e->id);
    free(e->incarnation);
    free(e->data);
    free(e->text);
    free(e->acl);
    free(e);
}

static void elector_free(struct handle *h)
{
    struct conclave_elector *e = CONTAINER_OF(h, struct conclave_elector, handle);
    elector_lock_finish(e);
    elector_mark_finish(e);
    client_timer_stop(elector_rt(e)->client, &e->wake);
    free(e->node);
    elector_free_copies(e);
}

static const struct handle_class elector_class = {
    elector_on_state,
    elector_run_due,
    elector_free,
};

void elector_init(struct conclave_elector *e, struct conclave_recipes *rt)
{
    handle_init(&e->handle, rt, &elector_class);
    closing_init(&e->closing, &e->handle);
    elector_lock_init(e);
    elector_mark_init(e);
    client_timer_init(&e->wake, on_wake, e);
    e->holder.on_proved = on_proved;
    e->holder.on_lost = on_lease_lost;
    e->holder.path = e->crumb_path;
    e->holder.versioned = true;
    e->holder.heartbeat_ms = e->options.lease.heartbeat_ms;
    list_init(&e->holder.link);
    e->reason = "";
}
