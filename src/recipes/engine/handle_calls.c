#include "recipes/engine/handle_calls.h"

#include <assert.h>

/* --- hosts ----------------------------------------------------------------------- */

static struct host *host_of(struct handle *h)
{
    return CONTAINER_OF(h, struct host, handle);
}

void host_check(struct host *host)
{
    if (!host->closing.ending || host->closing.due || host->untold > 0 ||
        !list_empty(&host->calls) ||
        (host->class->is_idle != NULL && !host->class->is_idle(host))) {
        return;
    }
    closing_done(&host->closing);
}

void host_owes(struct host *host)
{
    host->untold++;
}

void host_told(struct host *host)
{
    assert(host->untold > 0 && !host->closing.due);
    host->untold--;
    host_check(host);
}

static void host_begin_closing(struct host *host, int why)
{
    assert(why != 0);
    if (host->closing.ending) {
        return;
    }
    closing_begin(&host->closing, why);
    if (host->class->stop != NULL) {
        host->class->stop(host);
    }
}

void host_end(struct host *host, int why)
{
    host_begin_closing(host, why);
    host_check(host);
}

static void host_on_state(struct handle *h, enum conclave_state state)
{
    struct host *host = host_of(h);
    handle_ref(h);
    if (state_is_final(state)) { /* the calls also learn it, and end by themselves */
        host_begin_closing(host, state_error(state));
    }
    if (host->class->on_state != NULL) {
        host->class->on_state(host, state);
    }
    host_check(host);
    handle_unref(h);
}

static void call_closed(void *self, int why)
{
    struct host *host = self;
    host->class->tell_closed(host, why);
}

static bool host_run_due(struct handle *h)
{
    struct host *host = host_of(h);
    if (!host->closing.due) {
        return host->class->run_due != NULL && host->class->run_due(host);
    }
    return closing_tell(&host->closing, call_closed, host);
}

static void host_free(struct handle *h)
{
    struct host *host = host_of(h);
    host->class->free(host);
}

static const struct handle_class host_handle_class = {host_on_state, host_run_due, host_free};

int host_open(struct host *host, struct conclave_recipes *rt, const struct host_class *class,
              int error)
{
    host->handle.rt = rt; /* also for `free` */
    error = error == 0 ? recipes_check(rt) : error;
    if (error == 0) {
        client_lock(rt->client);
        if (!state_is_final(client_state(rt->client))) {
            handle_init(&host->handle, rt, &host_handle_class);
            closing_init(&host->closing, &host->handle);
            host->class = class;
            list_init(&host->calls);
            return 0;
        }
        client_unlock(rt->client);
        error = CONCLAVE_ECLOSED;
    }
    class->free(host);
    return error;
}

struct host_waiter {
    const struct host *host;
    bool (*ready)(void *ctx);
    void *ctx;
};

static bool host_is_ready(void *ctx)
{
    struct host_waiter *w = ctx;
    return w->host->closing.ending || w->ready(w->ctx);
}

int host_wait(struct host *host, bool (*ready)(void *ctx), void *ctx, int64_t timeout_ms)
{
    struct host_waiter w = {host, ready, ctx};
    handle_ref(&host->handle);
    int error = handle_wait(&host->handle, host_is_ready, &w, timeout_ms);
    error = host->closing.ending ? host->closing.why : error;
    handle_unref(&host->handle);
    return error;
}

void host_close(struct host *host)
{
    struct conclave_client *client = host->handle.rt->client;
    if (client_check(client) != 0) {
        return;
    }
    client_lock(client);
    handle_ref(&host->handle);
    host_begin_closing(host, CONCLAVE_ECLOSED);
    /* Stopping one can end it, and no other: its successor in the list stays. */
    LIST_FOREACH (it, &host->calls) {
        call_stop(CONTAINER_OF(it, struct call, link), CONCLAVE_ECLOSED);
    }
    host_check(host);
    client_notify(client);
    handle_unref(&host->handle);
    client_unlock(client);
}

