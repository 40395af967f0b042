/* A mutex, and a condition whose waits end by the clock of clock_monotonic_ns. */
#ifndef REDIS_CLIENT_THREAD_SIGNALS_H
#define REDIS_CLIENT_THREAD_SIGNALS_H

#include <conclave/error.h>

#include <pthread.h>
#include <stdint.h>

struct thread_signals {
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

void thread_signals_init(struct thread_signals *t);
void thread_signals_finish(struct thread_signals *t);

void thread_signals_lock(struct thread_signals *t);
void thread_signals_unlock(struct thread_signals *t);

/* Wakes all that wait. */
void thread_signals_wake(struct thread_signals *t);

/* Lock held; it is released meanwhile. 0: woken, or for no reason; CONCLAVE_ETIMEDOUT. */
int thread_signals_wait(struct thread_signals *t, int64_t deadline_ns) CONCLAVE_MUST_USE;

#endif
