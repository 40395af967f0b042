#include "recipes/hold/election.h"

#include "base/random.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Before trying again what failed for want of memory, or was refused for now. A new link ends
 * the wait. */
enum { RETRY_MS = 250 };

static const struct handle_class election_class;

/* --- states ---------------------------------------------------------------------- */

#define TO(state) (1u << ELECTION_##state)

static const unsigned allowed[] = {
    [ELECTION_IDLE] = TO(JOINING) | TO(CLOSED),
    [ELECTION_JOINING] = TO(IDLE) | TO(WAITING),
    [ELECTION_WAITING] = TO(PROVING) | TO(LEAVING),
    [ELECTION_PROVING] = TO(WAITING) | TO(LEADING) | TO(LEAVING),
    [ELECTION_LEADING] = TO(WAITING) | TO(STOPPING) | TO(LEAVING),
    [ELECTION_STOPPING] = TO(WAITING) | TO(LEAVING),
    [ELECTION_LEAVING] = TO(IDLE),
    [ELECTION_CLOSED] = 0,
};

void election_enter(struct conclave_election *e, enum election_state state)
{
    assert((allowed[e->state] & (1u << state)) != 0);
    e->state = state;
}

static bool leaving_wanted(const struct conclave_election *e)
{
    return e->closing.ending || e->resign != RESIGN_NONE;
}

bool election_leads(const struct conclave_election *e)
{
    return e->state == ELECTION_LEADING && e->term == TERM_READY;
}

static void wake_at(struct conclave_election *e, int64_t at_ns)
{
    client_timer_start(election_rt(e)->client, &e->wake, at_ns);
}

void election_retry_later(struct conclave_election *e)
{
    if (!client_timer_active(&e->wake)) {
        wake_at(e, client_now_ns(election_rt(e)->client) + (int64_t)RETRY_MS * 1000000);
    }
}

void election_end(struct conclave_election *e, int why)
{
    closing_begin(&e->closing, why);
}

void election_trouble(struct conclave_election *e, int error)
{
    if (error_is_fatal(error)) {
        election_end(e, error);
    } else if (error != CONCLAVE_CONNECTION_LOSS) {
        election_retry_later(e);
    }
}

/* --- the term -------------------------------------------------------------------- */

/* The user's stop is done, or was never needed: what becomes of the candidacy. */
static void stopped(struct conclave_election *e)
{
    bool lapsed = e->stop_why == CONCLAVE_ELOST && e->node != NULL;
    if (!leaving_wanted(e)) {
        if (lapsed && e->options.regrant) {
            election_enter(e, ELECTION_WAITING);
            return;
        }
        if (!e->options.requeue) {
            election_end(e, e->stop_why);
        }
    }
    election_enter(e, ELECTION_LEAVING);
}

/* Ends the lead, the published one first of all: nobody may see it true once this has
 * returned. */
static void stop_leading(struct conclave_election *e, int why, int64_t until_ns)
{
    grant_withdraw(&e->grant);
    lease_remove(&election_rt(e)->lease, &e->holder);
    e->stop_why = why;
    e->stop_until_ns = until_ns;
    e->stopped_clean = false;
    e->ack_wanted = false;
    client_notify(election_rt(e)->client);
    if (e->term == TERM_DUE) {
        e->term = TERM_NONE; /* the user never knew */
        if (why == CONCLAVE_ELOST && e->node != NULL && !leaving_wanted(e)) {
            election_enter(e, ELECTION_WAITING);
        } else {
            stopped(e);
        }
        return;
    }
    election_enter(e, ELECTION_STOPPING);
    if (e->term == TERM_READY) {
        handle_post(&e->handle);
    }
}

void election_grant(struct conclave_election *e)
{
    election_enter(e, ELECTION_LEADING);
    e->term = TERM_DUE;
    handle_post(&e->handle);
}

static void on_proved(struct lease_holder *holder)
{
    struct conclave_election *e = CONTAINER_OF(holder, struct conclave_election, holder);
    if (e->state == ELECTION_LEADING && e->term != TERM_DUE) {
        grant_publish(&e->grant, e->czxid, e->holder.until_ns);
    } else if (e->state == ELECTION_PROVING) {
        election_run(e);
    }
}

