/*
 * A queue of callbacks, run one at a time and in order: by a thread of its own
 * (dispatcher_start) or by whoever pumps it. Jobs are embedded in what they deliver; nothing is
 * allocated by posting.
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
    void (*run)(struct job *job); /* owns the job from here on; may free it */
};

struct dispatcher {
    pthread_mutex_t lock;
    pthread_cond_t posted; /* jobs came, or stop was asked for */
    struct list jobs;
    pthread_t runner; /* the thread that runs a job now, while running */
    bool running;     /* a job runs now */
    bool stopping;
    bool has_thread;
    pthread_t thread;
    void (*at_end)(void *ctx); /* the thread's last act when it ends by itself */
    void *at_end_ctx;
    struct list link; /* for the list of its owner */
};

/* 0 or CONCLAVE_EIO. */
int dispatcher_init(struct dispatcher *d) CONCLAVE_MUST_USE;

/* Frees what init took. No thread, no jobs. */
void dispatcher_finish(struct dispatcher *d);

/* Gives it a thread. 0 or CONCLAVE_EIO. */
int dispatcher_start(struct dispatcher *d) CONCLAVE_MUST_USE;

/* Any thread; also from a job. */
void dispatcher_post(struct dispatcher *d, struct job *job, void (*run)(struct job *job));

/* Runs what is posted now, including what these jobs post, at most `limit` jobs; false when
 * another thread (or this one, further up) runs a job already. */
bool dispatcher_pump(struct dispatcher *d, unsigned limit);

bool dispatcher_is_empty(struct dispatcher *d);

/* Whether the calling thread is inside a job of it. */
bool dispatcher_is_current(struct dispatcher *d);

/* Runs what is left and joins the thread. In its own thread instead: returns at once; when its
 * queue is empty the thread calls at_end(ctx), which may finish and free d, and ends. */
void dispatcher_stop(struct dispatcher *d, void (*at_end)(void *ctx), void *ctx);

#endif
