#include "recipes/cache/cache.h"

#include "client/core/path.h"
#include "client/core/sized.h"
#include "recipes/engine/mirror_nodes.h"
#include "recipes/engine/option_copies.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct conclave_cache *cache_of(struct host *host)
{
    return CONTAINER_OF(host, struct conclave_cache, host);
}

static struct conclave_client *client_of(const struct conclave_cache *c)
{
    return c->host.handle.rt->client;
}

const char *conclave_cache_change_name(enum conclave_cache_change change)
{
    static const char *const names[] = {"CREATED", "CHANGED", "DELETED"};
    return (unsigned)change < sizeof names / sizeof names[0] ? names[change] : "UNKNOWN";
}

/* --- the mirror --------------------------------------------------------------------- */

static void post(struct conclave_cache *c)
{
    c->due = true;
    handle_post(&c->host.handle);
    client_notify(client_of(c));
}

static void cache_on_told(struct mirror *m)
{
    struct conclave_cache *c = CONTAINER_OF(m, struct conclave_cache, mirror);
    assert(!c->ended && c->error == 0);
    if (!m->fresh) {
        c->stale_since_ns = client_now_ns(client_of(c));
    } else if (!c->loaded) {
        mirror_begin_change(m);
        c->loaded = true;
        mirror_end_change(m);
    }
    post(c);
}

/* Keeps what it has; only reading ends. */
static void cache_on_failed(struct mirror *m, int error)
{
    struct conclave_cache *c = CONTAINER_OF(m, struct conclave_cache, mirror);
    assert(error != 0 && c->error == 0);
    if (m->fresh) {
        c->stale_since_ns = client_now_ns(client_of(c));
    }
    mirror_begin_change(m);
    c->error = error;
    mirror_end_change(m);
    mirror_halt(m);
    post(c);
}

static bool cache_takes(const struct mirror *m, const char *relative)
{
    return path_patterns_take(&CONTAINER_OF((uintptr_t)m, struct conclave_cache, mirror)->patterns,
                              relative);
}

/* --- telling ------------------------------------------------------------------------- */

static void cache_on_again(struct conclave_client *client, void *ctx)
{
    post(ctx);
}

static struct conclave_cache_status status_of(const struct conclave_cache *c)
{
    const struct mirror *m = &c->mirror;
    return (struct conclave_cache_status){
        .size = sizeof(struct conclave_cache_status),
        .loaded = c->loaded,
        .fresh = m->fresh,
        .stale_ms = m->fresh ? 0 : (client_now_ns(client_of(c)) - c->stale_since_ns) / 1000000,
        .error = c->error,
        .zxid = m->zxid,
        .nodes = m->present,
        .bytes = m->bytes,
        .unreadable = m->unreadable,
    };
}

static void tell_events(struct conclave_cache *c, const struct mirror_change *changes, size_t count)
{
    for (size_t i = 0; i < count && c->callbacks.on_event != NULL; i++) {
        const struct mirror_item *before = changes[i].before;
        const struct mirror_item *after = changes[i].after;
        assert(before != after);
        struct conclave_cache_event event = {
            .change = before == NULL  ? CONCLAVE_CACHE_CREATED
                      : after == NULL ? CONCLAVE_CACHE_DELETED
                                      : CONCLAVE_CACHE_CHANGED,
            .before = before == NULL ? NULL : &before->node,
            .after = after == NULL ? NULL : &after->node,
        };
        c->callbacks.on_event(c, &event, c->ctx);
    }
}

/* No lock held: what was told is the dispatcher's. */
static void tell_state(struct conclave_cache *c, const struct conclave_cache_status *status,
                       bool settled)
{
    if (settled && c->callbacks.on_settled != NULL) {
        c->callbacks.on_settled(c, status->zxid, c->ctx);
    }
    if (status->loaded && !c->told_loaded) {
        c->told_loaded = true;
        if (c->callbacks.on_loaded != NULL) {
            c->callbacks.on_loaded(c, c->ctx);
        }
    }
    if (status->fresh != c->told_fresh || status->error != c->told_error) {
        c->told_fresh = status->fresh;
        c->told_error = status->error;
        if (c->callbacks.on_status != NULL) {
            c->callbacks.on_status(c, status, c->ctx);
        }
    }
}

static bool cache_run_due(struct host *host)
{
    struct conclave_cache *c = cache_of(host);
    struct mirror_change *changes;
    size_t count;
    if (!c->due || host->closing.ending) {
        return false;
    }
    if (mirror_take_changes(&c->mirror, &changes, &count) != 0) {
        recipes_retry_later(host->handle.rt, &c->again);
        return false;
    }
    c->due = false;
    struct conclave_cache_status status = status_of(c);
    bool unsettled = count > 0 || c->mirror.unsettled || !c->told_fresh;
    bool settled = unsettled && mirror_is_settled(&c->mirror);
    c->mirror.unsettled = unsettled && !settled;
    client_unlock(client_of(c));
    tell_events(c, changes, count);
    mirror_changes_free(changes, count);
    tell_state(c, &status, settled);
    client_lock(client_of(c));
    return true;
}

static void cache_tell_closed(struct host *host, int why)
{
    struct conclave_cache *c = cache_of(host);
    if (c->callbacks.on_closed != NULL) {
        c->callbacks.on_closed(c, why, c->ctx);
    }
}

/* --- the handle ---------------------------------------------------------------------- */

static void cache_on_state(struct host *host, enum conclave_state state)
{
    mirror_on_state(&cache_of(host)->mirror, state);
}

static void cache_stop(struct host *host)
{
    struct conclave_cache *c = cache_of(host);
    mirror_begin_change(&c->mirror);
    c->ended = true;
    mirror_end_change(&c->mirror);
    mirror_stop(&c->mirror);
    client_timer_stop(client_of(c), &c->again);
}

