/*
 * A queue of callbacks, run one at a time and in order: by its own thread (dispatcher_start) or by the caller that
 * pumps it. Jobs are embedded in the objects that they deliver, so posting allocates nothing.
 *
 * Promise: after dispatcher_stop has returned, all posted jobs have run and none runs any more.
 */
#ifndef CLIENT_CORE_DISPATCHER_H
#define CLIENT_CORE_DISPATCHER_H

#include "base/list.h"

#include <conclave/error.h>

#include <pthread.h>
#include <stdbool.h>

struct job {
    struct list link;
    void (*run)(struct job *job); /* takes over the job; may free it */
};

struct dispatcher {
    pthread_mutex_t lock;
    pthread_cond_t posted; /* jobs came, or a stop was requested */
    struct list jobs;
    pthread_t runner; /* the thread that runs a job now, while running */
    bool running;     /* a job runs now */
    bool stopping;
    bool has_thread;
    pthread_t thread;
    void (*at_end)(void *ctx); /* the thread's last call when it ends by itself */
    void *at_end_ctx;
    struct list link; /* for the list of its owner */
};

/* 0 or CONCLAVE_EIO. */
int dispatcher_init(struct dispatcher *d) CONCLAVE_MUST_USE;

/* Frees what init took. There must be no thread and no jobs. */
void dispatcher_finish(struct dispatcher *d);

/* Starts its thread. 0 or CONCLAVE_EIO. */
int dispatcher_start(struct dispatcher *d) CONCLAVE_MUST_USE;

/* Any thread; also from a job. */
void dispatcher_post(struct dispatcher *d, struct job *job, void (*run)(struct job *job));

/* Runs the posted jobs, including those that they post, at most `limit`. False: another thread (or this one, in an
 * outer call) is already running a job. */
bool dispatcher_pump(struct dispatcher *d, unsigned limit);

bool dispatcher_is_empty(struct dispatcher *d);

/* Whether the calling thread is inside one of its jobs. */
bool dispatcher_is_current(struct dispatcher *d);

/* Runs the remaining jobs and joins the thread. In its own thread it returns at once; when the queue is empty, the
 * thread calls at_end(ctx), which may finish and free d, and ends. */
void dispatcher_stop(struct dispatcher *d, void (*at_end)(void *ctx), void *ctx);

#endif
