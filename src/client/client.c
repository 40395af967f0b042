/* The client as recipes use it: thin functions over the handle. */
#include "client/handle.h"

#include "base/clock.h"
#include "client/core/sized.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

void client_lock(struct conclave_client *client)
{
    pthread_mutex_lock(&client->lock);
}

void client_unlock(struct conclave_client *client)
{
    pthread_mutex_unlock(&client->lock);
}

int client_check(const struct conclave_client *client)
{
    return client->pid == getpid() ? 0 : CONCLAVE_EFORK;
}

int client_submit(struct conclave_client *client, const struct conclave_op *op,
                  conclave_reply_fn fn, void *ctx)
{
    return handle_submit(client, op, fn, ctx, SUBMIT_INTERNAL);
}

int handle_submit(struct conclave_client *client, const struct conclave_op *op,
                  conclave_reply_fn fn, void *ctx, enum submit_kind kind)
{
    struct conclave_op mine = CONCLAVE_OP_INIT;
    int rc = sized_read(&mine, op);
    if (rc == 0 && kind != SUBMIT_BEYOND) {
        rc = op_check(&mine);
    }
    if (rc != 0) {
        return rc;
    }
    struct client_request *r;
    rc = request_create(&mine, &r);
    if (rc != 0) {
        return rc;
    }
    r->client = client;
    r->fn = fn;
    r->ctx = ctx;
    r->internal = kind != SUBMIT_PUBLIC;
    bool own = kind == SUBMIT_INTERNAL || kind == SUBMIT_BEYOND;
    r->counted = !own; /* a lease must not depend on the program's requests */
    if (r->watch != NULL) {
        r->watch->client = client;
        r->watch->internal = own;
    }
    int64_t now_ns = client_now_ns(client);
    r->span = client->on_span != NULL ? request_span_create(&mine, now_ns) : NULL;
    rc = client->on_span != NULL && r->span == NULL ? (int)CONCLAVE_ENOMEM
                                                    : core_submit(&client->core, &mine, r, now_ns);
    if (rc != 0) {
        request_unref(r);
        return rc;
    }
    if (kind == SUBMIT_CALL && client->started) {
        loop_send_early(client);
    } else {
        loop_wake(client);
    }
    return 0;
}

int client_watch_forget(struct conclave_client *client, const char *path, conclave_watch_fn watch,
                        void *ctx)
{
    struct client_watch *w = core_forget_watch(&client->core, path, watch, ctx, true);
    if (w == NULL) {
        return CONCLAVE_NO_WATCHER;
    }
    free(w);
    return 0;
}

void client_listener_add(struct conclave_client *client, struct client_listener *listener)
{
    list_push_back(&client->listeners, &listener->link);
}

void client_listener_remove(struct conclave_client *client, struct client_listener *listener)
{
    list_remove(&listener->link);
}

void client_timer_init(struct client_timer *timer,
                       void (*fn)(struct conclave_client *client, void *ctx), void *ctx)
{
    *timer = (struct client_timer){.fn = fn, .ctx = ctx};
}

void client_timer_start(struct conclave_client *client, struct client_timer *timer, int64_t at_ns)
{
    timers_remove(&client->timers, &timer->timer);
    timers_add(&client->timers, &timer->timer, at_ns);
    if (at_ns < client->armed_ns) {
        loop_wake(client);
    }
}

void client_timer_stop(struct conclave_client *client, struct client_timer *timer)
{
    timers_remove(&client->timers, &timer->timer);
}

bool client_timer_active(const struct client_timer *timer)
{
    return timer->timer.active;
}

int64_t client_now_ns(const struct conclave_client *client)
{
    return clock_monotonic_ns(clock_system());
}

enum conclave_state client_state(const struct conclave_client *client)
{
    return client->core.state;
}

bool client_is_connected(const struct conclave_client *client)
{
    return state_is_attached(client->core.state);
}

int64_t client_session_id(const struct conclave_client *client)
{
    return client->core.session_id;
}

int64_t client_timeout_ms(const struct conclave_client *client)
{
    return client->core.timeout_ns / 1000000;
}

size_t client_max_request(const struct conclave_client *client)
{
    return client->core.options.max_request;
}

/* --- dispatchers
 * -------------------------------------------------------------------------------------- */

static void free_dispatcher(void *ctx)
{
    struct dispatcher *d = ctx;
    dispatcher_finish(d);
    free(d);
}

int client_dispatcher_open(struct conclave_client *client, struct dispatcher **ret)
{
    struct dispatcher *d = malloc(sizeof *d);
    if (d == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int rc = dispatcher_init(d);
    if (rc != 0) {
        free(d);
        return rc;
    }
    pthread_mutex_lock(&client->lock);
    rc = client->started ? dispatcher_start(d) : 0;
    if (rc == 0) {
        list_push_back(&client->dispatchers, &d->link);
    }
    pthread_mutex_unlock(&client->lock);
    if (rc != 0) {
        free_dispatcher(d);
        return rc;
    }
    *ret = d;
    return 0;
}

void client_dispatcher_close(struct conclave_client *client, struct dispatcher *dispatcher)
{
    if (dispatcher == NULL) {
        return;
    }
    bool inside = dispatcher_is_current(dispatcher);
    pthread_mutex_lock(&client->lock);
    /* Another thread that dispatches may be about to pump this dispatcher. */
    while (client->dispatching && !pthread_equal(client->dispatch_thread, pthread_self())) {
        pthread_cond_wait(&client->changed, &client->lock);
    }
    bool threaded = dispatcher->has_thread;
    if (threaded || !inside) {
        list_remove(&dispatcher->link);
    }
    pthread_mutex_unlock(&client->lock);
    /* Closed inside its own job and pumped: it stays in the client's list, and the pumping thread frees it when this
     * job has returned. */
    dispatcher_stop(dispatcher, free_dispatcher, dispatcher);
    if (!inside) {
        free_dispatcher(dispatcher);
    }
}

void client_post(struct conclave_client *client, struct dispatcher *dispatcher, struct job *job)
{
    dispatcher_post(dispatcher, job, job->run);
    handle_wake_pump(client);
}

void client_notify(struct conclave_client *client)
{
    pthread_cond_broadcast(&client->changed);
}

int64_t client_after_ns(const struct conclave_client *client, int64_t ms)
{
    return clock_add_ms(client_now_ns(client), ms);
}

int64_t client_deadline_ns(const struct conclave_client *client, int64_t timeout_ms)
{
    int64_t at_ns = timeout_ms < 0 ? INT64_MAX : client_after_ns(client, timeout_ms);
    return at_ns == INT64_MAX ? CONCLAVE_FOREVER : at_ns;
}
