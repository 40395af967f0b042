/*
 * The plain barrier: one node. Each call is level-triggered: it asks whether the node exists and ends
 * when that is the wanted state, so after a lost answer it asks again.
 *
 *   ASK --it stands, and its removal is waited for--> WATCH --event--> ASK        ASK, WATCH --> ENDED
 */
#include <conclave/barrier.h>

#include "base/transition.h"
#include "client/core/acl.h"
#include "client/core/sized.h"
#include "recipes/engine/handle_calls.h"
#include "recipes/engine/option_copies.h"

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

enum barrier_phase {
    BARRIER_ASK,
    BARRIER_WATCH,
    BARRIER_ENDED,
};

static const uint16_t BARRIER_NEXT[] = {
    [BARRIER_ASK] = TRANSITION_TO(BARRIER_WATCH) | TRANSITION_TO(BARRIER_ENDED),
    [BARRIER_WATCH] = TRANSITION_TO(BARRIER_ASK) | TRANSITION_TO(BARRIER_ENDED),
    [BARRIER_ENDED] = 0,
};

/* The request of a public function. */
struct barrier_request {
    enum barrier_wish wish;
    conclave_barrier_fn done;
    void *ctx;
};

struct barrier_call {
    struct call call; /* first */
    enum barrier_phase phase;
    struct watch_slot watch;
    struct barrier_request request;
};

static struct barrier_call *of_call(struct call *call)
{
    return CONTAINER_OF(call, struct barrier_call, call);
}

static struct conclave_barrier *barrier_of(struct host *host)
{
    return CONTAINER_OF(host, struct conclave_barrier, host);
}

static void barrier_to(struct barrier_call *b, enum barrier_phase phase)
{
    transition_check(BARRIER_NEXT, b->phase, phase);
    assert(phase != BARRIER_WATCH || (b->watch.armed && b->request.wish == BARRIER_WAIT));
    b->phase = phase;
}

static void barrier_end(struct call *call, int error)
{
    struct barrier_call *b = of_call(call);
    barrier_to(b, BARRIER_ENDED);
    watch_slot_clear(&b->watch);
    call_end(call, error);
}

static void on_answer(struct call *call, const struct conclave_reply *reply)
{
    struct barrier_call *b = of_call(call);
    struct conclave_barrier *barrier = barrier_of(call->host);
    enum barrier_wish wish = b->request.wish;
    int error = reply->error;
    assert(b->phase == BARRIER_ASK);
    if (wish == BARRIER_WAIT) {
        watch_slot_answered(&b->watch, error == 0);
    }
    if (error == 0 && wish == BARRIER_WAIT && call->now) {
        barrier_end(call, CONCLAVE_ETIMEDOUT);
    } else if (error == 0 && wish == BARRIER_WAIT) {
        barrier_to(b, BARRIER_WATCH);
    } else if (error == 0 || (error == CONCLAVE_NODE_EXISTS && wish == BARRIER_SET) ||
               (error == CONCLAVE_NO_NODE && wish != BARRIER_SET)) {
        barrier_end(call, 0);
    } else if (error == CONCLAVE_NO_NODE && barrier->parent != NULL) {
        call_ensure(call, barrier->parent, barrier->acl, barrier->acl_count);
    } else if (error == CONCLAVE_NOT_EMPTY) {
        barrier_end(call, error);
    } else {
        call_trouble(call, error);
    }
}

static void barrier_ask(struct barrier_call *b)
{
    struct conclave_barrier *barrier = barrier_of(b->call.host);
    struct conclave_op op;
    switch (b->request.wish) {
    case BARRIER_SET:
        op = conclave_op_create(barrier->path, "", 0, CONCLAVE_PERSISTENT);
        op.acl = barrier->acl;
        op.acl_count = barrier->acl_count;
        call_send(&b->call, &op, on_answer);
        break;
    case BARRIER_REMOVE:
        op = conclave_op_path(CONCLAVE_OP_DELETE, barrier->path, -1);
        call_send(&b->call, &op, on_answer);
        break;
    case BARRIER_WAIT:
        /* getData leaves no watch behind when there is no node; a server that lags might not show
         * one that was put up a moment ago. */
        op = conclave_op_path(CONCLAVE_OP_GET, NULL, 0);
        op.linearizable = true;
        call_send_watch(&b->call, &b->watch, barrier->path, op, on_answer);
        break;
    }
}

static void barrier_run(struct call *call)
{
    struct barrier_call *b = of_call(call);
    if (call_gives_up(call)) {
        barrier_end(call, call->stop);
    } else if (call_can_send(call) && b->phase == BARRIER_ASK) {
        barrier_ask(b);
    }
}

static void barrier_tell(struct call *call)
{
    struct barrier_call *b = of_call(call);
    if (b->request.done != NULL) {
        b->request.done(barrier_of(call->host), call->error, b->request.ctx);
    }
}

static void barrier_call_free(struct call *call)
{
    struct barrier_call *b = of_call(call);
    watch_slot_clear(&b->watch);
    free(b);
}

