#include "recipes/engine/handle_calls.h"

#include <assert.h>
#include <string.h>

/* Before trying again what failed for want of memory, or was refused for now. A new link ends
 * the wait. */
enum { RETRY_MS = 250 };

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
    assert(host->untold > 0);
    host->untold--;
    host_check(host);
}

static void host_begin_closing(struct host *host, int why)
{
    if (host->closing.ending) {
        return;
    }
    closing_begin(&host->closing, why);
    if (host->class->stop != NULL) {
        host->class->stop(host);
    }
}

static void host_on_state(struct handle *h, enum conclave_state state)
{
    struct host *host = host_of(h);
    handle_ref(h);
    if (state_is_final(state)) { /* the calls are told, too, and end by themselves */
        host_begin_closing(host, state == CONCLAVE_STATE_CLOSED ? CONCLAVE_ECLOSED
                                                                : CONCLAVE_AUTH_FAILED);
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

void host_init(struct host *host, struct conclave_recipes *rt, const struct host_class *class)
{
    handle_init(&host->handle, rt, &host_handle_class);
    closing_init(&host->closing, &host->handle);
    host->class = class;
    list_init(&host->calls);
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
    int error = recipes_may_block(host->handle.rt);
    if (error != 0) {
        return error;
    }
    host_close(host);
    return closing_wait(&host->closing, timeout_ms);
}

void host_destroy(struct host *host)
{
    closing_destroy(&host->closing);
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

void call_run(struct call *call)
{
    if (call->ended || call->running) {
        call->again = true;
        return;
    }
    enum conclave_state state = client_state(call_client(call));
    if (call->stop == 0 && state_is_final(state)) { /* who was told of it first may run another */
        call->stop = state == CONCLAVE_STATE_CLOSED ? CONCLAVE_ECLOSED : CONCLAVE_AUTH_FAILED;
    }
    call->running = true;
    handle_ref(&call->handle);
    do {
        call->again = false;
        call->class->run(call);
    } while (call->again && !call->ended);
    call->running = false;
    handle_unref(&call->handle);
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
    assert(!call->ended);
    call->ended = true;
    call->error = error;
    client_timer_stop(client, &call->deadline);
    client_timer_stop(client, &call->retry);
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
    struct conclave_client *client = call_client(call);
    if (!call->ended && !client_timer_active(&call->retry)) {
        client_timer_start(client, &call->retry,
                           client_now_ns(client) + (int64_t)RETRY_MS * 1000000);
    }
}

void call_trouble(struct call *call, int error)
{
    if (error_is_fatal(error)) {
        call_end(call, error);
    } else if (error != CONCLAVE_CONNECTION_LOSS) {
        call_retry_later(call);
    }
}

bool call_can_send(const struct call *call)
{
    return recipes_connected(call->handle.rt) && !client_timer_active(&call->retry);
}

static void on_deadline(struct conclave_client *client, void *ctx)
{
    call_stop(ctx, CONCLAVE_ETIMEDOUT);
}

static void handle_calls_on_retry(struct conclave_client *client, void *ctx)
{
    call_run(ctx);
}

static void call_on_state(struct handle *h, enum conclave_state state)
{
    struct call *call = call_of(h);
    if (call->ended) {
        return;
    }
    handle_ref(h);
    client_timer_stop(call_client(call), &call->retry);
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
    client_timer_init(&call->retry, handle_calls_on_retry, call);
    list_push_back(&host->calls, &call->link);
}

void call_start(struct call *call, int64_t timeout_ms)
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

int call_wait(struct call *call, int64_t timeout_ms)
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

void call_release(struct call *call)
{
    call->held = false;
    call_settle(call);
}
