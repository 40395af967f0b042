/* A job queue between the loop and one thread. Limits: no priorities, no cancelling; a job that
 * waits is not lost. */
#include "replication/worker.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>

static void *thread_main(void *arg)
{
    struct worker *w = arg;
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
    if (!w->threaded) {
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

/* The thread takes no signals: they belong to the loop's. */
static int start_thread(struct worker *w)
{
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rv = pthread_create(&w->thread, NULL, thread_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rv == 0 ? 0 : CONCLAVE_EIO;
}

int worker_init(struct worker *w, uv_loop_t *loop, bool threaded)
{
    list_init(&w->queue);
    list_init(&w->finished);
    w->stop = false;
    w->threaded = threaded;
    w->closed = NULL;
    if (pthread_mutex_init(&w->mutex, NULL) != 0) {
        return CONCLAVE_ENOMEM;
    }
    if (pthread_cond_init(&w->wake, NULL) != 0) {
        pthread_mutex_destroy(&w->mutex);
        return CONCLAVE_ENOMEM;
    }
    /* The handle comes last: once it is open only uv_close can take it back, and that needs the
     * loop. */
    if (threaded && start_thread(w) != 0) {
        goto fail;
    }
    if (uv_async_init(loop, &w->async, async_cb) != 0) {
        if (threaded) {
            pthread_mutex_lock(&w->mutex);
            w->stop = true;
            pthread_cond_signal(&w->wake);
            pthread_mutex_unlock(&w->mutex);
            pthread_join(w->thread, NULL);
        }
        goto fail;
    }
    w->async.data = w;
    return 0;
fail:
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->mutex);
    return CONCLAVE_EIO;
}

void worker_submit(struct worker *w, struct worker_job *job)
{
    pthread_mutex_lock(&w->mutex);
    assert(!w->stop);
    list_push_back(&w->queue, &job->node);
    if (w->threaded) {
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
    pthread_mutex_lock(&w->mutex);
    assert(list_empty(&w->queue));
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mutex);
    if (w->threaded) {
        pthread_join(w->thread, NULL);
    }
    assert(list_empty(&w->finished));
    uv_close((uv_handle_t *)&w->async, close_cb);
}
