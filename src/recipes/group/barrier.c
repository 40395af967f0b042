/*
 * The plain barrier: one node. Each call is level-triggered: it asks what stands and ends when
 * that is what was wanted, so a lost answer is asked again.
 */
#include <conclave/barrier.h>

#include "client/core/acl.h"
#include "client/core/path.h"
#include "recipes/engine/handle_calls.h"
#include "recipes/engine/protected_create.h"

#include <stdlib.h>
#include <string.h>

struct conclave_barrier {
    struct host host; /* first */
    struct conclave_barrier_callbacks callbacks;
    void *ctx;
    char *path;
    char *parent; /* NULL: the root */
    struct conclave_acl *acl;
    size_t acl_count;
};

enum barrier_wish {
    BARRIER_SET,
    BARRIER_REMOVE,
    BARRIER_WAIT,
};

struct barrier_call {
    struct call call; /* first */
    enum barrier_wish wish;
    struct step step;
    struct watch_slot watch;
    struct ensure_path ensure;
    bool ensuring;
    bool now; /* timeout 0: one answer decides */
    conclave_barrier_fn done;
    void *ctx;
};

static struct barrier_call *of_call(struct call *call)
{
    return CONTAINER_OF(call, struct barrier_call, call);
}

static struct conclave_barrier *barrier_of(struct host *host)
{
    return CONTAINER_OF(host, struct conclave_barrier, host);
}

static void barrier_end(struct barrier_call *b, int error)
{
    watch_slot_clear(&b->watch);
    call_end(&b->call, error);
}

static void barrier_trouble(struct barrier_call *b, int error)
{
    if (error_is_fatal(error) || error == CONCLAVE_NOT_EMPTY) {
        barrier_end(b, error);
    } else {
        call_trouble(&b->call, error);
    }
}

static void barrier_on_ensured(struct ensure_path *ensure, int error)
{
    struct barrier_call *b = CONTAINER_OF(ensure, struct barrier_call, ensure);
    b->ensuring = false;
    if (error != 0) {
        barrier_trouble(b, error);
    }
    call_run(&b->call);
}

static void on_answer(struct step *step, const struct conclave_reply *reply)
{
    struct barrier_call *b = CONTAINER_OF(step, struct barrier_call, step);
    struct conclave_barrier *barrier = barrier_of(b->call.host);
    int error = reply->error;
    if (b->watch.pending) {
        watch_slot_answered(&b->watch, error == 0);
    }
    if (error == 0 && b->wish == BARRIER_WAIT) {
        if (b->now) {
            barrier_end(b, CONCLAVE_ETIMEDOUT);
        }
    } else if (error == 0 || (error == CONCLAVE_NODE_EXISTS && b->wish == BARRIER_SET) ||
               (error == CONCLAVE_NO_NODE && b->wish != BARRIER_SET)) {
        barrier_end(b, 0);
    } else if (error == CONCLAVE_NO_NODE && barrier->parent != NULL) {
        b->ensuring = ensure_path_start(&b->ensure, barrier->parent, barrier->acl,
                                        barrier->acl_count, barrier_on_ensured) == 0;
        if (!b->ensuring) {
            call_retry_later(&b->call);
        }
    } else {
        barrier_trouble(b, error);
    }
    call_run(&b->call);
}

static void barrier_ask(struct barrier_call *b)
{
    struct conclave_barrier *barrier = barrier_of(b->call.host);
    struct conclave_op op;
    if (b->wish == BARRIER_SET) {
        op = conclave_op_create(barrier->path, "", 0, CONCLAVE_PERSISTENT);
        op.acl = barrier->acl;
        op.acl_count = barrier->acl_count;
    } else if (b->wish == BARRIER_REMOVE) {
        op = conclave_op_path(CONCLAVE_OP_DELETE, barrier->path, -1);
    } else {
        /* getData leaves no watch behind when there is no node; a server that lags might not show
         * one that was put up a moment ago. */
        op = conclave_op_path(CONCLAVE_OP_GET, NULL, 0);
        op.linearizable = true;
        if (watch_slot_prepare(&b->watch, barrier->path, &op) != 0) {
            call_retry_later(&b->call);
            return;
        }
    }
    step_submit(&b->step, &op, on_answer);
}

static void barrier_run(struct call *call)
{
    struct barrier_call *b = of_call(call);
    if (b->step.busy || b->ensuring) {
        return;
    }
    bool goes_on = b->now && call->stop == CONCLAVE_ETIMEDOUT && call_can_send(call);
    if (call->stop != 0 && !goes_on) {
        barrier_end(b, call->stop);
    } else if (call_can_send(call) && !b->watch.armed) {
        barrier_ask(b);
    }
}

static void barrier_tell(struct call *call)
{
    struct barrier_call *b = of_call(call);
    if (b->done != NULL) {
        b->done(barrier_of(call->host), call->error, b->ctx);
    }
}

static void barrier_call_free(struct call *call)
{
    struct barrier_call *b = of_call(call);
    watch_slot_clear(&b->watch);
    ensure_path_finish(&b->ensure);
    free(b);
}

static const struct call_class barrier_call_class = {barrier_run, NULL, barrier_tell,
                                                     barrier_call_free};

static void barrier_on_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    call_run(&CONTAINER_OF(slot, struct barrier_call, watch)->call);
}

/* --- the handle ---------------------------------------------------------------------------- */

static void barrier_tell_closed(struct host *host, int why)
{
    struct conclave_barrier *barrier = barrier_of(host);
    if (barrier->callbacks.on_closed != NULL) {
        barrier->callbacks.on_closed(barrier, why, barrier->ctx);
    }
}

