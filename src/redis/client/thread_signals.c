#include "redis/client/thread_signals.h"

#include "base/clock.h"

#include <assert.h>
#include <time.h>

#define SECOND INT64_C(1000000000)

/* A condition cannot wait by CLOCK_BOOTTIME. CLOCK_MONOTONIC differs from it while the machine sleeps, so a wait is cut
 * into pieces. */
#define PIECE INT64_C(200000000)

void thread_signals_init(struct thread_signals *t)
{
    pthread_condattr_t by;
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&by);
    pthread_condattr_setclock(&by, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &by);
    pthread_condattr_destroy(&by);
}

void thread_signals_finish(struct thread_signals *t)
{
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
}

void thread_signals_lock(struct thread_signals *t)
{
    int rc = pthread_mutex_lock(&t->lock);
    assert(rc == 0);
    (void)rc;
}

void thread_signals_unlock(struct thread_signals *t)
{
    int rc = pthread_mutex_unlock(&t->lock);
    assert(rc == 0);
    (void)rc;
}

void thread_signals_wake(struct thread_signals *t)
{
    pthread_cond_broadcast(&t->changed);
}

int thread_signals_wait(struct thread_signals *t, int64_t deadline_ns)
{
    struct timespec until;
    int64_t left = deadline_ns - clock_monotonic_ns(clock_system());
    if (left <= 0) {
        return CONCLAVE_ETIMEDOUT;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t end = until.tv_sec * SECOND + until.tv_nsec + (left < PIECE ? left : PIECE);
    until = (struct timespec){.tv_sec = end / SECOND, .tv_nsec = end % SECOND};
    (void)pthread_cond_timedwait(&t->changed, &t->lock, &until);
    return 0;
}
