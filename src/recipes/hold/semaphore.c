/*
 * A semaphore is a lock whose first N contenders hold it (lock_position.c).
 *
 * The first waiter waits until one of the N holders leaves: it alone watches the list. The waiters
 * behind it watch the node before them, as in a lock. But a granted contender does not leave, so it
 * writes its node's data once. This wakes the next waiter, which reads its place again. So each
 * departure costs one list by the granted waiter, one write, and one list by the next waiter, with
 * any number of waiters.
 *
 * N is in the parent's data. It is compared after the node was made: from then on the parent
 * cannot be reaped. If N was changed, contenders that came before hold, and wait, by the earlier one: the first
 * contender behind one of them cannot tell which of these it does, and watches the list.
 */
#include "recipes/hold/lease_pool.h"

#include "client/core/sized.h"
#include <conclave/semaphore.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conclave_semaphore {
    struct conclave_lock *lock;
    struct conclave_semaphore_callbacks callbacks;
    void *ctx;
};

/* --- N --------------------------------------------------------------------------- */

static bool semaphore_current(const struct conclave_lock *l)
{
    return l->c.place.node != NULL && contender_is_current(&l->c, &l->probe);
}

struct conclave_op semaphore_limit_op(const struct conclave_lock *l, char text[LIMIT_TEXT_MAX],
                                      int32_t version)
{
    int len = snprintf(text, LIMIT_TEXT_MAX, "%" PRId32, l->permits);
    return conclave_op_set(l->c.path, text, (size_t)len, version);
}

enum semaphore_limit semaphore_compare(const struct conclave_lock *l,
                                       const struct conclave_reply *reply)
{
    char text[LIMIT_TEXT_MAX];
    struct conclave_op own = semaphore_limit_op(l, text, -1);
    if (reply->data_len == 0) {
        return LIMIT_UNSET;
    }
    bool same = reply->data_len == own.data_len && memcmp(reply->data, text, own.data_len) == 0;
    /* kazoo does not mind what is no number */
    bool number = strspn(reply->data, "0123456789") == reply->data_len;
    return same || (l->pool != NULL && !number) ? LIMIT_SAME : LIMIT_OTHER;
}

static void semaphore_limit_set(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_lock *l = lock_of(contender_of_step(step));
    if (!semaphore_current(l)) {
        /* of an earlier node */
    } else if (reply->error == 0) {
        l->limit_known = true;
    } else if (reply->error != CONCLAVE_BAD_VERSION) { /* else another was first: read it */
        contender_trouble(&l->c, reply->error);
    }
}

static void semaphore_on_limit(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_lock *l = lock_of(contender_of_step(step));
    char text[LIMIT_TEXT_MAX];
    if (!semaphore_current(l)) {
        return; /* of an earlier node */
    }
    if (reply->error != 0) {
        contender_trouble(&l->c, reply->error);
        return;
    }
    switch (semaphore_compare(l, reply)) {
    case LIMIT_SAME:
        l->limit_known = true;
        l->limit_zxid = reply->stat.mzxid;
        break;
    case LIMIT_UNSET: {
        struct conclave_op op = semaphore_limit_op(l, text, reply->stat.version);
        contender_submit(&l->c, &l->probe, &op, semaphore_limit_set);
        break;
    }
    default:
        lock_fail(l, CONCLAVE_ECONFLICT);
        break;
    }
}

static void semaphore_marked(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_lock *l = lock_of(contender_of_step(step));
    if (semaphore_current(l) && reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        l->mark_due = true;
        contender_trouble(&l->c, reply->error);
    }
}

void semaphore_joined(struct conclave_lock *l)
{
    /* Curator's semaphores leave it to their users that all have the same N. */
    l->limit_known = l->pool != NULL;
    l->limit_zxid = 0;
    l->mark_due = false;
}

void semaphore_run(struct conclave_lock *l)
{
    if (l->probe.busy || l->c.node == NULL) {
        return;
    }
    if (!l->limit_known) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, l->c.path, 0);
        contender_submit(&l->c, &l->probe, &op, semaphore_on_limit);
    } else if (l->mark_due) {
        struct conclave_op op = conclave_op_set(l->c.node, l->c.id, strlen(l->c.id), -1);
        l->mark_due = false;
        contender_submit(&l->c, &l->probe, &op, semaphore_marked);
    }
}

/* --- the public functions ---------------------------------------------------------- */

enum { ANYBODY = 1 }; /* owner: who asks may release */

static void semaphore_on_lost(struct conclave_lock *lock, int why, int64_t stop_within_ms,
                              void *ctx)
{
    struct conclave_semaphore *s = ctx;
    s->callbacks.on_lost(s, why, stop_within_ms, s->ctx);
}

static void semaphore_on_closed(struct conclave_lock *lock, int why, void *ctx)
{
    struct conclave_semaphore *s = ctx;
    s->callbacks.on_closed(s, why, s->ctx);
}

