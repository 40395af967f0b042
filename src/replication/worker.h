/*
 * One thread that does jobs in the order given, and reports each on the loop's thread, in the same
 * order. Without threads (file_ops.threads false) the jobs run on the loop's thread, one per turn,
 * so that a test's run repeats.
 */
#ifndef REPLICATION_WORKER_H
#define REPLICATION_WORKER_H

#include "replication/job.h"

#include <conclave/error.h>

#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

struct worker {
    uv_async_t async;      /* wakes the loop */
    pthread_t thread;      /* valid when threaded */
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake;   /* something was queued, or stop */
    struct list queue;     /* jobs to do */
    struct list finished;  /* jobs to report */
    bool stop;             /* no more jobs come */
    bool threaded;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* Starts the thread. 0, CONCLAVE_ENOMEM or CONCLAVE_EIO; on failure nothing is left to close. */
int worker_init(struct worker *w, uv_loop_t *loop, bool threaded) CONCLAVE_MUST_USE;

/* Queues a job that the caller keeps alive until `done`. */
void worker_submit(struct worker *w, struct worker_job *job);

/* Every job must have been reported. Ends the thread and calls closed from a later turn of the
 * loop. */
void worker_close(struct worker *w, void (*closed)(void *ctx), void *ctx);

#endif
