#include "recipes/hold/lock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    RETRY_MS = 250,     /* before trying again what failed for want of memory, or was refused */
    LAST_LOOK_MS = 200, /* for what was under way when an acquire's time was up */
};

static const struct handle_class lock_class;

/* --- states ---------------------------------------------------------------------- */

#define TO(state) (1u << LOCK_##state)

static const unsigned allowed[] = {
    [LOCK_IDLE] = TO(PROBING) | TO(JOINING) | TO(CLOSED),
    [LOCK_PROBING] = TO(JOINING) | TO(IDLE),
    [LOCK_JOINING] = TO(WAITING) | TO(IDLE),
    [LOCK_WAITING] = TO(PROVING) | TO(LEAVING),
    [LOCK_PROVING] = TO(WAITING) | TO(HELD) | TO(LEAVING),
    [LOCK_HELD] = TO(LOST) | TO(LEAVING),
    [LOCK_LOST] = TO(LEAVING),
    [LOCK_LEAVING] = TO(IDLE),
    [LOCK_CLOSED] = 0,
};

void lock_enter(struct conclave_lock *l, enum lock_state state)
{
    assert((allowed[l->state] & (1u << state)) != 0);
    l->state = state;
}

void lock_retry_later(struct conclave_lock *l)
{
    struct conclave_client *client = lock_rt(l)->client;
    if (!client_timer_active(&l->wake)) {
        client_timer_start(client, &l->wake, client_now_ns(client) + (int64_t)RETRY_MS * 1000000);
    }
}

void lock_trouble(struct conclave_lock *l, int error)
{
    if (error_is_fatal(error) && l->serving != NULL) {
        lock_fail(l, error);
    } else if (error != CONCLAVE_CONNECTION_LOSS) {
        lock_retry_later(l);
    }
}

/* --- acquires -------------------------------------------------------------------- */

void lock_answer(struct conclave_lock *l, struct lock_request *request, int error)
{
    struct conclave_client *client = lock_rt(l)->client;
    client_timer_stop(client, &request->timer);
    list_remove(&request->link);
    if (l->serving == request) {
        l->serving = NULL;
    }
    request->done = true;
    request->error = error;
    request->token.czxid = error == 0 ? l->czxid : 0;
    if (request->fn != NULL) {
        list_push_back(&l->answers, &request->link);
        handle_post(&l->handle);
    } else {
        client_notify(client);
    }
}

void lock_fail(struct conclave_lock *l, int error)
{
    if (l->serving != NULL) {
        lock_answer(l, l->serving, error);
    }
}

static void answer_all(struct conclave_lock *l, int error)
{
    while (!list_empty(&l->requests)) {
        lock_answer(l, CONTAINER_OF(l->requests.next, struct lock_request, link), error);
    }
}

/* Whether something is on its way that may grant it. */
static bool under_way(const struct conclave_lock *l, const struct lock_request *request)
{
    return l->serving == request && recipes_connected(lock_rt(l)) &&
           (l->state == LOCK_PROVING || (l->state == LOCK_WAITING && !l->place.before.armed));
}

static void on_deadline(struct conclave_client *client, void *ctx)
{
    struct lock_request *request = ctx;
    struct conclave_lock *l = request->lock;
    if (!request->overdue && under_way(l, request)) {
        request->overdue = true;
        client_timer_start(client, &request->timer,
                           client_now_ns(client) + (int64_t)LAST_LOOK_MS * 1000000);
        return;
    }
    handle_ref(&l->handle);
    lock_answer(l, request, CONCLAVE_ETIMEDOUT);
    lock_run(l);
    handle_unref(&l->handle);
}

/* What the one who holds it already gets; 1: nothing, the request waits. */
static int again_by_owner(struct conclave_lock *l, const struct lock_request *request)
{
    bool has = l->state == LOCK_HELD || l->state == LOCK_LOST;
    if (!has || request->owner != l->owner) {
        return 1;
    }
    if (l->state == LOCK_LOST || grant_until_ns(&l->grant, lock_rt(l)) == 0) {
        return CONCLAVE_ELOST;
    }
    if (!l->options.recursive) {
        return CONCLAVE_EDEADLK;
    }
    l->depth++;
    return 0;
}

