/*
 * The handle that follows the record: a mirror of its node, and syncs that prove that the mirror is up to date.
 *
 * The answer to a sync comes after the events of all writes that were acknowledged before it was sent. If the mirror has
 * no read outstanding then, it was right when the sync was sent. conclave_redis_may_write reads three numbers that are
 * changed under the client's lock; only `writable_epoch` permits a write.
 */
#include "recipes/follow/follow_master.h"

#include "client/core/path.h"
#include "client/core/sized.h"
#include "recipes/engine/handle_shutdown.h"
#include "recipes/engine/tree_mirror.h"
#include "recipes/follow/master_view.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { STALE_MIN_MS = 30, AGAIN_MS = 20, TROUBLE_MS = 250, PROOFS = 3, MS = 1000000 };

struct conclave_redis {
    struct handle handle; /* first */
    struct conclave_redis_callbacks callbacks;
    void *ctx;
    struct closing closing;
    struct mirror mirror;
    char *path;
    enum conclave_redis_layout layout;
    int64_t stale_ns;

    struct conclave_redis_view *known; /* NULL: not read yet */
    int64_t czxid;                     /* of the node that was read; 0: no node */
    int64_t gem_epoch;                 /* counted here, as the gem's record has none */
    bool read_due;                     /* the mirror has data that were not read yet */
    uint64_t told;                     /* known.change in the last on_change */

    struct step proof;     /* a sync */
    int64_t proof_sent_ns; /* when the one in flight was sent */
    bool proved;           /* at least once: there is something to report */
    struct client_timer
        prove; /* when the next sync is due; also repeats what failed for want of memory */
    struct client_timer stale; /* when the last proof becomes too old */

    _Atomic int64_t known_epoch;
    _Atomic int64_t writable_epoch; /* 0: none */
    _Atomic int64_t fresh_until_ns;
};

static void follow_run(void *self);

static struct conclave_client *follow_master_client_of(const struct conclave_redis *r)
{
    return r->handle.rt->client;
}

static void prove_in(struct conclave_redis *r, int64_t ns)
{
    client_timer_start(follow_master_client_of(r), &r->prove,
                       client_now_ns(follow_master_client_of(r)) + ns);
}

static bool is_fresh(const struct conclave_redis *r)
{
    return client_now_ns(follow_master_client_of(r)) < atomic_load(&r->fresh_until_ns);
}

/* --- what is known ---------------------------------------------------------------------- */

/* Lock held. Something that a view shows may have changed. */
static void follow_master_show(struct conclave_redis *r)
{
    struct conclave_redis_view *v = r->known;
    bool serves = v != NULL && redis_state_serves(v->state) && !r->closing.ending;
    assert(!serves || (v->master != NULL && v->epoch > 0)); /* or a write would have no fence */
    assert(!r->proved || v != NULL);
    atomic_store(&r->writable_epoch, serves ? v->epoch : 0);
    atomic_store(&r->known_epoch, v != NULL && !r->closing.ending ? v->epoch : 0);
    if (v != NULL) {
        v->stale = !is_fresh(r);
        v->writable = serves && !v->stale;
    }
    if (v != NULL && r->proved) {
        v->change++;
        handle_post(&r->handle);
        client_notify(follow_master_client_of(r));
    }
}

static void epoch_of_gem(struct conclave_redis *r, struct conclave_redis_view *next, int64_t czxid)
{
    const struct conclave_redis_view *v = r->known;
    bool same = v != NULL && v->master != NULL && next->master != NULL && czxid == r->czxid &&
                strcmp(v->master, next->master) == 0;
    r->gem_epoch += same || next->master == NULL ? 0 : 1;
    next->epoch = next->master == NULL ? 0 : r->gem_epoch;
}

/* Makes `next` the known view, and owns it. */
static void know(struct conclave_redis *r, struct conclave_redis_view *next,
                 const struct mirror_item *item)
{
    int64_t czxid = item == NULL ? 0 : item->stat.czxid;
    if (r->layout == CONCLAVE_REDIS_LAYOUT_GEM) {
        epoch_of_gem(r, next, czxid);
    }
    assert((item == NULL) == (next->state == CONCLAVE_REDIS_NONE));
    next->mzxid = item == NULL ? 0 : item->stat.mzxid;
    next->change = r->known == NULL ? 0 : r->known->change;
    conclave_redis_view_free(r->known);
    r->known = next;
    r->czxid = czxid;
    follow_master_show(r);
}