static void on_lease_lost(struct lease_holder *holder, int why)
{
    struct conclave_election *e = CONTAINER_OF(holder, struct conclave_election, holder);
    if (why != CONCLAVE_ELOST) {
        election_node_gone(e, why == CONCLAVE_NO_NODE ? CONCLAVE_ELOST : why);
    } else if (e->state == ELECTION_LEADING) {
        stop_leading(e, CONCLAVE_ELOST, holder->until_ns);
    } else if (e->state == ELECTION_PROVING) {
        election_enter(e, ELECTION_WAITING);
    }
    election_run(e);
}

/* --- the node -------------------------------------------------------------------- */

void election_node_gone(struct conclave_election *e, int why)
{
    if (e->node == NULL) {
        return;
    }
    struct conclave_recipes *rt = election_rt(e);
    e->generation++;
    e->regrant = false;
    if (why != CONCLAVE_ELOST) {
        e->acked = false; /* went with the session */
        e->marked = false;
    } else {
        /* Somebody deletes our nodes: not a reason to make new ones without end. */
        int64_t now = client_now_ns(rt->client);
        if (e->lost_ns != 0 && now - e->lost_ns < e->options.backoff_min_ms * 1000000) {
            e->not_before_ns = now + e->options.backoff_min_ms * 1000000;
        }
        e->lost_ns = now;
    }
    place_leave(&e->place);
    lease_remove(&rt->lease, &e->holder); /* its path is the node's */
    free(e->node);
    e->node = NULL;
    if (e->state == ELECTION_LEADING) {
        stop_leading(e, why, 0);
    } else if (e->state == ELECTION_WAITING || e->state == ELECTION_PROVING) {
        if (!e->options.requeue && !leaving_wanted(e)) {
            election_end(e, why);
        }
        election_enter(e, ELECTION_LEAVING);
    }
}

static void on_created(struct protected_create *create, int error, char *path,
                       const struct conclave_stat *stat)
{
    struct conclave_election *e = CONTAINER_OF(create, struct conclave_election, create);
    struct conclave_client *client = election_rt(e)->client;
    if (error != 0) {
        election_enter(e, ELECTION_IDLE);
        if (error != CONCLAVE_ECANCELED) {
            election_trouble(e, error);
        }
        election_run(e);
        return;
    }
    e->node = path;
    e->node_session = stat->ephemeral_owner;
    e->session_ended = false;
    e->czxid = stat->czxid;
    e->regrant = false;
    e->generation++;
    if (!name_parse(e->options.naming, path_name(path), &e->sequence)) {
        e->sequence = 0;
    }
    e->holder.path = path;
    place_enter(&e->place, path, stat->ephemeral_owner, stat->czxid);
    election_enter(e, ELECTION_WAITING);
    if (e->node_session != client_session_id(client)) {
        election_node_gone(e, CONCLAVE_SESSION_EXPIRED);
    }
    client_notify(client);
    election_run(e);
}

static void join(struct conclave_election *e)
{
    struct conclave_client *client = election_rt(e)->client;
    int64_t now = client_now_ns(client);
    if (now < e->not_before_ns) {
        wake_at(e, e->not_before_ns);
        return;
    }
    if (client_timer_active(&e->wake)) {
        return; /* a failed try waits */
    }
    struct protected_node node = {
        .parent = e->path,
        .naming = e->options.naming,
        .data = e->data,
        .data_len = e->data_len,
        .acl = e->acl,
        .acl_count = e->options.acl_count,
    };
    e->data_dirty = false;
    election_enter(e, ELECTION_JOINING);
    protected_create_start(&e->create, &node);
}

/* --- the machine ------------------------------------------------------------------ */

static void close_if_done(struct conclave_election *e)
{
    observer_stop(&e->observer);
    if (e->term != TERM_NONE) {
        return;
    }
    election_enter(e, ELECTION_CLOSED);
    client_timer_stop(election_rt(e)->client, &e->wake);
    grant_withdraw(&e->grant);
    closing_done(&e->closing);
}

static void run_idle(struct conclave_election *e)
{
    if (e->closing.ending) {
        close_if_done(e);
        return;
    }
    if (e->resign != RESIGN_NONE) {
        e->parked = e->resign == RESIGN_PARK;
        e->resign = RESIGN_NONE;
    }
    if (!e->parked && !e->options.observe_only && recipes_connected(election_rt(e))) {
        join(e);
    }
}