void lock_request_add(struct conclave_lock *l, struct lock_request *request, int64_t timeout_ms)
{
    struct conclave_client *client = lock_rt(l)->client;
    bool others = !list_empty(&l->requests) || l->state == LOCK_HELD || l->state == LOCK_LOST;
    request->lock = l;
    request->try = timeout_ms == 0;
    client_timer_init(&request->timer, on_deadline, request);
    list_push_back(&l->requests, &request->link);
    int error = again_by_owner(l, request);
    if (l->closing.ending) {
        lock_answer(l, request, l->closing.why);
    } else if (error != 1) {
        lock_answer(l, request, error);
    } else if (request->try && others) {
        lock_answer(l, request, CONCLAVE_EBUSY);
    } else {
        int64_t deadline = client_deadline_ns(client, timeout_ms);
        if (!request->try && deadline != CONCLAVE_FOREVER) {
            client_timer_start(client, &request->timer, deadline);
        }
        lock_run(l);
    }
}

/* --- the grant ------------------------------------------------------------------- */

static void withdraw(struct conclave_lock *l)
{
    grant_withdraw(&l->grant);
    lease_remove(&lock_rt(l)->lease, &l->holder);
    place_leave(&l->place);
    lock_change_end(l, CONCLAVE_ELOST);
}

static void lose(struct conclave_lock *l, int why, int64_t until_ns)
{
    withdraw(l);
    l->lost_why = why;
    l->lost_until_ns = until_ns;
    l->lost_due = l->callbacks.on_lost != NULL;
    l->revokes_due = 0;
    lock_enter(l, LOCK_LOST);
    client_notify(lock_rt(l)->client);
    handle_post(&l->handle);
}

static void grant(struct conclave_lock *l)
{
    lock_enter(l, LOCK_HELD);
    l->czxid = l->node_czxid;
    l->owner = l->serving->owner;
    l->depth = 1;
    grant_publish(&l->grant, l->czxid, l->holder.until_ns);
    lock_answer(l, l->serving, 0);
    handle_post(&l->handle); /* a request to give it up may have been seen already */
}

int lock_let_go(struct conclave_lock *l, uint64_t owner, bool *ret_last)
{
    bool has = l->state == LOCK_HELD || l->state == LOCK_LOST;
    *ret_last = false;
    if (!has || owner != l->owner) {
        return CONCLAVE_ENOTOWNER;
    }
    /* The lease may be over before its timer has fired. */
    bool lost = l->state == LOCK_LOST || grant_until_ns(&l->grant, lock_rt(l)) == 0;
    if (--l->depth == 0) {
        *ret_last = true;
        l->lost_due = false;
        l->revokes_due = 0;
        withdraw(l);
        lock_enter(l, LOCK_LEAVING);
        lock_run(l);
    }
    return lost ? CONCLAVE_ELOST : 0;
}

void lock_confirm(struct conclave_lock *l, struct lock_request *request)
{
    bool last;
    if (request->error != 0 || grant_until_ns(&l->grant, lock_rt(l)) != 0) {
        return;
    }
    int error = lock_let_go(l, request->owner, &last);
    request->error = l->closing.ending ? l->closing.why : error == 0 ? CONCLAVE_ELOST : error;
    request->token.czxid = 0;
}

static void on_proved(struct lease_holder *holder)
{
    struct conclave_lock *l = CONTAINER_OF(holder, struct conclave_lock, holder);
    if (l->state == LOCK_HELD) {
        grant_publish(&l->grant, l->czxid, holder->until_ns);
    } else if (l->state == LOCK_PROVING) {
        lock_run(l);
    }
}

static void on_lease_lost(struct lease_holder *holder, int why)
{
    struct conclave_lock *l = CONTAINER_OF(holder, struct conclave_lock, holder);
    handle_ref(&l->handle);
    if (why != CONCLAVE_ELOST) {
        lock_node_gone(l, why == CONCLAVE_NO_NODE ? CONCLAVE_ELOST : why);
    } else if (l->state == LOCK_HELD) {
        lose(l, CONCLAVE_ELOST, holder->until_ns);
    } else if (l->state == LOCK_PROVING) {
        l->free = false;
        lock_enter(l, LOCK_WAITING);
    }
    lock_run(l);
    handle_unref(&l->handle);
}

/* --- the node -------------------------------------------------------------------- */

void lock_node_gone(struct conclave_lock *l, int why)
{
    if (l->node == NULL) {
        return;
    }
    place_leave(&l->place);
    lease_remove(&lock_rt(l)->lease, &l->holder); /* its path is the node's */
    if (l->state == LOCK_HELD) {
        lose(l, why, 0);
    } else if (l->state == LOCK_WAITING || l->state == LOCK_PROVING) {
        lock_fail(l, why);
        lock_enter(l, LOCK_LEAVING);
    }
    free(l->node);
    l->node = NULL;
}