static void barrier_free_all(struct conclave_barrier *barrier)
{
    free(barrier->path);
    free(barrier->parent);
    free(barrier->acl);
    free(barrier);
}

static void barrier_free(struct host *host)
{
    barrier_free_all(barrier_of(host));
}

static const struct host_class barrier_class = {
    .tell_closed = barrier_tell_closed,
    .free = barrier_free,
};

static bool barrier_copy_options(struct conclave_barrier *barrier,
                                 const struct conclave_barrier_options *o)
{
    barrier->path = strdup(o->path);
    if (barrier->path == NULL) {
        return false;
    }
    size_t parent_len = (size_t)(path_name(barrier->path) - barrier->path) - 1;
    if (parent_len > 0) {
        barrier->parent = strndup(barrier->path, parent_len);
        if (barrier->parent == NULL) {
            return false;
        }
    }
    return acl_copy_option(o->acl, o->acl_count, &barrier->acl, &barrier->acl_count);
}

int conclave_barrier_open(struct conclave_recipes *rt,
                          const struct conclave_barrier_options *options,
                          const struct conclave_barrier_callbacks *callbacks, void *ctx,
                          struct conclave_barrier **ret)
{
    int error = client_check(rt->client);
    if (error != 0) {
        return error;
    }
    if (options == NULL || options->size < sizeof *options || options->path == NULL ||
        !path_is_valid(options->path, false) || strcmp(options->path, "/") == 0) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_barrier *barrier = calloc(1, sizeof *barrier);
    if (barrier == NULL || !barrier_copy_options(barrier, options)) {
        if (barrier != NULL) {
            barrier_free_all(barrier);
        }
        return CONCLAVE_ENOMEM;
    }
    if (callbacks != NULL) {
        barrier->callbacks = *callbacks;
    }
    barrier->ctx = ctx;
    client_lock(rt->client);
    if (state_is_final(client_state(rt->client))) {
        client_unlock(rt->client);
        barrier_free_all(barrier);
        return CONCLAVE_ECLOSED;
    }
    host_init(&barrier->host, rt, &barrier_class);
    *ret = barrier;
    client_unlock(rt->client);
    return 0;
}

void conclave_barrier_close(struct conclave_barrier *barrier)
{
    host_close(&barrier->host);
}

int conclave_barrier_close_wait(struct conclave_barrier *barrier, int64_t timeout_ms)
{
    return host_close_wait(&barrier->host, timeout_ms);
}

void conclave_barrier_destroy(struct conclave_barrier *barrier)
{
    if (barrier != NULL) {
        host_destroy(&barrier->host);
    }
}

/* --- the calls ------------------------------------------------------------------------------- */

/* Lock held. */
static int barrier_call_create(struct conclave_barrier *barrier, enum barrier_wish wish,
                               int64_t timeout_ms, struct barrier_call **ret)
{
    if (barrier->host.closing.ending) {
        return CONCLAVE_ECLOSED;
    }
    struct barrier_call *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return CONCLAVE_ENOMEM;
    }
    call_init(&b->call, &barrier->host, &barrier_call_class);
    step_init(&b->step, &b->call.handle);
    watch_slot_init(&b->watch, &b->call.handle, barrier_on_watch);
    ensure_path_init(&b->ensure, &b->call.handle);
    b->wish = wish;
    b->now = timeout_ms == 0;
    *ret = b;
    return 0;
}

static int barrier_block(struct conclave_barrier *barrier, enum barrier_wish wish,
                         int64_t timeout_ms)
{
    struct conclave_client *client = barrier->host.handle.rt->client;
    struct barrier_call *b;
    int error = recipes_may_block(barrier->host.handle.rt);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    error = barrier_call_create(barrier, wish, timeout_ms, &b);
    if (error == 0) {
        error = call_wait(&b->call, timeout_ms);
        call_release(&b->call);
    }
    client_unlock(client);
    return error;
}

static int barrier_begin(struct conclave_barrier *barrier, enum barrier_wish wish,
                         int64_t timeout_ms, conclave_barrier_fn done, void *ctx)
{
    struct conclave_client *client = barrier->host.handle.rt->client;
    struct barrier_call *b;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    error = barrier_call_create(barrier, wish, timeout_ms, &b);
    if (error == 0) {
        b->done = done;
        b->ctx = ctx;
        call_start(&b->call, timeout_ms);
    }
    client_unlock(client);
    return error;
}

int conclave_barrier_set(struct conclave_barrier *barrier, int64_t timeout_ms)
{
    return barrier_block(barrier, BARRIER_SET, timeout_ms);
}

int conclave_barrier_set_async(struct conclave_barrier *barrier, int64_t timeout_ms,
                               conclave_barrier_fn done, void *ctx)
{
    return barrier_begin(barrier, BARRIER_SET, timeout_ms, done, ctx);
}

int conclave_barrier_remove(struct conclave_barrier *barrier, int64_t timeout_ms)
{
    return barrier_block(barrier, BARRIER_REMOVE, timeout_ms);
}

int conclave_barrier_remove_async(struct conclave_barrier *barrier, int64_t timeout_ms,
                                  conclave_barrier_fn done, void *ctx)
{
    return barrier_begin(barrier, BARRIER_REMOVE, timeout_ms, done, ctx);
}

int conclave_barrier_wait(struct conclave_barrier *barrier, int64_t timeout_ms)
{
    return barrier_block(barrier, BARRIER_WAIT, timeout_ms);
}

int conclave_barrier_wait_async(struct conclave_barrier *barrier, int64_t timeout_ms,
                                conclave_barrier_fn done, void *ctx)
{
    return barrier_begin(barrier, BARRIER_WAIT, timeout_ms, done, ctx);
}
