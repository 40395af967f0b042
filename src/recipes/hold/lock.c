/* The parts that a lock adds to the contender (contender.h): acquires, releases, and their answers.
 * */
#include "recipes/hold/lease_pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LAST_LOOK_MS = 200 }; /* for what was under way when an acquire's time was up */

/* It is held, or was lost and is not released yet. */
static bool lock_has_owner(const struct conclave_lock *l)
{
    return l->c.state == CONTENDER_HELD || l->c.state == CONTENDER_STOPPING;
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
    request->token.czxid = error == 0 ? l->c.token : 0;
    if (request->fn != NULL) {
        list_push_back(&l->answers, &request->link);
        handle_post(&l->c.handle);
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

void lock_answer_all(struct conclave_lock *l, int error)
{
    while (!list_empty(&l->requests)) {
        lock_answer(l, CONTAINER_OF(l->requests.next, struct lock_request, link), error);
    }
}

/* Whether something is on its way that may grant it. */
static bool lock_under_way(const struct conclave_lock *l, const struct lock_request *request)
{
    return l->serving == request && recipes_connected(lock_rt(l)) &&
           (l->c.state == CONTENDER_FIRST || l->c.state == CONTENDER_PROVING ||
            (l->c.state == CONTENDER_WAITING && !l->c.place.before.armed));
}

static void lock_on_deadline(struct conclave_client *client, void *ctx)
{
    struct lock_request *request = ctx;
    struct conclave_lock *l = request->lock;
    if (!request->overdue && lock_under_way(l, request)) {
        request->overdue = true;
        client_timer_start(client, &request->timer,
                           client_now_ns(client) + (int64_t)LAST_LOOK_MS * 1000000);
        return;
    }
    handle_ref(&l->c.handle);
    lock_answer(l, request, CONCLAVE_ETIMEDOUT);
    contender_run(&l->c);
    handle_unref(&l->c.handle);
}

/* The answer to the present holder; 1: none, the request waits. */
static int lock_again_by_owner(struct conclave_lock *l, const struct lock_request *request)
{
    if (!lock_has_owner(l) || request->owner != l->owner) {
        return 1;
    }
    if (!contender_has_lease(&l->c)) {
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
    bool others = !list_empty(&l->requests) || lock_has_owner(l);
    request->lock = l;
    request->try = timeout_ms == 0;
    client_timer_init(&request->timer, lock_on_deadline, request);
    list_push_back(&l->requests, &request->link);
    int error = lock_again_by_owner(l, request);
    if (l->c.closing.ending) {
        lock_answer(l, request, l->c.closing.why);
    } else if (error != 1) {
        lock_answer(l, request, error);
    } else if (request->try && others) {
        lock_answer(l, request, CONCLAVE_EBUSY);
    } else {
        int64_t deadline = client_deadline_ns(client, timeout_ms);
        if (!request->try && deadline != CONCLAVE_FOREVER) {
            client_timer_start(client, &request->timer, deadline);
        }
        contender_run(&l->c);
    }
}

/* --- the way to a grant ----------------------------------------------------------- */

/* No request for it is left. */
static bool lock_leaving(const struct contender *c)
{
    const struct conclave_lock *l = CONTAINER_OF(c, struct conclave_lock, c);
    return !contender_is_granted(c) && l->serving == NULL;
}

static enum name_kind lock_kind_wanted(const struct conclave_lock *l)
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

void lock_join(struct conclave_lock *l)
{
    if (l->pool != NULL) {
        contender_enter(&l->c, CONTENDER_JOINING);
        return;
    }
    struct protected_node node =
        contender_node(&l->c, lock_kind_wanted(l), l->c.id, strlen(l->c.id));
    node.weight = l->take;
    contender_join_as(&l->c, &node);
}

/* No node is being made, and no probe or change is under way. */
static bool lock_is_quiet(const struct conclave_lock *l)
{
    return l->c.create.phase == PROTECTED_IDLE && l->change_create.phase == PROTECTED_IDLE &&
           !l->probe.busy && !l->change_step.busy && (l->pool == NULL || pool_is_quiet(l->pool));
}

static bool lock_is_clear(struct contender *c)
{
    const struct conclave_lock *l = lock_of(c);
    return lock_is_quiet(l) && l->deletions == 0 && (l->pool == NULL || pool_close(l->pool));
}

static void lock_out(struct contender *c)
{
    struct conclave_lock *l = lock_of(c);
    if (!lock_is_quiet(l) || list_empty(&l->requests)) {
        return;
    }
    struct lock_request *first = CONTAINER_OF(l->requests.next, struct lock_request, link);
    if (!recipes_connected(lock_rt(l))) {
        if (first->try) {
            lock_answer(l, first, CONCLAVE_EDISCONNECTED);
            contender_run(c); /* and the next one */
        }
        return;
    }
    if (!contender_may_join(c)) {
        return;
    }
    l->serving = first;
    if (first->try && l->pool == NULL) {
        contender_enter(c, CONTENDER_ASKING);
    } else {
        lock_join(l);
    }
}

static bool lock_run_own(struct contender *c)
{
    struct conclave_lock *l = lock_of(c);
    if (c->state == CONTENDER_ASKING) {
        lock_probe_run(l);
        return true;
    }
    if (c->state == CONTENDER_JOINING && l->pool != NULL) {
        pool_run(l->pool);
        return true;
    }
    return false;
}

static void lock_joined(struct contender *c)
{
    struct conclave_lock *l = lock_of(c);
    l->kind = c->create.node.kind;
    l->revokes_due = 0;
    l->hand_over_due = false;
    l->revoke_zxid = c->czxid;
    semaphore_joined(l);
}

static void lock_not_joined(struct contender *c, int error)
{
    contender_enter(c, CONTENDER_OUT);
    if (error == CONCLAVE_SESSION_EXPIRED) {
        lock_fail(lock_of(c), error);
    } else if (error != CONCLAVE_ECANCELED) {
        contender_trouble(c, error);
    }
}

static void lock_queued(struct contender *c)
{
    struct conclave_lock *l = lock_of(c);
    if (l->permits > 0) {
        semaphore_run(l);
    }
}

static bool lock_ready(struct contender *c)
{
    const struct conclave_lock *l = lock_of(c);
    return l->serving != NULL && place_verified(&c->place) && (l->permits == 0 || l->limit_known) &&
           !machine_pauses(&c->machine);
}

/* --- a hold ----------------------------------------------------------------------- */

static void lock_granted(struct contender *c)
{
    struct conclave_lock *l = lock_of(c);
    assert(l->change == CHANGE_NONE && !l->lost_due);
    l->owner = l->serving->owner;
    l->depth = 1;
    lock_answer(l, l->serving, 0);
}

static void lock_held(struct contender *c)
{
    struct conclave_lock *l = lock_of(c);
    if (machine_pauses(&c->machine)) {
        return;
    }
    if (l->change != CHANGE_NONE) {
        lock_change_run(l);
        return;
    }
    place_run(&c->place, false);
    lock_queued(c);
}

static void lock_revoked(struct contender *c)
{
    struct conclave_lock *l = lock_of(c);
    place_leave(&c->place);
    lock_change_end(l, CONCLAVE_ELOST);
    l->lost_due = l->callbacks.on_lost != NULL;
    l->revokes_due = 0;
    l->hand_over_due = false;
}

/* The owner gives it up, or the handle ends: from HELD or STOPPING. */
static void lock_give_up(struct conclave_lock *l)
{
    contender_withdraw(&l->c);
    place_leave(&l->c.place);
    lock_change_end(l, CONCLAVE_ELOST);
    contender_enter(&l->c, CONTENDER_LEAVING);
}

int lock_let_go(struct conclave_lock *l, uint64_t owner, bool *ret_last)
{
    *ret_last = false;
    if (!lock_has_owner(l) || owner != l->owner) {
        return CONCLAVE_ENOTOWNER;
    }
    /* The lease may be over before its timer has fired. */
    bool lost = !contender_has_lease(&l->c);
    assert(l->depth > 0 && (lost || l->c.state == CONTENDER_HELD));
    if (--l->depth == 0) {
        *ret_last = true;
        l->lost_due = false;
        l->revokes_due = 0;
        l->hand_over_due = false;
        lock_give_up(l);
        contender_run(&l->c);
    }
    return lost ? CONCLAVE_ELOST : 0;
}

void lock_confirm(struct conclave_lock *l, struct lock_request *request)
{
    bool last;
    if (request->error != 0 || contender_has_lease(&l->c)) {
        return;
    }
    int error = lock_let_go(l, request->owner, &last);
    request->error = l->c.closing.ending ? l->c.closing.why : error == 0 ? CONCLAVE_ELOST : error;
    request->token.czxid = 0;
}

/* --- the end of node and handle ------------------------------------------------------ */

static void lock_gone(struct contender *c, int why)
{
    if (contender_is_queued(c)) {
        lock_fail(lock_of(c), why);
    }
}

/* No node of ours is left: answers the calls that wait for that. */
static void lock_tell_left(struct conclave_lock *l)
{
    for (struct list *it; (it = list_pop_front(&l->releases)) != NULL;) {
        struct lock_release *release = CONTAINER_OF(it, struct lock_release, link);
        release->done = true;
        if (release->fn != NULL) {
            list_push_back(&l->released, &release->link);
        }
    }
    handle_post(&l->c.handle);
    client_notify(lock_rt(l)->client);
}

static void lock_on_deleted(void *ctx)
{
    struct conclave_lock *l = ctx;
    assert(l->deletions > 0);
    if (--l->deletions == 0 && l->c.state != CONTENDER_LEAVING) {
        lock_tell_left(l);
    }
    contender_run(&l->c);
    handle_unref(&l->c.handle);
}

int lock_delete(struct conclave_lock *l, const char *path)
{
    handle_ref(&l->c.handle);
    int error = deletes_add(&lock_rt(l)->deletes, path, lock_on_deleted, l);
    if (error != 0) {
        handle_unref(&l->c.handle);
        return error;
    }
    l->deletions++;
    return 0;
}

static void lock_leave(struct contender *c)
{
    struct conclave_lock *l = lock_of(c);
    if (c->node != NULL) {
        place_leave(&c->place);
        if (machine_pauses(&c->machine) || lock_delete(l, c->node) != 0) {
            machine_retry_later(&c->machine);
            return;
        }
        contender_forget_node(c);
    }
    if (l->pool != NULL && !pool_leave(l->pool)) {
        machine_retry_later(&c->machine);
        return;
    }
    contender_enter(c, CONTENDER_OUT);
    if (l->deletions == 0) {
        lock_tell_left(l);
    }
}

static bool lock_take_error(struct contender *c, int error)
{
    struct conclave_lock *l = lock_of(c);
    if (l->serving == NULL) {
        return false;
    }
    lock_fail(l, error);
    return true;
}

static void lock_ending(struct contender *c)
{
    struct conclave_lock *l = lock_of(c);
    lock_answer_all(l, c->closing.why);
    if (lock_has_owner(l)) {
        lock_give_up(l);
    }
}

static void lock_on_state(struct contender *c, enum conclave_state state)
{
    struct conclave_lock *l = lock_of(c);
    if (state == CONCLAVE_STATE_SUSPENDED && l->serving != NULL && l->serving->try) {
        lock_fail(l, CONCLAVE_EDISCONNECTED);
    }
    protected_create_run(&l->change_create);
}

/* --- callbacks ------------------------------------------------------------------- */

static void lock_tell_answer(struct conclave_lock *l)
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

static void lock_tell_released(struct conclave_lock *l)
{
    struct conclave_client *client = lock_rt(l)->client;
    struct lock_release *release =
        CONTAINER_OF(list_pop_front(&l->released), struct lock_release, link);
    client_unlock(client);
    release->fn(l, 0, release->ctx);
    free(release);
    client_lock(client);
}

static void lock_tell_lost(struct conclave_lock *l)
{
    struct conclave_client *client = lock_rt(l)->client;
    int64_t until_ns = l->c.stop_until_ns;
    int64_t within =
        lease_stop_within_ms(client_now_ns(client), until_ns, client_timeout_ms(client));
    int why = l->c.stop_why;
    l->lost_due = false;
    client_unlock(client);
    l->callbacks.on_lost(l, why, until_ns == 0 ? 0 : within, l->c.ctx);
    client_lock(client);
}

static void lock_tell_revoke(struct conclave_lock *l)
{
    struct conclave_client *client = lock_rt(l)->client;
    l->revokes_due--;
    if (l->callbacks.on_revoke_request != NULL) {
        client_unlock(client);
        l->callbacks.on_revoke_request(l, l->c.ctx);
        client_lock(client);
    }
}

/* One that knows no such request is asked to release, in favour of nobody. */
static void lock_tell_hand_over(struct conclave_lock *l)
{
    struct conclave_client *client = lock_rt(l)->client;
    void (*ask)(struct conclave_lock * lock, void *ctx) = l->callbacks.on_hand_over_request != NULL
                                                              ? l->callbacks.on_hand_over_request
                                                              : l->callbacks.on_revoke_request;
    l->hand_over_due = false;
    if (ask != NULL) {
        client_unlock(client);
        ask(l, l->c.ctx);
        client_lock(client);
    }
}

static bool lock_tell(struct contender *c)
{
    struct conclave_lock *l = lock_of(c);
    if (!list_empty(&l->answers)) {
        lock_tell_answer(l);
    } else if (l->lost_due) {
        lock_tell_lost(l);
    } else if (l->revokes_due > 0 && c->state == CONTENDER_HELD) {
        lock_tell_revoke(l);
    } else if (l->hand_over_due && c->state == CONTENDER_HELD) {
        lock_tell_hand_over(l);
    } else if (!list_empty(&l->released)) {
        lock_tell_released(l);
    } else {
        return false;
    }
    return true;
}

static void lock_closed(void *self, int why)
{
    struct conclave_lock *l = self;
    if (l->callbacks.on_closed != NULL) {
        l->callbacks.on_closed(l, why, l->c.ctx);
    }
}

/* --- the handle ------------------------------------------------------------------ */

static void lock_init(struct contender *c)
{
    struct conclave_lock *l = lock_of(c);
    machine_step_init(&c->machine, &l->probe);
    lock_change_init(l);
    list_init(&l->requests);
    list_init(&l->answers);
    list_init(&l->releases);
    list_init(&l->released);
}

static void lock_finish(struct contender *c)
{
    lock_change_finish(lock_of(c));
    pool_free(lock_of(c)->pool);
}

const struct contender_class lock_class = {
    .size = sizeof(struct conclave_lock),
    .place = &lock_place_class,
    .init = lock_init,
    .arrows =
        {
            [CONTENDER_OUT] = CONTENDER_TO(ASKING),
            [CONTENDER_ASKING] = CONTENDER_TO(JOINING) | CONTENDER_TO(OUT),
            [CONTENDER_JOINING] = CONTENDER_TO(OUT),
            [CONTENDER_FIRST] = CONTENDER_TO(WAITING) | CONTENDER_TO(PROVING),
            [CONTENDER_PROVING] = CONTENDER_TO(WAITING) | CONTENDER_TO(HELD),
            [CONTENDER_HELD] = CONTENDER_TO(LEAVING),
            [CONTENDER_STOPPING] = CONTENDER_TO(LEAVING),
        },
    .create_proves = true,
    .leaving = lock_leaving,
    .run = lock_run_own,
    .out = lock_out,
    .joined = lock_joined,
    .not_joined = lock_not_joined,
    .queued = lock_queued,
    .ready = lock_ready,
    .granted = lock_granted,
    .held = lock_held,
    .revoked = lock_revoked,
    .gone = lock_gone,
    .leave = lock_leave,
    .fail = lock_take_error,
    .ending = lock_ending,
    .is_clear = lock_is_clear,
    .on_state = lock_on_state,
    .tell_first = lock_tell,
    .closed = lock_closed,
    .finish = lock_finish,
};
