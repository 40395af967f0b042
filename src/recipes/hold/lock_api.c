/* The public functions of a lock: their checks, copies and requests to the machine in lock.c. */
#include "recipes/hold/lease_pool.h"

#include "client/core/sized.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- a handle -------------------------------------------------------------------- */

static bool lock_options_valid(const struct conclave_lock_options *o)
{
    return (unsigned)o->kind <= CONCLAVE_LOCK_WRITE && o->naming != CONCLAVE_NAMING_FIXED &&
           (o->kind == CONCLAVE_LOCK_EXCLUSIVE ||
            (o->naming != CONCLAVE_NAMING_CURATOR_LATCH && o->naming != CONCLAVE_NAMING_PLAIN));
}

int lock_create(struct conclave_recipes *rt, const struct conclave_lock_options *options,
                const struct conclave_lock_callbacks *callbacks, void *ctx, int32_t permits,
                int32_t take, struct conclave_lock **ret)
{
    struct conclave_lock_options own = CONCLAVE_LOCK_OPTIONS_INIT;
    struct conclave_lock_callbacks calls = CONCLAVE_LOCK_CALLBACKS_INIT;
    struct contender *c;
    struct lease_pool *pool = NULL;
    bool valid = sized_read_both(&own, options, &calls, callbacks) == 0 && lock_options_valid(&own);
    struct contender_options common = {own.path,   own.id,  own.naming,
                                       &own.lease, own.acl, own.acl_count};
    if (valid && permits > 0 && own.naming != CONCLAVE_NAMING_NATIVE) {
        int error = pool_create(rt, &own, take, &pool);
        if (error != 0) {
            return error;
        }
        common.naming = CONCLAVE_NAMING_FIXED; /* no line: its node decides nothing */
    }
    int error = contender_open(rt, &lock_class, &common, valid ? &own : NULL, ctx, &c);
    if (error != 0) {
        pool_discard(pool);
        return error;
    }
    struct conclave_lock *l = lock_of(c);
    l->options = own;
    l->callbacks = calls;
    l->permits = permits;
    l->take = take;
    l->pool = pool;
    if (pool != NULL) {
        pool_attach(pool, l);
    }
    *ret = l;
    contender_opened(c);
    return 0;
}

int conclave_lock_open(struct conclave_recipes *rt, const struct conclave_lock_options *options,
                       const struct conclave_lock_callbacks *callbacks, void *ctx,
                       struct conclave_lock **ret)
{
    return lock_create(rt, options, callbacks, ctx, 0, 0, ret);
}

/* --- acquiring ------------------------------------------------------------------- */

uint64_t lock_owner(uint64_t owner)
{
    /* No number that a program would choose. */
    return owner != 0 ? owner : (UINT64_C(1) << 63) | (uint64_t)syscall(SYS_gettid);
}

static bool lock_request_done(void *ctx)
{
    return ((struct lock_request *)ctx)->done;
}

int lock_acquire(struct conclave_lock *l, uint64_t owner, int64_t timeout_ms,
                 struct conclave_token *ret_token)
{
    struct lock_request request = {.owner = owner};
    int error = handle_begin_wait(&l->c.handle);
    if (error != 0) {
        return error;
    }
    lock_request_add(l, &request, timeout_ms);
    error = handle_wait(&l->c.handle, lock_request_done, &request, CONCLAVE_FOREVER);
    if (!request.done) { /* it may not wait here */
        lock_answer(l, &request, error);
        contender_run(&l->c);
    }
    lock_confirm(l, &request);
    error = request.error;
    if (error == 0 && ret_token != NULL) {
        *ret_token = request.token;
    }
    handle_end_wait(&l->c.handle);
    return error;
}

int conclave_lock_acquire(struct conclave_lock *l, int64_t timeout_ms,
                          struct conclave_token *ret_token)
{
    return lock_acquire(l, lock_owner(0), timeout_ms, ret_token);
}

int conclave_lock_try(struct conclave_lock *l, struct conclave_token *ret_token)
{
    return lock_acquire(l, lock_owner(0), 0, ret_token);
}

int conclave_lock_acquire_async(struct conclave_lock *l, uint64_t owner, int64_t timeout_ms,
                                conclave_lock_fn fn, void *ctx)
{
    int error = client_check(lock_rt(l)->client);
    if (error == 0 && fn == NULL) {
        error = CONCLAVE_EINVAL;
    }
    if (error != 0) {
        return error;
    }
    struct lock_request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        return CONCLAVE_ENOMEM;
    }
    request->owner = lock_owner(owner);
    request->fn = fn;
    request->ctx = ctx;
    error = contender_begin_call(&l->c);
    if (error != 0) {
        free(request);
    } else {
        lock_request_add(l, request, timeout_ms);
        contender_end_call(&l->c);
    }
    return error;
}

int conclave_lock_cancel(struct conclave_lock *l)
{
    int error = contender_begin_call(&l->c);
    if (error == 0) {
        lock_answer_all(l, CONCLAVE_ECANCELED);
        contender_end_call(&l->c);
    }
    return error == CONCLAVE_ECLOSED ? 0 : error; /* its end has answered all */
}

/* --- asking ---------------------------------------------------------------------- */

bool conclave_lock_is_held(const struct conclave_lock *l)
{
    return contender_has_lease(&l->c);
}

int64_t conclave_lock_lease_left_ms(const struct conclave_lock *l)
{
    return grant_left_ms(&l->c.grant, lock_rt(l));
}

