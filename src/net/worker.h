/*
 * Threads that run jobs beside the loop; each job is reported on the loop's thread. One thread runs and reports its
 * jobs in order; several threads keep no order. Without threads the jobs run on the loop's thread, one per turn, so
 * that tests are repeatable.
 */
#ifndef NET_WORKER_H
#define NET_WORKER_H

#include "base/job.h"

#include <conclave/error.h>

#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

enum { WORKER_THREADS_MAX = 4 };

struct worker_options {
    unsigned threads; /* up to WORKER_THREADS_MAX; 0: the loop's thread */
    int nice;         /* added to the threads' niceness: they yield to the loop's thread */
};

struct worker {
    uv_async_t async; /* wakes the loop */
    pthread_t threads[WORKER_THREADS_MAX];
    unsigned thread_count;
    int nice;
    pthread_mutex_t mutex; /* guards the fields below */
    pthread_cond_t wake;   /* something was queued, or stop */
    struct list queue;     /* jobs to do */
    struct list finished;  /* jobs to report */
    bool stop;             /* no more jobs will come */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* Starts the threads. 0, CONCLAVE_ENOMEM or CONCLAVE_EIO; after an error nothing must be closed. */
int worker_init(struct worker *w, uv_loop_t *loop,
                const struct worker_options *options) CONCLAVE_MUST_USE;

/* Queues a job that the caller keeps alive until `done`. */
void worker_submit(struct worker *w, struct worker_job *job);

/* Every job must have been reported. Ends the threads, and calls closed in a later turn of the loop. */
void worker_close(struct worker *w, void (*closed)(void *ctx), void *ctx);

#endif
