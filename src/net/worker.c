#define _GNU_SOURCE /* gettid */
/* A job queue between the loop and its threads. Limits: no priorities, no cancelling. */
#include "net/worker.h"

#include <assert.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static void *thread_main(void *arg)
{
    struct worker *w = arg;
    if (w->nice != 0) {
        (void)setpriority(PRIO_PROCESS, (id_t)gettid(),
                          w->nice); /* on failure the thread keeps the normal priority */
    }
    pthread_mutex_lock(&w->mutex);
    for (;;) {
        struct list *node = list_pop_front(&w->queue);
        if (node == NULL) {
            if (w->stop) {
                break;
            }
            pthread_cond_wait(&w->wake, &w->mutex);
            continue;
        }
        pthread_mutex_unlock(&w->mutex);
        struct worker_job *job = CONTAINER_OF(node, struct worker_job, node);
        job->work(job);
        pthread_mutex_lock(&w->mutex);
        list_push_back(&w->finished, node);
        uv_async_send(&w->async);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

static void async_cb(uv_async_t *async)
{
    struct worker *w = async->data;
    struct list batch;
    list_init(&batch);
    pthread_mutex_lock(&w->mutex);
    if (w->thread_count == 0) {
        struct list *node = list_pop_front(&w->queue);
        if (node != NULL) {
            struct worker_job *job = CONTAINER_OF(node, struct worker_job, node);
            job->work(job);
            list_push_back(&w->finished, node);
        }
        if (!list_empty(&w->queue)) {
            uv_async_send(&w->async);
        }
    }
    for (struct list *node; (node = list_pop_front(&w->finished)) != NULL;) {
        list_push_back(&batch, node);
    }
    pthread_mutex_unlock(&w->mutex);
    for (struct list *node; (node = list_pop_front(&batch)) != NULL;) {
        struct worker_job *job = CONTAINER_OF(node, struct worker_job, node);
        job->done(job);
    }
}

static void stop_threads(struct worker *w)
{
    pthread_mutex_lock(&w->mutex);
    w->stop = true;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->mutex);
    for (unsigned i = 0; i < w->thread_count; i++) {
        pthread_join(w->threads[i], NULL);
    }
}

/* The threads block all signals: signals belong to the loop's thread. */
static int start_threads(struct worker *w, unsigned count)
{
    sigset_t all;
    sigset_t old;
    int rv = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (w->thread_count < count && rv == 0) {
        rv = pthread_create(&w->threads[w->thread_count], NULL, thread_main, w);
        w->thread_count += rv == 0;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rv == 0 ? 0 : CONCLAVE_EIO;
}

int worker_init(struct worker *w, uv_loop_t *loop, const struct worker_options *options)
{
    assert(options->threads <= WORKER_THREADS_MAX);
    list_init(&w->queue);
    list_init(&w->finished);
    w->stop = false;
    w->thread_count = 0;
    w->nice = options->nice;
    w->closed = NULL;
    if (pthread_mutex_init(&w->mutex, NULL) != 0) {
        return CONCLAVE_ENOMEM;
    }
    if (pthread_cond_init(&w->wake, NULL) != 0) {
        pthread_mutex_destroy(&w->mutex);
        return CONCLAVE_ENOMEM;
    }
    /* The handle comes last: only uv_close can undo it, and that needs the loop. No job can come before. */
    if (start_threads(w, options->threads) != 0 || uv_async_init(loop, &w->async, async_cb) != 0) {
        stop_threads(w);
        pthread_cond_destroy(&w->wake);
        pthread_mutex_destroy(&w->mutex);
        return CONCLAVE_EIO;
    }
    w->async.data = w;
    return 0;
}

void worker_submit(struct worker *w, struct worker_job *job)
{
    pthread_mutex_lock(&w->mutex);
    assert(!w->stop);
    list_push_back(&w->queue, &job->node);
    if (w->thread_count > 0) {
        pthread_cond_signal(&w->wake);
    } else {
        uv_async_send(&w->async);
    }
    pthread_mutex_unlock(&w->mutex);
}

static void close_cb(uv_handle_t *handle)
{
    struct worker *w = handle->data;
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->mutex);
    w->closed(w->closed_ctx);
}

void worker_close(struct worker *w, void (*closed)(void *ctx), void *ctx)
{
    w->closed = closed;
    w->closed_ctx = ctx;
    stop_threads(w);
    assert(list_empty(&w->queue) && list_empty(&w->finished));
    uv_close((uv_handle_t *)&w->async, close_cb);
}
