/* The thread that runs fencing methods, and its end in the loop. */
#include "redis/manager/fencer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct redis_fencer {
    uv_loop_t *loop;
    const struct fence_method *methods;
    size_t count;
    uv_work_t work;
    bool running;
    bool canceled; /* the result is not reported */
    bool destroyed;
    int stop_fd; /* eventfd: readable ends the methods */

    /* input of the thread, unchanged while it runs */
    int node;
    struct redis_node_config target;
    int64_t old_token;
    int64_t new_token;

    /* output of the thread, read after its end */
    int rc;
    char text[REDIS_TEXT_SIZE];

    redis_fenced_fn fn;
    void *ctx;
};

static void fencer_on_told(const struct fence_method *method, int error, const char *text,
                           void *ctx)
{
    struct redis_fencer *f = ctx;
    snprintf(f->text, sizeof f->text, "%s: %s", fence_kind_name(method->kind), text);
}

static void fencer_work(uv_work_t *work)
{
    struct redis_fencer *f = work->data;
    struct fence_target target = {.id = f->target.address,
                                  .host = f->target.host,
                                  .port = f->target.port,
                                  .old_token = f->old_token,
                                  .new_token = f->new_token};
    f->rc = fence_methods_run(f->methods, f->count, &target, f->stop_fd, fencer_on_told, f);
}

static void fencer_free(struct redis_fencer *f)
{
    close(f->stop_fd);
    free(f);
}

static void fencer_over(uv_work_t *work, int status)
{
    struct redis_fencer *f = work->data;
    uint64_t count;
    assert(f->running);
    f->running = false;
    if (f->destroyed) {
        fencer_free(f);
        return;
    }
    if (read(f->stop_fd, &count, sizeof count) < 0) {
        count = 0; /* without a request to stop */
    }
    if (!f->canceled) {
        f->fn(f->ctx, f->node, status == 0 && f->rc == 0, f->text);
    }
}

int redis_fencer_create(uv_loop_t *loop, const struct fence_method *methods, size_t count,
                        struct redis_fencer **ret)
{
    struct redis_fencer *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return CONCLAVE_ENOMEM;
    }
    f->loop = loop;
    f->methods = methods;
    f->count = count;
    f->work.data = f;
    f->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->stop_fd < 0) {
        free(f);
        return CONCLAVE_EIO;
    }
    *ret = f;
    return 0;
}

int redis_fencer_run(struct redis_fencer *fencer, int node, const struct redis_node_config *target,
                     int64_t old_token, int64_t new_token, redis_fenced_fn fn, void *ctx)
{
    assert(!fencer->destroyed && node >= 0);
    if (fencer->running) {
        return CONCLAVE_EBUSY;
    }
    fencer->canceled = false;
    fencer->node = node;
    fencer->target = *target;
    fencer->old_token = old_token;
    fencer->new_token = new_token;
    fencer->fn = fn;
    fencer->ctx = ctx;
    snprintf(fencer->text, sizeof fencer->text, "no method");
    if (uv_queue_work(fencer->loop, &fencer->work, fencer_work, fencer_over) != 0) {
        return CONCLAVE_ENOMEM;
    }
    fencer->running = true;
    return 0;
}

void redis_fencer_cancel(struct redis_fencer *fencer)
{
    uint64_t one = 1;
    if (!fencer->running || fencer->canceled) {
        return;
    }
    fencer->canceled = true;
    if (write(fencer->stop_fd, &one, sizeof one) < 0) {
        abort(); /* an eventfd takes a one */
    }
}

void redis_fencer_destroy(struct redis_fencer *fencer)
{
    if (fencer == NULL) {
        return;
    }
    if (!fencer->running) {
        fencer_free(fencer);
        return;
    }
    redis_fencer_cancel(fencer);
    fencer->destroyed = true;
}