int conclave_semaphore_open(struct conclave_recipes *rt,
                            const struct conclave_semaphore_options *options,
                            const struct conclave_semaphore_callbacks *callbacks, void *ctx,
                            struct conclave_semaphore **ret)
{
    struct conclave_semaphore_options own = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
    struct conclave_semaphore_callbacks calls = CONCLAVE_SEMAPHORE_CALLBACKS_INIT;
    struct conclave_lock_options lock = CONCLAVE_LOCK_OPTIONS_INIT;
    struct conclave_lock_callbacks lock_callbacks = CONCLAVE_LOCK_CALLBACKS_INIT;
    if (sized_read_both(&own, options, &calls, callbacks) != 0 || own.permits < 1 || own.take < 0 ||
        own.take > own.permits || own.naming == CONCLAVE_NAMING_PLAIN) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_semaphore *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return CONCLAVE_ENOMEM;
    }
    s->callbacks = calls;
    lock_callbacks.on_lost = calls.on_lost != NULL ? semaphore_on_lost : NULL;
    lock_callbacks.on_closed = calls.on_closed != NULL ? semaphore_on_closed : NULL;
    s->ctx = ctx;
    lock.path = own.path;
    lock.id = own.id;
    lock.naming = own.naming;
    lock.lease = own.lease;
    lock.acl = own.acl;
    lock.acl_count = own.acl_count;
    int error = lock_create(rt, &lock, &lock_callbacks, s, own.permits, own.take > 0 ? own.take : 1,
                            &s->lock);
    if (error != 0) {
        free(s);
        return error;
    }
    *ret = s;
    return 0;
}

int conclave_semaphore_acquire(struct conclave_semaphore *s, int64_t timeout_ms,
                               struct conclave_token *ret_token)
{
    return lock_acquire(s->lock, ANYBODY, timeout_ms, ret_token);
}

/* The state of an asynchronous call. */
struct semaphore_call {
    struct conclave_semaphore *semaphore;
    conclave_semaphore_fn fn;
    conclave_semaphore_done_fn done;
    void *ctx;
};

static void semaphore_on_acquired(struct conclave_lock *lock, int error,
                                  struct conclave_token token, void *ctx)
{
    struct semaphore_call call = *(struct semaphore_call *)ctx;
    free(ctx);
    call.fn(call.semaphore, error, token, call.ctx);
}

static void semaphore_on_released(struct conclave_lock *lock, int error, void *ctx)
{
    struct semaphore_call call = *(struct semaphore_call *)ctx;
    free(ctx);
    call.done(call.semaphore, error, call.ctx);
}

int conclave_semaphore_acquire_async(struct conclave_semaphore *s, int64_t timeout_ms,
                                     conclave_semaphore_fn fn, void *ctx)
{
    struct semaphore_call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        return CONCLAVE_ENOMEM;
    }
    *call = (struct semaphore_call){.semaphore = s, .fn = fn, .ctx = ctx};
    int error =
        conclave_lock_acquire_async(s->lock, ANYBODY, timeout_ms, semaphore_on_acquired, call);
    if (error != 0) {
        free(call);
    }
    return error;
}

int conclave_semaphore_release(struct conclave_semaphore *s, int64_t timeout_ms)
{
    return lock_release(s->lock, ANYBODY, timeout_ms);
}

int conclave_semaphore_release_async(struct conclave_semaphore *s, conclave_semaphore_done_fn fn,
                                     void *ctx)
{
    if (fn == NULL) {
        return conclave_lock_release_async(s->lock, ANYBODY, NULL, NULL);
    }
    struct semaphore_call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        return CONCLAVE_ENOMEM;
    }
    *call = (struct semaphore_call){.semaphore = s, .done = fn, .ctx = ctx};
    int error = conclave_lock_release_async(s->lock, ANYBODY, semaphore_on_released, call);
    if (error != 0) {
        free(call);
    }
    return error;
}

int conclave_semaphore_cancel(struct conclave_semaphore *s)
{
    return conclave_lock_cancel(s->lock);
}

bool conclave_semaphore_is_held(const struct conclave_semaphore *s)
{
    return conclave_lock_is_held(s->lock);
}

int64_t conclave_semaphore_lease_left_ms(const struct conclave_semaphore *s)
{
    return conclave_lock_lease_left_ms(s->lock);
}

struct conclave_token conclave_semaphore_token(const struct conclave_semaphore *s)
{
    return conclave_lock_token(s->lock);
}

int64_t conclave_semaphore_lease_until_ns(const struct conclave_semaphore *s)
{
    return conclave_lock_lease_until_ns(s->lock);
}

void conclave_semaphore_node(const struct conclave_semaphore *s, char *buf, size_t len)
{
    conclave_lock_node(s->lock, buf, len);
}

int conclave_semaphore_fenced_multi(struct conclave_semaphore *s, const struct conclave_op *parts,
                                    size_t count, struct conclave_reply **ret_reply)
{
    return conclave_lock_fenced_multi(s->lock, parts, count, ret_reply);
}

void conclave_semaphore_close(struct conclave_semaphore *s)
{
    conclave_lock_close(s->lock);
}

int conclave_semaphore_close_wait(struct conclave_semaphore *s, int64_t timeout_ms)
{
    return conclave_lock_close_wait(s->lock, timeout_ms);
}

void conclave_semaphore_destroy(struct conclave_semaphore *s)
{
    if (s != NULL) {
        conclave_lock_destroy(s->lock);
        free(s);
    }
}