/* No node of ours is left: those who wait for that are told. */
static void tell_left(struct conclave_lock *l)
{
    for (struct list *it; (it = list_pop_front(&l->releases)) != NULL;) {
        struct lock_release *release = CONTAINER_OF(it, struct lock_release, link);
        release->done = true;
        if (release->fn != NULL) {
            list_push_back(&l->released, &release->link);
        }
    }
    handle_post(&l->handle);
    client_notify(lock_rt(l)->client);
}

static void on_node_deleted(void *ctx)
{
    struct conclave_lock *l = ctx;
    if (--l->deletions == 0 && l->state != LOCK_LEAVING) {
        tell_left(l);
    }
    lock_run(l);
    handle_unref(&l->handle);
}

int lock_delete(struct conclave_lock *l, const char *path)
{
    handle_ref(&l->handle);
    int error = deletes_add(&lock_rt(l)->deletes, path, on_node_deleted, l);
    if (error != 0) {
        handle_unref(&l->handle);
        return error;
    }
    l->deletions++;
    return 0;
}

static void joined(struct conclave_lock *l, char *path, const struct conclave_stat *stat)
{
    l->node = path;
    l->node_session = stat->ephemeral_owner;
    l->node_czxid = stat->czxid;
    l->sent_ns = l->create.sent_ns;
    l->session_ended = false;
    l->kind = l->create.node.kind;
    l->free = false;
    l->revokes_due = 0;
    l->revoke_zxid = stat->czxid;
    l->holder.path = path;
    place_enter(&l->place, path, l->node_session, l->node_czxid);
    semaphore_joined(l);
    lock_enter(l, LOCK_WAITING);
    if (l->node_session != client_session_id(lock_rt(l)->client)) {
        lock_node_gone(l, CONCLAVE_SESSION_EXPIRED);
    }
}

static void on_created(struct protected_create *create, int error, char *path,
                       const struct conclave_stat *stat)
{
    struct conclave_lock *l = CONTAINER_OF(create, struct conclave_lock, create);
    handle_ref(&l->handle);
    if (l->change_creating) {
        lock_change_created(l, error, path, stat);
    } else if (error == 0) {
        joined(l, path, stat);
    } else {
        lock_enter(l, LOCK_IDLE);
        if (error == CONCLAVE_SESSION_EXPIRED) {
            lock_fail(l, error);
        } else if (error != CONCLAVE_ECANCELED) {
            lock_trouble(l, error);
        }
    }
    lock_run(l);
    handle_unref(&l->handle);
}

static enum name_kind kind_wanted(const struct conclave_lock *l)
{
    switch (l->options.kind) {
    case CONCLAVE_LOCK_READ:
        return NAME_READ;
    case CONCLAVE_LOCK_WRITE:
        return NAME_WRITE;
    default:
        return NAME_PLAIN;
    }
}

static void join(struct conclave_lock *l)
{
    struct protected_node node = {
        .parent = l->path,
        .naming = l->options.naming,
        .kind = kind_wanted(l),
        .data = l->id,
        .data_len = strlen(l->id),
        .acl = l->acl,
        .acl_count = l->options.acl_count,
    };
    protected_create_start(&l->create, &node);
}

/* --- the machine ----------------------------------------------------------------- */

void lock_end(struct conclave_lock *l, int why)
{
    if (l->closing.ending) {
        return;
    }
    closing_begin(&l->closing, why);
    answer_all(l, why);
    if (l->state == LOCK_HELD || l->state == LOCK_LOST) {
        withdraw(l);
        lock_enter(l, LOCK_LEAVING);
    }
}

static void run_idle(struct conclave_lock *l)
{
    if (l->create.phase != PROTECTED_IDLE || l->probe.busy || l->change_step.busy) {
        return; /* what was given up is still being cleared away */
    }
    if (l->closing.ending) {
        if (l->deletions == 0) {
            lock_enter(l, LOCK_CLOSED);
            client_timer_stop(lock_rt(l)->client, &l->wake);
            closing_done(&l->closing);
        }
        return;
    }
    if (list_empty(&l->requests)) {
        return;
    }
    struct lock_request *first = CONTAINER_OF(l->requests.next, struct lock_request, link);
    if (!recipes_connected(lock_rt(l))) {
        if (first->try) {
            lock_answer(l, first, CONCLAVE_EDISCONNECTED);
            l->again = true;
        }
        return;
    }
    if (client_timer_active(&l->wake)) {
        return; /* a failed try waits */
    }
    l->serving = first;
    lock_enter(l, first->try ? LOCK_PROBING : LOCK_JOINING);
    if (l->state == LOCK_JOINING) {
        join(l);
    }
}

