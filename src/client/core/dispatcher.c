#include "client/core/dispatcher.h"

#include "client/core/threads.h"

#include <assert.h>
#include <limits.h>

int dispatcher_init(struct dispatcher *d)
{
    *d = (struct dispatcher){0};
    list_init(&d->jobs);
    list_init(&d->link);
    if (pthread_mutex_init(&d->lock, NULL) != 0) {
        return CONCLAVE_EIO;
    }
    if (pthread_cond_init(&d->posted, NULL) != 0) {
        pthread_mutex_destroy(&d->lock);
        return CONCLAVE_EIO;
    }
    return 0;
}

void dispatcher_finish(struct dispatcher *d)
{
    assert(list_empty(&d->jobs));
    pthread_cond_destroy(&d->posted);
    pthread_mutex_destroy(&d->lock);
}

void dispatcher_post(struct dispatcher *d, struct job *job, void (*run)(struct job *job))
{
    job->run = run;
    pthread_mutex_lock(&d->lock);
    bool first = list_empty(&d->jobs);
    list_push_back(&d->jobs, &job->link);
    if (first) {
        pthread_cond_signal(&d->posted);
    }
    pthread_mutex_unlock(&d->lock);
}

/* Runs up to limit jobs; d->lock is held, but released around each. */
static void run_jobs(struct dispatcher *d, unsigned limit)
{
    assert(!d->running);
    d->running = true;
    d->runner = pthread_self();
    for (unsigned n = 0; n < limit && !list_empty(&d->jobs); n++) {
        struct job *job = CONTAINER_OF(list_pop_front(&d->jobs), struct job, link);
        pthread_mutex_unlock(&d->lock);
        job->run(job);
        pthread_mutex_lock(&d->lock);
    }
    d->running = false;
}

bool dispatcher_pump(struct dispatcher *d, unsigned limit)
{
    pthread_mutex_lock(&d->lock);
    bool mine = !d->running && !d->has_thread;
    if (mine) {
        run_jobs(d, limit);
    }
    pthread_mutex_unlock(&d->lock);
    return mine;
}

static void *dispatcher_main(void *arg)
{
    struct dispatcher *d = arg;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        run_jobs(d, UINT_MAX);
        if (d->stopping && list_empty(&d->jobs)) {
            break;
        }
        if (list_empty(&d->jobs)) {
            pthread_cond_wait(&d->posted, &d->lock);
        }
    }
    void (*at_end)(void *) = d->at_end;
    void *ctx = d->at_end_ctx;
    pthread_mutex_unlock(&d->lock);
    if (at_end != NULL) {
        at_end(ctx);
    }
    return NULL;
}

int dispatcher_start(struct dispatcher *d)
{
    pthread_mutex_lock(&d->lock);
    int rc = 0;
    if (!d->has_thread) {
        rc = thread_start(&d->thread, dispatcher_main, d);
        d->has_thread = rc == 0;
    }
    pthread_mutex_unlock(&d->lock);
    return rc == 0 ? 0 : CONCLAVE_EIO;
}

bool dispatcher_is_empty(struct dispatcher *d)
{
    pthread_mutex_lock(&d->lock);
    bool empty = list_empty(&d->jobs);
    pthread_mutex_unlock(&d->lock);
    return empty;
}

bool dispatcher_is_current(struct dispatcher *d)
{
    pthread_mutex_lock(&d->lock);
    bool current = d->running && pthread_equal(d->runner, pthread_self());
    pthread_mutex_unlock(&d->lock);
    return current;
}

void dispatcher_stop(struct dispatcher *d, void (*at_end)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&d->lock);
    bool threaded = d->has_thread;
    bool inside = threaded && pthread_equal(d->thread, pthread_self());
    d->stopping = true;
    if (inside) {
        d->at_end = at_end;
        d->at_end_ctx = ctx;
        pthread_detach(d->thread);
    }
    pthread_cond_signal(&d->posted);
    pthread_mutex_unlock(&d->lock);
    if (threaded && !inside) {
        pthread_join(d->thread, NULL);
    }
    if (!threaded) {
        (void)dispatcher_pump(d, UINT_MAX);
    }
}