int host_close_wait(struct host *host, int64_t timeout_ms)
{
    host_close(host);
    return closing_wait(&host->closing, timeout_ms);
}

void host_destroy_by(struct host *host, const char *function)
{
    if (host != NULL) {
        closing_destroy_by(&host->closing, function);
    }
}

/* --- calls ------------------------------------------------------------------------- */

static struct call *call_of(struct handle *h)
{
    return CONTAINER_OF(h, struct call, handle);
}

/* Ended, and its answer was taken: it is not needed any more. */
static void call_settle(struct call *call)
{
    if (call->ended && call->told && !call->held && !call->released) {
        call->released = true;
        handle_release(&call->handle);
    }
}

static void call_work(struct machine *machine)
{
    struct call *call = CONTAINER_OF(machine, struct call, machine);
    enum conclave_state state = client_state(call_client(call));
    if (call->stop == 0 && state_is_final(state)) { /* the first callback may run another call */
        call->stop = state_error(state);
    }
    if (!call->ended && !call->step.busy && !ensure_path_busy(&call->ensure)) {
        call->class->run(call);
    }
}

void call_run(struct call *call)
{
    machine_run(&call->machine);
}

void call_stop(struct call *call, int why)
{
    if (call->stop == 0) {
        call->stop = why;
        call_run(call);
    }
}

void call_end(struct call *call, int error)
{
    struct host *host = call->host;
    struct conclave_client *client = call_client(call);
    assert(!call->ended && !call->step.busy && !ensure_path_busy(&call->ensure));
    call->ended = true;
    call->error = error;
    client_timer_stop(client, &call->deadline);
    machine_resume(&call->machine);
    list_remove(&call->link);
    client_notify(client);
    handle_ref(&host->handle);
    if (call->told) {
        call_settle(call);
    } else {
        host_owes(host);
        handle_post(&call->handle);
    }
    host_check(host);
    handle_unref(&host->handle);
}

void call_retry_later(struct call *call)
{
    if (!call->ended) {
        machine_retry_later(&call->machine);
    }
}

void call_trouble(struct call *call, int error)
{
    assert(!call->ended);
    if (!machine_tries_again(&call->machine, error)) {
        call->class->fail(call, error);
    }
}

bool call_gives_up(const struct call *call)
{
    bool asks_once = call->now && call->stop == CONCLAVE_ETIMEDOUT && call_can_send(call);
    return call->stop != 0 && !asks_once;
}

static void call_on_reply(struct step *step, const struct conclave_reply *reply)
{
    struct call *call = CONTAINER_OF(step, struct call, step);
    call->answered(call, reply);
}

void call_send(struct call *call, const struct conclave_op *op, call_fn fn)
{
    assert(!call->ended && !ensure_path_busy(&call->ensure));
    call->answered = fn;
    step_submit(&call->step, op, call_on_reply);
}

void call_send_watch(struct call *call, struct watch_slot *watch, const char *path,
                     struct conclave_op op, call_fn fn)
{
    if (watch_slot_prepare(watch, path, &op) != 0) {
        call_retry_later(call);
    } else {
        call_send(call, &op, fn);
    }
}

static void call_on_ensured(struct ensure_path *ensure, int error)
{
    struct call *call = CONTAINER_OF(ensure, struct call, ensure);
    if (error != 0) {
        call_trouble(call, error);
    }
}

void call_ensure(struct call *call, const char *path, const struct conclave_acl *acl,
                 size_t acl_count)
{
    assert(!call->ended && !call->step.busy && !ensure_path_busy(&call->ensure));
    if (ensure_path_start(&call->ensure, path, acl, acl_count, call_on_ensured) != 0) {
        call_retry_later(call);
    }
}

static void on_deadline(struct conclave_client *client, void *ctx)
{
    call_stop(ctx, CONCLAVE_ETIMEDOUT);
}