/* Reads what the mirror has. 0 or CONCLAVE_ENOMEM: the read is still due. */
static int read_record(struct conclave_redis *r)
{
    struct mirror_view view;
    struct conclave_redis_view *next = NULL;
    int error = mirror_view(&r->mirror, &view);
    if (error != 0) {
        return error;
    }
    const struct mirror_item *item = view.count == 0 ? NULL : view.items[0];
    bool same = r->known != NULL && r->czxid == (item == NULL ? 0 : item->stat.czxid) &&
                r->known->mzxid == (item == NULL ? 0 : item->stat.mzxid);
    if (!same && item == NULL) {
        next = redis_view_none();
        error = next == NULL ? CONCLAVE_ENOMEM : 0;
    } else if (!same) {
        error = redis_view_read(r->layout, item->node.data, item->node.data_len, &next);
    }
    if (error == 0) {
        r->read_due = false;
    }
    if (next != NULL) {
        know(r, next, item);
    }
    mirror_view_clear(&view);
    return error;
}

/* --- proofs ------------------------------------------------------------------------------- */

/* All changes that the mirror knows of were read. */
static bool is_settled(const struct conclave_redis *r)
{
    return r->mirror.fresh && r->mirror.in_flight == 0 && list_empty(&r->mirror.wanted) &&
           !r->read_due;
}

static void proof_taken(struct conclave_redis *r)
{
    assert(r->known != NULL && !r->read_due);
    bool was_stale = !r->proved || r->known->stale;
    r->proved = true;
    atomic_store(&r->fresh_until_ns, r->proof_sent_ns + r->stale_ns);
    client_timer_start(follow_master_client_of(r), &r->stale, r->proof_sent_ns + r->stale_ns);
    if (was_stale && is_fresh(r)) {
        follow_master_show(r);
    }
    client_timer_start(follow_master_client_of(r), &r->prove,
                       r->proof_sent_ns + r->stale_ns / PROOFS);
}

static void on_proof(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_redis *r = CONTAINER_OF(step, struct conclave_redis, proof);
    if (!r->closing.ending && reply->error == 0 && is_settled(r)) {
        proof_taken(r);
    } else if (!r->closing.ending) {
        prove_in(r, (reply->error == 0 ? AGAIN_MS : TROUBLE_MS) * INT64_C(1000000));
    }
    follow_run(r);
}

static void prove(struct conclave_redis *r)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, r->path, 0);
    if (!r->proof.busy && r->mirror.fresh && !client_timer_active(&r->prove)) {
        assert(!r->closing.ending);
        r->proof_sent_ns = client_now_ns(follow_master_client_of(r));
        step_submit(&r->proof, &op, on_proof);
    }
}

static void on_prove(struct conclave_client *client, void *ctx)
{
    struct conclave_redis *r = ctx;
    handle_post(&r->handle);
    follow_run(r);
}

static void on_stale(struct conclave_client *client, void *ctx)
{
    struct conclave_redis *r = ctx;
    if (!r->closing.ending && !is_fresh(r)) {
        follow_master_show(r);
    }
}

/* --- the machine ----------------------------------------------------------------------------- */

static void follow_run(void *self)
{
    struct conclave_redis *r = self;
    if (r->closing.ending) {
        if (!r->closing.due) {
            follow_master_show(r);
            mirror_stop(&r->mirror);
            client_timer_stop(follow_master_client_of(r), &r->prove);
            client_timer_stop(follow_master_client_of(r), &r->stale);
            closing_done(&r->closing);
        }
        return;
    }
    if (r->read_due && r->mirror.fresh && read_record(r) != 0) {
        prove_in(r, AGAIN_MS * MS); /* out of memory: tries again */
        return;
    }
    prove(r);
}

static void follow_master_on_told(struct mirror *m)
{
    struct conclave_redis *r = CONTAINER_OF(m, struct conclave_redis, mirror);
    r->read_due = r->read_due || m->fresh;
    if (m->fresh && r->known != NULL && r->known->stale) {
        client_timer_stop(follow_master_client_of(r),
                          &r->prove); /* proves at once after an absence */
    }
    follow_run(r);
}

static void follow_master_on_failed(struct mirror *m, int error)
{
    struct conclave_redis *r = CONTAINER_OF(m, struct conclave_redis, mirror);
    closing_begin(&r->closing, error);
    follow_run(r);
}

static void follow_on_state(struct handle *h, enum conclave_state state)
{
    struct conclave_redis *r = CONTAINER_OF(h, struct conclave_redis, handle);
    handle_ref(h);
    if (state_is_final(state)) {
        closing_begin(&r->closing,
                      state == CONCLAVE_STATE_CLOSED ? CONCLAVE_ECLOSED : CONCLAVE_AUTH_FAILED);
    }
    mirror_on_state(&r->mirror, state);
    follow_run(r);
    handle_unref(h);
}