/* In WAITING and PROVING. */
static void run_queued(struct conclave_lock *l)
{
    struct lease *lease = &lock_rt(l)->lease;
    if (l->serving == NULL) {
        lease_remove(lease, &l->holder);
        place_leave(&l->place);
        lock_enter(l, LOCK_LEAVING);
        return;
    }
    if (!recipes_connected(lock_rt(l))) {
        l->free = false;
        if (l->state == LOCK_PROVING) {
            lease_remove(lease, &l->holder);
            lock_enter(l, LOCK_WAITING);
        }
        return;
    }
    if (client_timer_active(&l->wake)) {
        return;
    }
    if (l->permits > 0) {
        semaphore_run(l);
    }
    place_run(&l->place, l->state == LOCK_WAITING && !l->free);
    bool known = place_verified(&l->place) && (l->permits == 0 || l->limit_known);
    if (l->state == LOCK_WAITING && l->free && known && l->serving != NULL) {
        lock_enter(l, LOCK_PROVING);
        l->holder.heartbeat_ms = l->options.lease.heartbeat_ms;
        lease_add_proved(lease, &l->holder, l->sent_ns);
        l->sent_ns = 0;
    }
    if (l->state == LOCK_PROVING && l->holder.until_ns != 0 && known && l->serving != NULL) {
        grant(l);
    }
}

static void run_held(struct conclave_lock *l)
{
    if (!recipes_connected(lock_rt(l)) || client_timer_active(&l->wake)) {
        return;
    }
    if (l->change != CHANGE_NONE) {
        lock_change_run(l);
        return;
    }
    place_run(&l->place, false);
    if (l->permits > 0) {
        semaphore_run(l);
    }
}

static void run_leaving(struct conclave_lock *l)
{
    if (l->node != NULL && (client_timer_active(&l->wake) || lock_delete(l, l->node) != 0)) {
        lock_retry_later(l);
        return;
    }
    free(l->node);
    l->node = NULL;
    lock_enter(l, LOCK_IDLE);
    if (l->deletions == 0) {
        tell_left(l);
    }
}

static void run_once(struct conclave_lock *l)
{
    switch (l->state) {
    case LOCK_IDLE:
        run_idle(l);
        break;
    case LOCK_PROBING:
        lock_probe_run(l);
        if (l->state == LOCK_JOINING) {
            join(l);
        }
        break;
    case LOCK_JOINING:
        if (l->serving == NULL && !l->create.canceled) {
            protected_create_cancel(&l->create);
        }
        break;
    case LOCK_WAITING:
    case LOCK_PROVING:
        run_queued(l);
        break;
    case LOCK_HELD:
        run_held(l);
        break;
    case LOCK_LEAVING:
        run_leaving(l);
        break;
    case LOCK_LOST:
    case LOCK_CLOSED:
        break;
    }
}

void lock_run(struct conclave_lock *l)
{
    if (l->running) {
        l->again = true; /* called by what run_once called: its caller looks again */
        return;
    }
    l->running = true;
    handle_ref(&l->handle);
    enum lock_state before;
    do {
        before = l->state;
        l->again = false;
        run_once(l);
    } while (l->again || l->state != before);
    l->running = false;
    handle_unref(&l->handle);
}

static void on_wake(struct conclave_client *client, void *ctx)
{
    (void)client;
    lock_run(ctx);
}

/* --- callbacks ------------------------------------------------------------------- */

static void tell_answer(struct conclave_lock *l)
{
    struct conclave_client *client = lock_rt(l)->client;
    struct lock_request *request =
        CONTAINER_OF(list_pop_front(&l->answers), struct lock_request, link);
    lock_confirm(l, request);
    client_unlock(client);
    request->fn(l, request->error, request->token, request->ctx);
    free(request);
    client_lock(client);
}

static void tell_released(struct conclave_lock *l)
{
    struct conclave_client *client = lock_rt(l)->client;
    struct lock_release *release =
        CONTAINER_OF(list_pop_front(&l->released), struct lock_release, link);
    client_unlock(client);
    release->fn(l, 0, release->ctx);
    free(release);
    client_lock(client);
}

static void tell_lost(struct conclave_lock *l)
{
    struct conclave_client *client = lock_rt(l)->client;
    int64_t within =
        lease_stop_within_ms(client_now_ns(client), l->lost_until_ns, client_timeout_ms(client));
    int why = l->lost_why;
    l->lost_due = false;
    client_unlock(client);
    l->callbacks.on_lost(l, why, l->lost_until_ns == 0 ? 0 : within, l->ctx);
    client_lock(client);
}