static void call_on_state(struct handle *h, enum conclave_state state)
{
    struct call *call = call_of(h);
    if (call->ended) {
        return;
    }
    handle_ref(h);
    machine_resume(&call->machine);
    if (call->class->on_state != NULL) {
        call->class->on_state(call, state);
    }
    call_run(call);
    handle_unref(h);
}

static bool call_run_due(struct handle *h)
{
    struct call *call = call_of(h);
    if (call->ended && !call->told) {
        call->told = true;
        client_unlock(h->rt->client);
        call->class->tell(call);
        client_lock(h->rt->client);
        host_told(call->host);
        call_settle(call);
    }
    return false;
}

static void call_free(struct handle *h)
{
    struct call *call = call_of(h);
    struct host *host = call->host;
    assert(call->ended && call->machine.state == MACHINE_RESTS);
    ensure_path_finish(&call->ensure);
    call->class->free(call);
    handle_unref(&host->handle);
}

static const struct handle_class call_handle_class = {call_on_state, call_run_due, call_free};

void call_init(struct call *call, struct host *host, const struct call_class *class)
{
    handle_init(&call->handle, host->handle.rt, &call_handle_class);
    handle_ref(&host->handle);
    call->host = host;
    call->class = class;
    client_timer_init(&call->deadline, on_deadline, call);
    machine_init(&call->machine, &call->handle, call_work);
    machine_step_init(&call->machine, &call->step);
    machine_ensure_init(&call->machine, &call->ensure);
    list_push_back(&host->calls, &call->link);
}

/* Lock held. */
static int call_create(struct host *host, call_create_fn create, void *request, int64_t timeout_ms,
                       struct call **ret)
{
    int error = host->closing.ending ? CONCLAVE_ECLOSED : create(host, request, ret);
    if (error == 0) {
        (*ret)->now = timeout_ms == 0;
    }
    return error;
}

static void call_start(struct call *call, int64_t timeout_ms)
{
    struct conclave_client *client = call_client(call);
    int64_t deadline = client_deadline_ns(client, timeout_ms < 0 ? CONCLAVE_FOREVER : timeout_ms);
    if (deadline != CONCLAVE_FOREVER) {
        client_timer_start(client, &call->deadline, deadline);
    }
    if (call->host->closing.ending) {
        call_stop(call, call->host->closing.why);
    } else {
        call_run(call);
    }
}

static bool call_has_ended(void *ctx)
{
    return ((struct call *)ctx)->ended;
}

int host_call(struct host *host, call_create_fn create, void *request, int64_t timeout_ms)
{
    struct conclave_client *client = host->handle.rt->client;
    struct call *call;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    error = call_create(host, create, request, timeout_ms, &call);
    if (error == 0) {
        call_start(call, timeout_ms);
    }
    client_unlock(client);
    return error;
}

/* Its error; CONCLAVE_EDEADLK: this thread may not wait, and there is no answer. Gives the lock up meanwhile. */
static int call_wait(struct call *call, int64_t timeout_ms)
{
    call->told = true; /* by this */
    call->held = true;
    call_start(call, timeout_ms);
    int error = client_wait(call_client(call), call_has_ended, call, CONCLAVE_FOREVER);
    if (error == 0) {
        return call->error;
    }
    call_stop(call, CONCLAVE_ECANCELED);
    return error;
}

int host_call_wait(struct host *host, call_create_fn create, void *request, int64_t timeout_ms,
                   void (*collect)(struct call *call, void *request))
{
    struct conclave_client *client = host->handle.rt->client;
    struct call *call;
    int error = recipes_may_block(host->handle.rt);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    error = call_create(host, create, request, timeout_ms, &call);
    if (error == 0) {
        error = call_wait(call, timeout_ms);
        if (error == 0 && collect != NULL) {
            collect(call, request);
        }
        call->held = false;
        call_settle(call);
    }
    client_unlock(client);
    return error;
}
