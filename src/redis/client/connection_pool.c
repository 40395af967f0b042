#include "redis/client/connection_pool.h"

#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int connection_pool_init(struct connection_pool *pool, size_t count)
{
    *pool = (struct connection_pool){.count = count};
    pool->places = calloc(count, sizeof *pool->places);
    if (pool->places == NULL) {
        return CONCLAVE_ENOMEM;
    }
    thread_signals_init(&pool->signals);
    return 0;
}

void connection_pool_finish(struct connection_pool *pool)
{
    assert(pool->running == 0);
    for (size_t i = 0; i < pool->count; i++) {
        assert(!pool->places[i].busy);
        redis_socket_close(pool->places[i].socket);
    }
    free(pool->places);
    thread_signals_finish(&pool->signals);
}

int connection_pool_enter(struct connection_pool *pool)
{
    thread_signals_lock(&pool->signals);
    bool closing = pool->closing;
    pool->running += closing ? 0 : 1;
    thread_signals_unlock(&pool->signals);
    return closing ? CONCLAVE_ECLOSED : 0;
}

void connection_pool_leave(struct connection_pool *pool)
{
    thread_signals_lock(&pool->signals);
    assert(pool->running > 0);
    pool->running--;
    thread_signals_wake(&pool->signals);
    thread_signals_unlock(&pool->signals);
}

static bool leads_to(const struct pooled_connection *c, const struct command_target *target)
{
    return c->socket != NULL && c->target.epoch == target->epoch &&
           strcmp(c->target.server, target->server) == 0;
}

static void place_clear(struct pooled_connection *c)
{
    redis_socket_close(c->socket);
    c->socket = NULL;
}

/* Lock held. The best free place: with a connection to the target, then an empty one, then any. NULL: all are busy. */
static struct pooled_connection *find_place(struct connection_pool *pool,
                                            const struct command_target *target)
{
    struct pooled_connection *best = NULL;
    for (size_t i = 0; i < pool->count; i++) {
        struct pooled_connection *c = &pool->places[i];
        if (c->busy) {
            continue;
        }
        if (leads_to(c, target) && redis_socket_is_quiet(c->socket)) {
            return c;
        }
        if (leads_to(c, target)) {
            place_clear(c); /* the server has ended it */
        }
        if (best == NULL || (best->socket != NULL && c->socket == NULL)) {
            best = c;
        }
    }
    if (best != NULL) {
        place_clear(best);
    }
    return best;
}

int connection_pool_take(struct connection_pool *pool, const struct command_target *target,
                         int64_t deadline_ns, struct pooled_connection **ret)
{
    struct pooled_connection *c = NULL;
    int error = 0;
    thread_signals_lock(&pool->signals);
    while (error == 0 && !pool->closing && (c = find_place(pool, target)) == NULL) {
        error = thread_signals_wait(&pool->signals, deadline_ns);
    }
    if (c != NULL) {
        assert(!c->busy && (c->socket == NULL || c->target.epoch == target->epoch));
        c->busy = true;
        c->target = *target;
        *ret = c;
    } else if (error == 0) {
        error = CONCLAVE_ECLOSED;
    }
    thread_signals_unlock(&pool->signals);
    return error;
}

void connection_pool_put(struct connection_pool *pool, struct pooled_connection *c, bool keep)
{
    if (!keep) {
        place_clear(c);
    }
    thread_signals_lock(&pool->signals);
    assert(c->busy);
    c->busy = false;
    thread_signals_wake(&pool->signals);
    thread_signals_unlock(&pool->signals);
}

int connection_pool_pause(struct connection_pool *pool, int64_t pause_ms, int64_t deadline_ns)
{
    int64_t end = clock_monotonic_ns(clock_system()) + pause_ms * 1000000;
    int error = 0;
    if (end >= deadline_ns) {
        return CONCLAVE_ETIMEDOUT;
    }
    thread_signals_lock(&pool->signals);
    while (error == 0 && !pool->closing) {
        error = thread_signals_wait(&pool->signals, end);
    }
    thread_signals_unlock(&pool->signals);
    return error == 0 ? CONCLAVE_ECLOSED : 0;
}

bool connection_pool_is_closing(struct connection_pool *pool)
{
    thread_signals_lock(&pool->signals);
    bool closing = pool->closing;
    thread_signals_unlock(&pool->signals);
    return closing;
}

void connection_pool_close(struct connection_pool *pool)
{
    thread_signals_lock(&pool->signals);
    pool->closing = true;
    thread_signals_wake(&pool->signals);
    thread_signals_unlock(&pool->signals);
}

int connection_pool_wait_end(struct connection_pool *pool, int64_t deadline_ns)
{
    int error = 0;
    thread_signals_lock(&pool->signals);
    while (error == 0 && pool->running > 0) {
        error = thread_signals_wait(&pool->signals, deadline_ns);
    }
    error = pool->running > 0 ? error : 0;
    thread_signals_unlock(&pool->signals);
    return error;
}