static const struct call_class barrier_call_class = {
    .run = barrier_run,
    .fail = barrier_end,
    .tell = barrier_tell,
    .free = barrier_call_free,
};

static void barrier_on_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    struct barrier_call *b = CONTAINER_OF(slot, struct barrier_call, watch);
    if (b->phase == BARRIER_WATCH) {
        barrier_to(b, BARRIER_ASK);
    }
    call_run(&b->call);
}

/* --- the handle ---------------------------------------------------------------------------- */

static void barrier_tell_closed(struct host *host, int why)
{
    struct conclave_barrier *barrier = barrier_of(host);
    if (barrier->callbacks.on_closed != NULL) {
        barrier->callbacks.on_closed(barrier, why, barrier->ctx);
    }
}

static void barrier_free(struct host *host)
{
    struct conclave_barrier *barrier = barrier_of(host);
    free(barrier->path);
    free(barrier->parent);
    free(barrier->acl);
    free(barrier);
}

static const struct host_class barrier_class = {
    .tell_closed = barrier_tell_closed,
    .free = barrier_free,
};

static int barrier_copy_options(struct conclave_barrier *barrier,
                                const struct conclave_barrier_options *o)
{
    size_t parent_len = (size_t)(path_name(o->path) - o->path) - 1;
    barrier->path = strdup(o->path);
    barrier->parent = parent_len > 0 ? strndup(o->path, parent_len) : NULL;
    bool copied = acl_copy_option(o->acl, o->acl_count, &barrier->acl, &barrier->acl_count) &&
                  barrier->path != NULL && (parent_len == 0 || barrier->parent != NULL);
    return copied ? 0 : CONCLAVE_ENOMEM;
}

int conclave_barrier_open(struct conclave_recipes *rt,
                          const struct conclave_barrier_options *options,
                          const struct conclave_barrier_callbacks *callbacks, void *ctx,
                          struct conclave_barrier **ret)
{
    struct conclave_barrier_options own = CONCLAVE_BARRIER_OPTIONS_INIT;
    struct conclave_barrier_callbacks calls = CONCLAVE_BARRIER_CALLBACKS_INIT;
    if (sized_read_both(&own, options, &calls, callbacks) != 0 || !option_path_valid(own.path)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_barrier *barrier = calloc(1, sizeof *barrier);
    if (barrier == NULL) {
        return CONCLAVE_ENOMEM;
    }
    barrier->callbacks = calls;
    barrier->ctx = ctx;
    int error = host_open(&barrier->host, rt, &barrier_class, barrier_copy_options(barrier, &own));
    if (error == 0) {
        *ret = barrier;
        client_unlock(rt->client);
    }
    return error;
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
    host_destroy(barrier == NULL ? NULL : &barrier->host);
}

/* --- the calls ------------------------------------------------------------------------------- */

static int barrier_call_create(struct host *host, void *request, struct call **ret)
{
    struct barrier_call *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return CONCLAVE_ENOMEM;
    }
    call_init(&b->call, host, &barrier_call_class);
    watch_slot_init(&b->watch, &b->call.handle, barrier_on_watch);
    b->request = *(const struct barrier_request *)request;
    *ret = &b->call;
    return 0;
}

static int barrier_wait(struct conclave_barrier *barrier, enum barrier_wish wish,
                        int64_t timeout_ms)
{
    struct barrier_request request = {.wish = wish};
    return host_call_wait(&barrier->host, barrier_call_create, &request, timeout_ms, NULL);
}

static int barrier_begin(struct conclave_barrier *barrier, enum barrier_wish wish,
                         int64_t timeout_ms, conclave_barrier_fn done, void *ctx)
{
    struct barrier_request request = {wish, done, ctx};
    return host_call(&barrier->host, barrier_call_create, &request, timeout_ms);
}

int conclave_barrier_set(struct conclave_barrier *barrier, int64_t timeout_ms)
{
    return barrier_wait(barrier, BARRIER_SET, timeout_ms);
}

int conclave_barrier_set_async(struct conclave_barrier *barrier, int64_t timeout_ms,
                               conclave_barrier_fn done, void *ctx)
{
    return barrier_begin(barrier, BARRIER_SET, timeout_ms, done, ctx);
}

int conclave_barrier_remove(struct conclave_barrier *barrier, int64_t timeout_ms)
{
    return barrier_wait(barrier, BARRIER_REMOVE, timeout_ms);
}

int conclave_barrier_remove_async(struct conclave_barrier *barrier, int64_t timeout_ms,
                                  conclave_barrier_fn done, void *ctx)
{
    return barrier_begin(barrier, BARRIER_REMOVE, timeout_ms, done, ctx);
}

int conclave_barrier_wait(struct conclave_barrier *barrier, int64_t timeout_ms)
{
    return barrier_wait(barrier, BARRIER_WAIT, timeout_ms);
}

int conclave_barrier_wait_async(struct conclave_barrier *barrier, int64_t timeout_ms,
                                conclave_barrier_fn done, void *ctx)
{
    return barrier_begin(barrier, BARRIER_WAIT, timeout_ms, done, ctx);
}
