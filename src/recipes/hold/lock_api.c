/* The public functions of a lock: what they check, copy and ask of the machine in lock.c. */
#include "recipes/hold/lock.h"

#include "client/core/acl.h"
#include "client/core/path.h"
#include "recipes/engine/option_copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOCK_ID_MAX = 1024 };

/* --- a handle -------------------------------------------------------------------- */

static bool lock_options_valid(const struct conclave_lock_options *o)
{
    if (o->size < sizeof *o || o->path == NULL || !path_is_valid(o->path, false) ||
        strcmp(o->path, "/") == 0) {
        return false;
    }
    if (o->id != NULL && (strchr(o->id, '\n') != NULL || strlen(o->id) > LOCK_ID_MAX)) {
        return false;
    }
    bool plain = o->kind == CONCLAVE_LOCK_EXCLUSIVE;
    return (unsigned)o->kind <= CONCLAVE_LOCK_WRITE &&
           (unsigned)o->naming <= CONCLAVE_NAMING_KAZOO &&
           (plain || o->naming != CONCLAVE_NAMING_CURATOR_LATCH) && o->lease.heartbeat_ms >= 0 &&
           o->lease.grace_ms >= 0;
}

static bool lock_copy_options(struct conclave_lock *l, const struct conclave_lock_options *o)
{
    l->options = *o;
    l->path = strdup(o->path);
    l->id = o->id != NULL ? strdup(o->id) : default_id();
    if (!acl_copy_option(o->acl, o->acl_count, &l->acl, &l->options.acl_count)) {
        return false;
    }
    l->options.path = l->path;
    l->options.id = l->id;
    l->options.acl = l->acl;
    return l->path != NULL && l->id != NULL;
}

void lock_free_copies(struct conclave_lock *l)
{
    if (l != NULL) {
        free(l->path);
        free(l->id);
        free(l->acl);
        free(l);
    }
}

int lock_create(struct conclave_recipes *rt, const struct conclave_lock_options *options,
                const struct conclave_lock_callbacks *callbacks, void *ctx, int32_t permits,
                struct conclave_lock **ret)
{
    int error = client_check(rt->client);
    if (error != 0) {
        return error;
    }
    if (options == NULL || !lock_options_valid(options)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_lock *l = calloc(1, sizeof *l);
    if (l == NULL || !lock_copy_options(l, options)) {
        lock_free_copies(l);
        return CONCLAVE_ENOMEM;
    }
    if (callbacks != NULL) {
        l->callbacks = *callbacks;
    }
    l->ctx = ctx;
    l->permits = permits;
    client_lock(rt->client);
    error = contender_may_start(rt, &l->options.lease);
    if (error != 0) {
        lock_free_copies(l);
    } else {
        lock_init(l, rt);
        *ret = l;
    }
    client_unlock(rt->client);
    return error;
}

int conclave_lock_open(struct conclave_recipes *rt, const struct conclave_lock_options *options,
                       const struct conclave_lock_callbacks *callbacks, void *ctx,
                       struct conclave_lock **ret)
{
    return lock_create(rt, options, callbacks, ctx, 0, ret);
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
    struct conclave_client *client = lock_rt(l)->client;
    struct lock_request request = {.owner = owner};
    int error = recipes_may_block(lock_rt(l));
    if (error != 0) {
        return error;
    }
    client_lock(client);
    handle_ref(&l->c.handle);
    lock_request_add(l, &request, timeout_ms);
    error = client_wait(client, lock_request_done, &request, CONCLAVE_FOREVER);
    if (!request.done) { /* it may not wait here */
        lock_answer(l, &request, error);
        contender_run(&l->c);
    }
    lock_confirm(l, &request);
    error = request.error;
    if (error == 0 && ret_token != NULL) {
        *ret_token = request.token;
    }
    handle_unref(&l->c.handle);
    client_unlock(client);
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
    struct conclave_client *client = lock_rt(l)->client;
    int error = client_check(client);
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
    client_lock(client);
    if (l->c.closing.ending) {
        error = CONCLAVE_ECLOSED;
        free(request);
    } else {
        lock_request_add(l, request, timeout_ms);
    }
    client_unlock(client);
    return error;
}

int conclave_lock_cancel(struct conclave_lock *l)
{
    struct conclave_client *client = lock_rt(l)->client;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    while (!list_empty(&l->requests)) {
        lock_answer(l, CONTAINER_OF(l->requests.next, struct lock_request, link),
                    CONCLAVE_ECANCELED);
    }
    contender_run(&l->c);
    client_unlock(client);
    return 0;
}

/* --- asking ---------------------------------------------------------------------- */

bool conclave_lock_is_held(const struct conclave_lock *l)
{
    return grant_until_ns(&l->c.grant, lock_rt(l)) != 0;
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
    struct conclave_client *client = lock_rt(l)->client;
    struct lock_release release = {.done = false};
    bool last;
    int error = recipes_may_block(lock_rt(l));
    if (error != 0) {
        return error;
    }
    client_lock(client);
    handle_ref(&l->c.handle);
    error = lock_let_go(l, owner, &last);
    if (error == 0 && last && lock_is_leaving(l)) {
        list_push_back(&l->releases, &release.link);
        error = client_wait(client, lock_release_done, &release,
                            client_deadline_ns(client, timeout_ms));
        if (!release.done) {
            list_remove(&release.link);
        }
    }
    handle_unref(&l->c.handle);
    client_unlock(client);
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
    struct conclave_client *client = lock_rt(l)->client;
    struct lock_change_result result = {.done = false};
    int error = recipes_may_block(lock_rt(l));
    if (error != 0) {
        return error;
    }
    client_lock(client);
    handle_ref(&l->c.handle);
    error = lock_change_begin(l, to, &result);
    if (error == 0) {
        contender_run(&l->c);
        error = client_wait(client, lock_change_finished, &result,
                            client_deadline_ns(client, timeout_ms));
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
    handle_unref(&l->c.handle);
    client_unlock(client);
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
