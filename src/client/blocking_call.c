/* Calls that block until the loop has the result. */
#include "client/handle.h"

#include <assert.h>
#include <poll.h>
#include <time.h>

enum {
    OTHER_DISPATCHER_MS = 5
}; /* interval of checks whether another thread still runs the loop */

int handle_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr) != 0) {
        return CONCLAVE_EIO;
    }
    int rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    rc = rc == 0 ? pthread_cond_init(cond, &attr) : rc;
    pthread_condattr_destroy(&attr);
    return rc == 0 ? 0 : CONCLAVE_EIO;
}

void handle_sleep(struct conclave_client *client, pthread_cond_t *cond, int64_t deadline_ns)
{
    if (deadline_ns == CONCLAVE_FOREVER) {
        pthread_cond_wait(cond, &client->lock);
        return;
    }
    int64_t left_ns = deadline_ns - client_now_ns(client);
    left_ns = left_ns > 0 ? left_ns : 0;
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    int64_t ns = ts.tv_nsec + left_ns % 1000000000;
    ts.tv_sec += left_ns / 1000000000 + ns / 1000000000;
    ts.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(cond, &client->lock, &ts);
}

void handle_poll(struct conclave_client *client, int64_t deadline_ns)
{
    int64_t ms = -1;
    if (deadline_ns != INT64_MAX) {
        int64_t left_ns = deadline_ns - client_now_ns(client);
        ms = left_ns > 0 ? left_ns / 1000000 + 1 : 0;
        ms = ms < INT32_MAX ? ms : INT32_MAX;
    }
    struct pollfd fd = {.fd = client->epoll_fd, .events = POLLIN};
    (void)poll(&fd, 1, (int)ms);
}

/* One step of waiting in the program's loop mode: runs the loop, unless another thread does. Lock held, but released
 * meanwhile. */
static void wait_pumping(struct conclave_client *client, int64_t deadline_ns)
{
    if (client->dispatching) {
        int64_t soon_ns = client_now_ns(client) + (int64_t)OTHER_DISPATCHER_MS * 1000000;
        bool sooner = deadline_ns == CONCLAVE_FOREVER || soon_ns < deadline_ns;
        handle_sleep(client, &client->changed, sooner ? soon_ns : deadline_ns);
        return;
    }
    pthread_mutex_unlock(&client->lock);
    handle_poll(client, deadline_ns == CONCLAVE_FOREVER ? INT64_MAX : deadline_ns);
    (void)handle_dispatch(client);
    pthread_mutex_lock(&client->lock);
}

int client_wait(struct conclave_client *client, bool (*done)(void *ctx), void *ctx,
                int64_t deadline_ns)
{
    if (handle_is_inside(client)) {
        return CONCLAVE_EDEADLK;
    }
    while (!done(ctx)) {
        if (deadline_ns != CONCLAVE_FOREVER && client_now_ns(client) >= deadline_ns) {
            return CONCLAVE_ETIMEDOUT;
        }
        if (client->started) {
            handle_sleep(client, &client->changed, deadline_ns);
        } else {
            wait_pumping(client, deadline_ns);
        }
    }
    return 0;
}

static bool at_once(void *ctx)
{
    return true;
}

int client_may_wait(struct conclave_client *client)
{
    client_lock(client);
    int error = client_wait(client, at_once, NULL, 0);
    client_unlock(client);
    return error;
}

/* --- conclave_call
 * ------------------------------------------------------------------------------------ */

/* A thread that waits for one answer. */
struct blocking_call {
    bool done;
    int error;
    struct conclave_reply *reply; /* NULL: out of memory */
    bool wants_reply;
    pthread_cond_t cond;
};

static void call_answered(struct conclave_client *client, const struct conclave_reply *reply,
                          void *ctx)
{
    struct blocking_call *call = ctx;
    assert(!call->done);
    call->done = true;
    call->error = reply->error;
    if (call->wants_reply) {
        struct client_request *r = CONTAINER_OF(reply, struct client_request, reply);
        call->reply = request_take_reply(r);
        if (call->reply == NULL && call->error == 0) {
            call->error = CONCLAVE_ENOMEM;
        }
    }
    pthread_cond_signal(&call->cond);
    pthread_cond_broadcast(&client->changed);
}

static bool call_is_done(void *ctx)
{
    return ((struct blocking_call *)ctx)->done;
}

/* Lock held. */
static int blocking_call_call_run(struct conclave_client *client, const struct conclave_op *op,
                                  struct blocking_call *call)
{
    if (handle_is_inside(client)) {
        return CONCLAVE_EDEADLK;
    }
    int rc = handle_submit(client, op, call_answered, call, SUBMIT_CALL);
    if (rc != 0) {
        return rc;
    }
    /* Every request is answered once, and the call is on this stack: so only the answer ends the wait. */
    while (client->started && !call->done) {
        handle_sleep(client, &call->cond, CONCLAVE_FOREVER);
    }
    rc = client_wait(client, call_is_done, call, CONCLAVE_FOREVER);
    return rc != 0 ? rc : call->error;
}

int client_call(struct conclave_client *client, const struct conclave_op *op, int (*may)(void *ctx),
                void *ctx, struct conclave_reply **ret_reply)
{
    int rc = client_check(client);
    if (rc != 0) {
        return rc;
    }
    struct blocking_call call = {.wants_reply = ret_reply != NULL};
    rc = handle_cond_init(&call.cond);
    if (rc != 0) {
        return rc;
    }
    client_ref(client);
    client_lock(client);
    rc = may != NULL ? may(ctx) : 0;
    if (rc == 0) {
        rc = blocking_call_call_run(client, op, &call);
    }
    client_unlock(client);
    client_unref(client);
    pthread_cond_destroy(&call.cond);
    if (ret_reply != NULL) {
        *ret_reply = call.reply;
    }
    return rc;
}

int conclave_call(struct conclave_client *client, const struct conclave_op *op,
                  struct conclave_reply **ret_reply)
{
    return client_call(client, op, NULL, NULL, ret_reply);
}

/* --- conclave_client_wait_connected
 * ------------------------------------------------------------------- */

static bool is_decided(void *ctx)
{
    const struct conclave_client *client = ctx;
    return client_is_connected(client) || client->core.state == CONCLAVE_STATE_READ_ONLY ||
           client->core.final_error != 0;
}

int conclave_client_wait_connected(struct conclave_client *client, int64_t timeout_ms)
{
    int rc = client_check(client);
    if (rc != 0) {
        return rc;
    }
    client_ref(client);
    client_lock(client);
    rc = client_wait(client, is_decided, client, client_deadline_ns(client, timeout_ms));
    if (rc == 0) {
        rc = client->core.final_error;
    }
    client_unlock(client);
    client_unref(client);
    return rc;
}