/* In WAITING and PROVING. */
static void run_queued(struct conclave_election *e)
{
    struct conclave_recipes *rt = election_rt(e);
    if (leaving_wanted(e)) {
        lease_remove(&rt->lease, &e->holder);
        election_enter(e, ELECTION_LEAVING);
        return;
    }
    if (!recipes_connected(rt)) {
        if (e->state == ELECTION_PROVING) {
            lease_remove(&rt->lease, &e->holder);
            election_enter(e, ELECTION_WAITING);
        }
        return;
    }
    election_place_run(e);
    if (e->state == ELECTION_PROVING && e->holder.until_ns != 0) {
        if (e->takeover == TAKEOVER_DONE) {
            election_grant(e);
        } else {
            election_takeover_run(e);
        }
    }
}

static void run_leading(struct conclave_election *e)
{
    if (leaving_wanted(e)) {
        stop_leading(e, e->closing.ending ? e->closing.why : CONCLAVE_ECANCELED,
                     e->holder.until_ns);
        return;
    }
    if (recipes_connected(election_rt(e))) {
        election_place_run(e);
        election_data_run(e);
        if (e->ack_wanted && e->term == TERM_READY) {
            election_ack_run(e);
        }
    }
}

static void run_once(struct conclave_election *e)
{
    switch (e->state) {
    case ELECTION_IDLE:
        run_idle(e);
        break;
    case ELECTION_JOINING:
        if (leaving_wanted(e) && !e->create.canceled) {
            protected_create_cancel(&e->create);
        }
        break;
    case ELECTION_WAITING:
    case ELECTION_PROVING:
        run_queued(e);
        if (e->node != NULL && e->state != ELECTION_LEAVING && recipes_connected(election_rt(e))) {
            election_data_run(e);
        }
        break;
    case ELECTION_LEADING:
        run_leading(e);
        break;
    case ELECTION_STOPPING:
        if (e->term == TERM_NONE) {
            stopped(e);
        }
        break;
    case ELECTION_LEAVING:
        election_leave_run(e);
        break;
    case ELECTION_CLOSED:
        break;
    }
}

void election_run(struct conclave_election *e)
{
    if (e->running) {
        e->again = true; /* called by what run_once called: its caller looks again */
        return;
    }
    e->running = true;
    handle_ref(&e->handle);
    enum election_state before;
    do {
        before = e->state;
        e->again = false;
        run_once(e);
    } while (e->again || e->state != before);
    e->running = false;
    observer_run(&e->observer);
    handle_unref(&e->handle);
}

static void on_wake(struct conclave_client *client, void *ctx)
{
    (void)client;
    election_run(ctx);
}

/* --- callbacks ---------------------------------------------------------------------- */

static int64_t backoff_ms(struct conclave_election *e)
{
    int64_t ms = e->options.backoff_min_ms;
    for (unsigned i = 1; i < e->failures && ms < e->options.backoff_max_ms; i++) {
        ms *= 2;
    }
    if (ms > e->options.backoff_max_ms) {
        ms = e->options.backoff_max_ms;
    }
    return ms / 2 + (int64_t)random_below((uint64_t)(ms / 2 + 1));
}

static void tell_elected(struct conclave_election *e)
{
    struct conclave_client *client = election_rt(e)->client;
    struct conclave_token token = {e->czxid};
    bool regrant = e->regrant;
    int result = 0;
    if (client_now_ns(client) >= e->holder.until_ns) {
        stop_leading(e, CONCLAVE_ELOST, e->holder.until_ns); /* its timer and we both come late */
        election_run(e);
        return;
    }
    e->term = TERM_STARTING;
    grant_publish(&e->grant, e->czxid, e->holder.until_ns);
    if (e->callbacks.on_elected != NULL) {
        client_unlock(client);
        result = e->callbacks.on_elected(e, token, regrant, e->ctx);
        client_lock(client);
    }
    e->term = TERM_READY;
    e->regrant = e->node != NULL;
    if (result == 0) {
        e->failures = 0;
        if (e->state == ELECTION_LEADING && e->options.ack) {
            e->ack_wanted = true; /* else the user may have asked for it already */
        }
    } else if (e->state == ELECTION_LEADING) {
        e->failures++;
        e->not_before_ns = client_now_ns(client) + backoff_ms(e) * 1000000;
        if (!e->options.requeue) {
            election_end(e, CONCLAVE_ECANCELED);
        } else if (e->resign == RESIGN_NONE) {
            e->resign = RESIGN_REQUEUE;
        }
    }
    client_notify(client);
    election_run(e);
}