/* Called by the dispatcher. */
static bool follow_master_tell_change(struct conclave_redis *r)
{
    struct conclave_client *client = follow_master_client_of(r);
    if (!r->proved || r->closing.ending || r->known->change == r->told) {
        return false;
    }
    if (r->callbacks.on_change == NULL) {
        r->told = r->known->change;
        return false;
    }
    struct conclave_redis_view *view = redis_view_copy(r->known);
    if (view == NULL) {
        prove_in(r, AGAIN_MS * MS); /* and posts it again */
        return false;
    }
    assert(view->change > r->told);
    r->told = view->change;
    client_unlock(client);
    r->callbacks.on_change(r, view, r->ctx);
    conclave_redis_view_free(view);
    client_lock(client);
    return true;
}

static void follow_master_call_closed(void *self, int why)
{
    struct conclave_redis *r = self;
    if (r->callbacks.on_closed != NULL) {
        r->callbacks.on_closed(r, why, r->ctx);
    }
}

static bool follow_run_due(struct handle *h)
{
    struct conclave_redis *r = CONTAINER_OF(h, struct conclave_redis, handle);
    return follow_master_tell_change(r) || closing_tell(&r->closing, follow_master_call_closed, r);
}

static void follow_free(struct handle *h)
{
    struct conclave_redis *r = CONTAINER_OF(h, struct conclave_redis, handle);
    client_timer_stop(follow_master_client_of(r), &r->prove);
    client_timer_stop(follow_master_client_of(r), &r->stale);
    mirror_finish(&r->mirror);
    conclave_redis_view_free(r->known);
    free(r->path);
    free(r);
}

static const struct handle_class follow_class = {follow_on_state, follow_run_due, follow_free};

/* --- the public functions ---------------------------------------------------------------------- */

static bool follow_master_options_valid(const struct conclave_redis_options *o)
{
    return o->stale_ms >= STALE_MIN_MS && o->stale_ms <= INT64_MAX / (2 * MS) &&
           (unsigned)o->layout <= CONCLAVE_REDIS_LAYOUT_GEM &&
           (o->cluster == NULL || (o->cluster[0] != '\0' && strchr(o->cluster, '/') == NULL)) &&
           (o->path == NULL || path_is_valid(o->path, false));
}

/* The record's path, on the heap. NULL without memory. */
static char *record_path(const struct conclave_redis_options *o)
{
    const char *name = o->layout == CONCLAVE_REDIS_LAYOUT_GEM ? "nodes" : "current";
    if (o->path != NULL) {
        return path_join(o->path, name);
    }
    char *root = path_join("/redis_failover", o->cluster == NULL ? "default" : o->cluster);
    char *path = root == NULL ? NULL : path_join(root, name);
    free(root);
    return path;
}

static int follow_make(const struct conclave_redis_options *o, struct conclave_redis **ret)
{
    struct conclave_redis *r = calloc(1, sizeof *r);
    int error = CONCLAVE_ENOMEM;
    if (r == NULL || (r->path = record_path(o)) == NULL) {
        goto out;
    }
    if (!path_is_valid(r->path, false)) {
        error = CONCLAVE_EINVAL;
        goto out;
    }
    error = mirror_init(&r->mirror, &r->handle, r->path, 0, follow_master_on_told,
                        follow_master_on_failed);
    if (error != 0) {
        goto out;
    }
    r->layout = o->layout;
    r->stale_ns = o->stale_ms * MS;
    *ret = r;
    return 0;
out:
    if (r != NULL) {
        free(r->path);
    }
    free(r);
    return error;
}

int conclave_redis_open(struct conclave_recipes *rt, const struct conclave_redis_options *options,
                        const struct conclave_redis_callbacks *callbacks, void *ctx,
                        struct conclave_redis **ret)
{
    struct conclave_redis_options own = CONCLAVE_REDIS_OPTIONS_INIT;
    struct conclave_redis_callbacks calls = CONCLAVE_REDIS_CALLBACKS_INIT;
    struct conclave_redis *r = NULL;
    int error = recipes_check(rt);
    if (error == 0) {
        error = sized_read_both(&own, options, &calls, callbacks);
    }
    if (error == 0) {
        error = follow_master_options_valid(&own) ? follow_make(&own, &r) : CONCLAVE_EINVAL;
    }
    if (error != 0) {
        return error;
    }
    r->callbacks = calls;
    r->ctx = ctx;
    client_lock(rt->client);
    if (state_is_final(client_state(rt->client))) {
        client_unlock(rt->client);
        free(r->mirror.path);
        free(r->path);
        free(r);
        return CONCLAVE_ECLOSED;
    }
    handle_init(&r->handle, rt, &follow_class);
    closing_init(&r->closing, &r->handle);
    step_init(&r->proof, &r->handle);
    client_timer_init(&r->prove, on_prove, r);
    client_timer_init(&r->stale, on_stale, r);
    *ret = r; /* before a callback can run */
    mirror_start(&r->mirror);
    client_unlock(rt->client);
    return 0;
}