int64_t conclave_lock_lease_until_ns(const struct conclave_lock *l)
{
    return grant_until_ns(&l->c.grant, lock_rt(l));
}

struct conclave_token conclave_lock_token(const struct conclave_lock *l)
{
    return grant_token(&l->c.grant, lock_rt(l));
}

void conclave_lock_node(const struct conclave_lock *l, char *buf, size_t len)
{
    contender_node_name(&l->c, buf, len);
}

/* --- releasing ------------------------------------------------------------------- */

/* Whether a node of ours is still to be deleted. */
static bool lock_is_leaving(const struct conclave_lock *l)
{
    return l->deletions > 0 || l->c.state == CONTENDER_LEAVING;
}

static bool lock_release_done(void *ctx)
{
    return ((struct lock_release *)ctx)->done;
}

int lock_release(struct conclave_lock *l, uint64_t owner, int64_t timeout_ms)
{
    struct lock_release release = {.done = false};
    bool last;
    int error = handle_begin_wait(&l->c.handle);
    if (error != 0) {
        return error;
    }
    error = lock_let_go(l, owner, &last);
    if (error == 0 && last && lock_is_leaving(l)) {
        list_push_back(&l->releases, &release.link);
        error = handle_wait(&l->c.handle, lock_release_done, &release, timeout_ms);
        if (!release.done) {
            list_remove(&release.link);
        }
    }
    handle_end_wait(&l->c.handle);
    return error;
}

int conclave_lock_release(struct conclave_lock *l, int64_t timeout_ms)
{
    return lock_release(l, lock_owner(0), timeout_ms);
}

int conclave_lock_release_async(struct conclave_lock *l, uint64_t owner, conclave_lock_done_fn fn,
                                void *ctx)
{
    struct conclave_client *client = lock_rt(l)->client;
    struct lock_release *release = NULL;
    bool last;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    if (fn != NULL && (release = calloc(1, sizeof *release)) == NULL) {
        return CONCLAVE_ENOMEM;
    }
    client_lock(client);
    error = lock_let_go(l, lock_owner(owner), &last);
    if (error != 0 || release == NULL) {
        free(release);
    } else {
        release->fn = fn;
        release->ctx = ctx;
        if (last && lock_is_leaving(l)) {
            list_push_back(&l->releases, &release->link);
        } else {
            list_push_back(&l->released, &release->link);
            handle_post(&l->c.handle);
        }
    }
    client_unlock(client);
    return error;
}

/* --- changing the kind ------------------------------------------------------------ */

static bool lock_change_finished(void *ctx)
{
    return ((struct lock_change_result *)ctx)->done;
}

static int lock_change_begin(struct conclave_lock *l, enum name_kind to,
                             struct lock_change_result *result)
{
    bool fits = to == NAME_READ ? l->kind == NAME_WRITE : l->kind == NAME_READ;
    if (l->c.state == CONTENDER_STOPPING && l->owner == lock_owner(0)) {
        return CONCLAVE_ELOST;
    }
    if (l->c.state != CONTENDER_HELD || l->owner != lock_owner(0)) {
        return CONCLAVE_ENOTOWNER;
    }
    if (l->change != CHANGE_NONE || l->change_create.phase != PROTECTED_IDLE ||
        l->change_step.busy) {
        return CONCLAVE_EBUSY;
    }
    if (!fits) {
        return CONCLAVE_EINVAL;
    }
    if (to == NAME_READ) {
        int error = lock_change_down(l);
        l->change_result = error == 0 ? result : NULL;
        return error;
    }
    l->change_result = result; /* it may fail at once */
    lock_change_up(l);
    return 0;
}

static int lock_api_change(struct conclave_lock *l, enum name_kind to, int64_t timeout_ms)
{
    struct lock_change_result result = {.done = false};
    int error = handle_begin_wait(&l->c.handle);
    if (error != 0) {
        return error;
    }
    error = lock_change_begin(l, to, &result);
    if (error == 0) {
        contender_run(&l->c);
        error = handle_wait(&l->c.handle, lock_change_finished, &result, timeout_ms);
        if (result.done) {
            error = result.error;
        } else {
            l->change_result = NULL;
            if (to == NAME_WRITE) {
                lock_change_end(l, error);
                contender_run(&l->c);
            }
        }
    }
    handle_end_wait(&l->c.handle);
    return error;
}

int conclave_lock_downgrade(struct conclave_lock *l, int64_t timeout_ms)
{
    return lock_api_change(l, NAME_READ, timeout_ms);
}

int conclave_lock_try_upgrade(struct conclave_lock *l, int64_t timeout_ms)
{
    return lock_api_change(l, NAME_WRITE, timeout_ms);
}

/* --- fenced transaction ----------------------------------------------------------- */

int conclave_lock_fenced_multi(struct conclave_lock *l, const struct conclave_op *parts,
                               size_t count, struct conclave_reply **ret_reply)
{
    return contender_fenced_multi(&l->c, parts, count, ret_reply);
}

/* --- the end --------------------------------------------------------------------- */

void conclave_lock_close(struct conclave_lock *l)
{
    contender_close(&l->c);
}

int conclave_lock_close_wait(struct conclave_lock *l, int64_t timeout_ms)
{
    return contender_close_wait(&l->c, timeout_ms);
}

void conclave_lock_destroy(struct conclave_lock *l)
{
    if (l != NULL) {
        closing_destroy(&l->c.closing);
    }
}