static void tell_revoked(struct conclave_election *e)
{
    struct conclave_client *client = election_rt(e)->client;
    int64_t within =
        lease_stop_within_ms(client_now_ns(client), e->stop_until_ns, client_timeout_ms(client));
    int why = e->stop_why;
    e->term = TERM_ENDING;
    if (e->callbacks.on_revoked != NULL) {
        client_unlock(client);
        e->callbacks.on_revoked(e, why, within, e->ctx);
        client_lock(client);
    }
    e->term = TERM_NONE;
    e->stopped_clean = e->node != NULL;
    election_run(e);
}

static void call_closed(void *self, int why)
{
    struct conclave_election *e = self;
    if (e->callbacks.on_closed != NULL) {
        e->callbacks.on_closed(e, why, e->ctx);
    }
}

static bool election_run_due(struct handle *h)
{
    struct conclave_election *e = CONTAINER_OF(h, struct conclave_election, handle);
    if (e->state == ELECTION_LEADING && e->term == TERM_DUE) {
        tell_elected(e);
        return true;
    }
    if (e->state == ELECTION_STOPPING && e->term == TERM_READY) {
        tell_revoked(e);
        return true;
    }
    if (e->state != ELECTION_CLOSED) {
        return observer_tell(&e->observer);
    }
    return closing_tell(&e->closing, call_closed, e);
}

/* --- the client's state -------------------------------------------------------------- */

static void on_session_end(struct conclave_election *e, int why)
{
    election_node_gone(e, why);
    e->session_ended = true;
    e->acked = false; /* went with the session, though the node may have gone before */
    e->marked = false;
    e->ack_unknown = false;
}

static void election_on_state(struct handle *h, enum conclave_state state)
{
    struct conclave_election *e = CONTAINER_OF(h, struct conclave_election, handle);
    struct conclave_client *client = election_rt(e)->client;
    handle_ref(h);
    switch (state) {
    case CONCLAVE_STATE_CLOSED:
        election_end(e, CONCLAVE_ECLOSED);
        on_session_end(e, CONCLAVE_ECLOSED);
        break;
    case CONCLAVE_STATE_AUTH_FAILED:
        election_end(e, CONCLAVE_AUTH_FAILED);
        on_session_end(e, CONCLAVE_AUTH_FAILED);
        break;
    case CONCLAVE_STATE_LOST:
        on_session_end(e, CONCLAVE_SESSION_EXPIRED);
        break;
    case CONCLAVE_STATE_SUSPENDED:
        if (e->state == ELECTION_LEADING && e->options.lease.stop_on_suspend) {
            stop_leading(e, CONCLAVE_ELOST, e->holder.until_ns);
        }
        break;
    default:
        client_timer_stop(client, &e->wake);
        if (e->node != NULL && e->node_session != client_session_id(client)) {
            on_session_end(e, CONCLAVE_SESSION_EXPIRED);
        }
        if (e->options.lease.grace_ms > lease_grace_max_ms(client_timeout_ms(client))) {
            election_end(e, CONCLAVE_EINVAL); /* the server gave less time than was asked for */
        }
        break;
    }
    protected_create_run(&e->create);
    observer_on_state(&e->observer, state);
    election_run(e);
    handle_unref(h);
}

/* --- the handle --------------------------------------------------------------------- */

static void election_free(struct handle *h)
{
    struct conclave_election *e = CONTAINER_OF(h, struct conclave_election, handle);
    protected_create_finish(&e->create);
    ensure_path_finish(&e->ack_dir);
    watch_slot_clear(&e->ack_watch);
    observer_finish(&e->observer);
    place_finish(&e->place);
    client_timer_stop(election_rt(e)->client, &e->wake);
    client_timer_stop(election_rt(e)->client, &e->delay);
    free(e->node);
    free(e->path);
    free(e->leader_dir);
    free(e->current_path);
    free(e->last_path);
    free(e->id);
    free(e->acl);
    free(e->data);
    free(e);
}

static const struct handle_class election_class = {
    election_on_state,
    election_run_due,
    election_free,
};

void election_init(struct conclave_election *e, struct conclave_recipes *rt)
{
    struct handle *h = &e->handle;
    handle_init(h, rt, &election_class);
    closing_init(&e->closing, h);
    protected_create_init(&e->create, h, on_created);
    ensure_path_init(&e->ack_dir, h);
    election_place_init(e);
    client_timer_init(&e->wake, on_wake, e);
    e->holder.on_proved = on_proved;
    e->holder.on_lost = on_lease_lost;
    list_init(&e->holder.link);
    observer_init(&e->observer, e);
    election_ack_init(e);
}