static void tell_revoke(struct conclave_lock *l)
{
    struct conclave_client *client = lock_rt(l)->client;
    l->revokes_due--;
    if (l->callbacks.on_revoke_request != NULL) {
        client_unlock(client);
        l->callbacks.on_revoke_request(l, l->ctx);
        client_lock(client);
    }
}

static void call_closed(void *self, int why)
{
    struct conclave_lock *l = self;
    if (l->callbacks.on_closed != NULL) {
        l->callbacks.on_closed(l, why, l->ctx);
    }
}

static bool lock_run_due(struct handle *h)
{
    struct conclave_lock *l = CONTAINER_OF(h, struct conclave_lock, handle);
    if (!list_empty(&l->answers)) {
        tell_answer(l);
    } else if (l->lost_due) {
        tell_lost(l);
    } else if (l->revokes_due > 0 && l->state == LOCK_HELD) {
        tell_revoke(l);
    } else if (!list_empty(&l->released)) {
        tell_released(l);
    } else {
        return closing_tell(&l->closing, call_closed, l);
    }
    return true;
}

/* --- the client's state ---------------------------------------------------------- */

static void on_session_end(struct conclave_lock *l, int why)
{
    lock_node_gone(l, why);
    l->session_ended = true;
}

static void on_suspended(struct conclave_lock *l)
{
    if (l->state == LOCK_HELD && l->options.lease.stop_on_suspend) {
        lose(l, CONCLAVE_ELOST, l->holder.until_ns);
    }
    if (l->serving != NULL && l->serving->try) {
        lock_fail(l, CONCLAVE_EDISCONNECTED);
    }
}

static void lock_on_state(struct handle *h, enum conclave_state state)
{
    struct conclave_lock *l = CONTAINER_OF(h, struct conclave_lock, handle);
    struct conclave_client *client = lock_rt(l)->client;
    handle_ref(h);
    switch (state) {
    case CONCLAVE_STATE_CLOSED:
        on_session_end(l, CONCLAVE_ECLOSED);
        lock_end(l, CONCLAVE_ECLOSED);
        break;
    case CONCLAVE_STATE_AUTH_FAILED:
        on_session_end(l, CONCLAVE_AUTH_FAILED);
        lock_end(l, CONCLAVE_AUTH_FAILED);
        break;
    case CONCLAVE_STATE_LOST:
        on_session_end(l, CONCLAVE_SESSION_EXPIRED);
        break;
    case CONCLAVE_STATE_SUSPENDED:
        on_suspended(l);
        break;
    default:
        client_timer_stop(client, &l->wake);
        if (l->node != NULL && l->node_session != client_session_id(client)) {
            on_session_end(l, CONCLAVE_SESSION_EXPIRED);
        }
        if (l->options.lease.grace_ms > lease_grace_max_ms(client_timeout_ms(client))) {
            lock_end(l, CONCLAVE_EINVAL); /* the server gave less time than was asked for */
        }
        break;
    }
    protected_create_run(&l->create);
    lock_run(l);
    handle_unref(h);
}

/* --- the handle ------------------------------------------------------------------ */

static void lock_free(struct handle *h)
{
    struct conclave_lock *l = CONTAINER_OF(h, struct conclave_lock, handle);
    protected_create_finish(&l->create);
    place_finish(&l->place);
    lock_change_finish(l);
    client_timer_stop(lock_rt(l)->client, &l->wake);
    free(l->node);
    free(l->path);
    free(l->id);
    free(l->acl);
    free(l);
}

static const struct handle_class lock_class = {
    lock_on_state,
    lock_run_due,
    lock_free,
};

void lock_init(struct conclave_lock *l, struct conclave_recipes *rt)
{
    struct handle *h = &l->handle;
    handle_init(h, rt, &lock_class);
    closing_init(&l->closing, h);
    protected_create_init(&l->create, h, on_created);
    place_init(&l->place, h, &lock_place_class, l->path, l->options.naming);
    step_init(&l->probe, h);
    lock_change_init(l);
    client_timer_init(&l->wake, on_wake, l);
    l->holder.on_proved = on_proved;
    l->holder.on_lost = on_lease_lost;
    list_init(&l->holder.link);
    list_init(&l->requests);
    list_init(&l->answers);
    list_init(&l->releases);
    list_init(&l->released);
}
