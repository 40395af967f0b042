/* Keeps the last master, which conclave_redis_may_write confirms, and a list of replicas, which one thread at a time reads
 * again. */
#include "redis/client/command_target.h"

#include "base/clock.h"

#include <assert.h>
#include <stdio.h>

#define MS INT64_C(1000000)

enum { REPLICAS_MS = 1000 };

void command_targets_init(struct command_targets *t, struct conclave_redis *redis,
                          int64_t max_lag_bytes, int64_t stale_ms)
{
    *t = (struct command_targets){
        .redis = redis, .max_lag_bytes = max_lag_bytes, .stale_ns = stale_ms * MS};
    thread_signals_init(&t->signals);
}

void command_targets_finish(struct command_targets *t)
{
    assert(!t->reading);
    conclave_redis_replicas_free(t->replicas);
    thread_signals_finish(&t->signals);
}

static int64_t target_left_ms(int64_t deadline_ns)
{
    int64_t left = deadline_ns - clock_monotonic_ns(clock_system());
    return left <= 0 ? 0 : (left + MS - 1) / MS;
}

static void target_set(struct command_target *t, const char *server, const char *host, int port,
                       int64_t epoch)
{
    snprintf(t->server, sizeof t->server, "%s", server);
    snprintf(t->host, sizeof t->host, "%s", host);
    t->port = port;
    t->epoch = epoch;
}

int command_target_master(struct command_targets *t, int64_t deadline_ns,
                          struct command_target *ret)
{
    struct conclave_redis_view *view = NULL;
    thread_signals_lock(&t->signals);
    *ret = t->master;
    thread_signals_unlock(&t->signals);
    if (ret->epoch != 0 && conclave_redis_may_write(t->redis, ret->epoch) == 0) {
        return 0;
    }
    int error = conclave_redis_wait_master(t->redis, target_left_ms(deadline_ns), &view);
    if (error != 0) {
        return error;
    }
    assert(view->master != NULL && view->epoch > 0);
    target_set(ret, view->master, view->host, view->port, view->epoch);
    conclave_redis_view_free(view);
    thread_signals_lock(&t->signals);
    t->master = *ret;
    thread_signals_unlock(&t->signals);
    return 0;
}

/* Lock held. Whether a replica may be chosen from the list. */
static bool list_is_new_enough(const struct command_targets *t, int64_t now_ns)
{
    return t->replicas != NULL && (t->max_lag_bytes < 0 || now_ns - t->read_ns < t->stale_ns);
}

/* Without an answer of the ensemble the list stays as it is. */
static bool is_passing(int error)
{
    return error == CONCLAVE_SESSION_EXPIRED ||
           (error != CONCLAVE_ENOMEM && conclave_error_retryable(error));
}

/* Lock held; it is released meanwhile. */
static int list_read(struct command_targets *t, int64_t deadline_ns)
{
    struct conclave_redis_replicas *list = NULL;
    int64_t wait_ms = target_left_ms(deadline_ns);
    assert(!t->reading);
    t->reading = true;
    thread_signals_unlock(&t->signals);
    int error = conclave_redis_list_replicas(t->redis,
                                             wait_ms < REPLICAS_MS ? wait_ms : REPLICAS_MS, &list);
    int64_t now = clock_monotonic_ns(clock_system());
    thread_signals_lock(&t->signals);
    t->reading = false;
    t->next_ns = now + REPLICAS_MS * MS;
    if (error == 0) {
        conclave_redis_replicas_free(t->replicas);
        t->replicas = list;
        t->read_ns = now;
    }
    thread_signals_wake(&t->signals);
    return is_passing(error) ? 0 : error;
}

int command_target_replica(struct command_targets *t, int64_t deadline_ns,
                           struct command_target *ret)
{
    int error = 0;
    thread_signals_lock(&t->signals);
    int64_t now = clock_monotonic_ns(clock_system());
    if (!t->reading && (t->replicas == NULL || now >= t->next_ns)) {
        error = list_read(t, deadline_ns);
    }
    while (error == 0 && t->reading && !list_is_new_enough(t, now)) {
        error = thread_signals_wait(&t->signals, deadline_ns);
    }
    now = clock_monotonic_ns(clock_system());
    const struct conclave_redis_replica *chosen = NULL;
    if (error == 0 && list_is_new_enough(t, now)) {
        chosen = conclave_redis_pick(t->replicas, t->max_lag_bytes, t->turn++);
    }
    if (chosen != NULL) {
        target_set(ret, chosen->address, chosen->host, chosen->port, 0);
    } else if (error == 0 || error == CONCLAVE_ETIMEDOUT) {
        error = CONCLAVE_EEMPTY;
    }
    thread_signals_unlock(&t->signals);
    return error;
}

void command_targets_doubt(struct command_targets *t)
{
    thread_signals_lock(&t->signals);
    t->next_ns = 0;
    thread_signals_unlock(&t->signals);
}