static void cache_free(struct host *host)
{
    struct conclave_cache *c = cache_of(host);
    mirror_finish(&c->mirror);
    if (c->has_readers) {
        (void)pthread_rwlock_destroy(&c->readers);
    }
    free(c->patterns.only);
    free(c->patterns.without);
    free(c);
}

static const struct host_class cache_class = {
    .on_state = cache_on_state,
    .run_due = cache_run_due,
    .stop = cache_stop,
    .tell_closed = cache_tell_closed,
    .free = cache_free,
};

static bool patterns_valid(const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (list == NULL || !path_pattern_valid(list[i])) {
            return false;
        }
    }
    return true;
}

static bool cache_options_valid(const struct conclave_cache_options *o)
{
    return path_is_valid(o->path, false) && o->depth >= CONCLAVE_CACHE_WHOLE &&
           o->depth <= MIRROR_WHOLE && o->debounce_ms >= 0 &&
           patterns_valid(o->only, o->only_count) && patterns_valid(o->without, o->without_count);
}

static int readers_init(struct conclave_cache *c)
{
    pthread_rwlockattr_t attr;
    (void)pthread_rwlockattr_init(&attr);
    (void)pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    int failed = pthread_rwlock_init(&c->readers, &attr);
    (void)pthread_rwlockattr_destroy(&attr);
    c->has_readers = failed == 0;
    return failed == 0 ? 0 : CONCLAVE_ENOMEM;
}

static int patterns_copy(const char *const *list, size_t count, char ***ret, size_t *ret_count)
{
    if (count > 0) {
        *ret = texts_copy(list, count);
        *ret_count = count;
    }
    return count == 0 || *ret != NULL ? 0 : CONCLAVE_ENOMEM;
}

static int cache_copy_options(struct conclave_cache *c, const struct conclave_cache_options *o)
{
    struct mirror *m = &c->mirror;
    int error = mirror_init(m, &c->host.handle, o->path, o->depth < 0 ? MIRROR_WHOLE : o->depth,
                            cache_on_told, cache_on_failed);
    if (error == 0) {
        error = readers_init(c);
    }
    if (error == 0) {
        error = patterns_copy(o->only, o->only_count, &c->patterns.only, &c->patterns.only_count);
    }
    if (error == 0) {
        error = patterns_copy(o->without, o->without_count, &c->patterns.without,
                              &c->patterns.without_count);
    }
    if (error == 0) {
        m->readers = &c->readers;
        m->takes = cache_takes;
        m->max_bytes = o->max_bytes;
        m->stats_only = o->stats_only;
        m->tracks = true;
        m->debounce_ms = o->debounce_ms;
    }
    return error;
}

int conclave_cache_open(struct conclave_recipes *rt, const struct conclave_cache_options *options,
                        const struct conclave_cache_callbacks *callbacks, void *ctx,
                        struct conclave_cache **ret)
{
    struct conclave_cache_options own = CONCLAVE_CACHE_OPTIONS_INIT;
    struct conclave_cache_callbacks calls = CONCLAVE_CACHE_CALLBACKS_INIT;
    if (sized_read_both(&own, options, &calls, callbacks) != 0 || !cache_options_valid(&own)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_cache *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return CONCLAVE_ENOMEM;
    }
    c->callbacks = calls;
    c->ctx = ctx;
    client_timer_init(&c->again, cache_on_again, c);
    int error = host_open(&c->host, rt, &cache_class, cache_copy_options(c, &own));
    if (error == 0) {
        *ret = c; /* before a callback can run */
        c->stale_since_ns = client_now_ns(rt->client);
        mirror_start(&c->mirror);
        client_unlock(rt->client);
    }
    return error;
}

/* --- asking -------------------------------------------------------------------------- */

int conclave_cache_status(struct conclave_cache *c, struct conclave_cache_status *status)
{
    struct conclave_client *client = client_of(c);
    int error = client_check(client);
    if (error != 0 || status == NULL || !sized_can_write(status)) {
        return error != 0 ? error : CONCLAVE_EINVAL;
    }
    client_lock(client);
    struct conclave_cache_status now = status_of(c);
    client_unlock(client);
    sized_write(status, &now);
    return 0;
}

struct cache_waiter {
    struct conclave_cache *cache;
    int64_t zxid;
    bool asked; /* the mirror was asked to catch up */
};

static bool cache_shows(void *ctx)
{
    struct cache_waiter *w = ctx;
    const struct mirror *m = &w->cache->mirror;
    if (w->cache->error != 0 || (m->fresh && m->zxid >= w->zxid)) {
        return true;
    }
    if (m->fresh && !w->asked) {
        w->asked = true;
        mirror_catch_up(&w->cache->mirror);
    }
    return false;
}

int conclave_cache_wait(struct conclave_cache *c, int64_t zxid, int64_t timeout_ms)
{
    struct conclave_recipes *rt = c->host.handle.rt;
    struct cache_waiter w = {.cache = c, .zxid = zxid};
    int error = recipes_may_block(rt);
    if (error != 0) {
        return error;
    }
    client_lock(rt->client);
    error = host_wait(&c->host, cache_shows, &w, timeout_ms);
    if (error == 0) {
        error = c->error;
    }
    client_unlock(rt->client);
    return error;
}

void conclave_cache_close(struct conclave_cache *c)
{
    host_close(&c->host);
}

int conclave_cache_close_wait(struct conclave_cache *c, int64_t timeout_ms)
{
    return host_close_wait(&c->host, timeout_ms);
}

void conclave_cache_destroy(struct conclave_cache *c)
{
    host_destroy(c == NULL ? NULL : &c->host);
}