int conclave_redis_may_write(const struct conclave_redis *r, int64_t epoch)
{
    if (client_now_ns(follow_master_client_of(r)) >= atomic_load(&r->fresh_until_ns)) {
        return CONCLAVE_EDISCONNECTED;
    }
    if (epoch != 0 && atomic_load(&r->writable_epoch) == epoch) {
        return 0;
    }
    return epoch != 0 && atomic_load(&r->known_epoch) == epoch ? CONCLAVE_EBUSY : CONCLAVE_EFENCED;
}

int conclave_redis_check(struct conclave_redis *r, int64_t epoch, const void *answer, size_t len)
{
    struct info_answer said;
    int error = client_check(follow_master_client_of(r));
    if (error == 0) {
        error = conclave_redis_may_write(r, epoch);
    }
    if (error != 0) {
        return error;
    }
    if (!redis_answer_read(answer, len, &said)) {
        return CONCLAVE_EPROTO;
    }
    client_lock(follow_master_client_of(r));
    const struct conclave_redis_view *v = r->known;
    bool other_process =
        said.run_id.len > 0 && v->run_id[0] != '\0' && !slice_equal_str(said.run_id, v->run_id);
    bool other_epoch = v->epoch != epoch;
    client_unlock(follow_master_client_of(r));
    if (other_epoch) {
        return CONCLAVE_EFENCED;
    }
    return slice_equal_str(said.role, "master") && !other_process ? 0 : CONCLAVE_ENOTOWNER;
}

/* --- waiting ----------------------------------------------------------------------------- */

struct follow_waiter {
    struct conclave_redis *redis;
    uint64_t after;
    bool for_master;
};

static bool has_come(void *ctx)
{
    const struct follow_waiter *w = ctx;
    const struct conclave_redis *r = w->redis;
    if (r->closing.ending) {
        return true;
    }
    return r->proved &&
           (w->for_master ? r->known->writable && is_fresh(r) : r->known->change > w->after);
}

static int wait_for(struct follow_waiter *w, int64_t timeout_ms, struct conclave_redis_view **ret)
{
    struct conclave_redis *r = w->redis;
    struct conclave_client *client = follow_master_client_of(r);
    int error = recipes_may_block(r->handle.rt);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    handle_ref(&r->handle);
    error = client_wait(client, has_come, w, client_deadline_ns(client, timeout_ms));
    if (r->closing.ending) {
        error = r->closing.why;
    } else if (error == 0) {
        struct conclave_redis_view *view = redis_view_copy(r->known);
        error = view == NULL ? CONCLAVE_ENOMEM : 0;
        if (view != NULL) {
            *ret = view;
        }
    }
    handle_unref(&r->handle);
    client_unlock(client);
    return error;
}

int conclave_redis_wait_change(struct conclave_redis *r, uint64_t after, int64_t timeout_ms,
                               struct conclave_redis_view **ret)
{
    struct follow_waiter w = {.redis = r, .after = after};
    return wait_for(&w, timeout_ms, ret);
}

int conclave_redis_wait_master(struct conclave_redis *r, int64_t timeout_ms,
                               struct conclave_redis_view **ret)
{
    struct follow_waiter w = {.redis = r, .for_master = true};
    return wait_for(&w, timeout_ms, ret);
}

struct conclave_recipes *follow_recipes(const struct conclave_redis *redis)
{
    return redis->handle.rt;
}

char *follow_path(const struct conclave_redis *redis, const char *below)
{
    const char *end = strrchr(redis->path, '/');
    assert(end != NULL);
    size_t len = (size_t)(end - redis->path);
    char *path = malloc(len + strlen(below) + 2);
    if (path != NULL) {
        memcpy(path, redis->path, len);
        path[len] = '/';
        memcpy(path + len + 1, below, strlen(below) + 1);
    }
    return path;
}

bool follow_is_native(const struct conclave_redis *redis)
{
    return redis->layout == CONCLAVE_REDIS_LAYOUT_NATIVE;
}

void conclave_redis_close(struct conclave_redis *r)
{
    closing_ask(&r->closing, follow_run, r);
}

int conclave_redis_close_wait(struct conclave_redis *r, int64_t timeout_ms)
{
    conclave_redis_close(r);
    return closing_wait(&r->closing, timeout_ms);
}

void conclave_redis_destroy(struct conclave_redis *r)
{
    if (r != NULL) {
        closing_destroy(&r->closing);
    }
}
