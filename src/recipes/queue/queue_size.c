/* on_size: the queue's node is listed with a watch, and again when that has gone off; not more
 * often than a pause allows, so that a burst is reported once. */
#include "recipes/queue/queue.h"

#include <assert.h>

enum { PAUSE_MS = 50 };

static struct conclave_queue *of_size(struct queue_size *size)
{
    return CONTAINER_OF(size, struct conclave_queue, size);
}

static void size_trouble(struct queue_size *s)
{
    recipes_retry_later(of_size(s)->host.handle.rt, &s->pause);
}

static void queue_size_on_ensured(struct ensure_path *ensure, int error)
{
    struct queue_size *s = CONTAINER_OF(ensure, struct queue_size, ensure);
    if (error != 0) {
        size_trouble(s);
    }
    queue_size_run(of_size(s));
}

static void queue_size_on_listed(struct step *step, const struct conclave_reply *reply)
{
    struct queue_size *s = CONTAINER_OF(step, struct queue_size, step);
    struct conclave_queue *q = of_size(s);
    struct conclave_client *client = q->host.handle.rt->client;
    watch_slot_answered(&s->watch, reply->error == 0);
    if (!s->active) {
        watch_slot_clear(&s->watch);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        if (queue_ensure(q, &s->ensure, q->path, queue_size_on_ensured) != 0) {
            size_trouble(s);
        }
    } else if (reply->error != 0) {
        size_trouble(s);
    } else {
        int64_t count = 0;
        for (size_t i = 0; i < reply->children_count; i++) {
            struct queue_name name;
            count += queue_name_parse(&q->naming, reply->children[i], &name) ? 1 : 0;
        }
        s->seen = count;
        s->due = s->seen != s->told;
        if (s->due) {
            handle_post(&q->host.handle);
        }
        client_timer_start(client, &s->pause, client_now_ns(client) + PAUSE_MS * 1000000LL);
    }
    queue_size_run(q);
}

void queue_size_run(struct conclave_queue *q)
{
    struct queue_size *s = &q->size;
    if (!s->active || s->step.busy || ensure_path_busy(&s->ensure) || s->watch.armed ||
        client_timer_active(&s->pause) || !recipes_connected(q->host.handle.rt)) {
        return;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, q->path, 0);
    if (watch_slot_prepare(&s->watch, q->path, &op) != 0) {
        size_trouble(s);
        return;
    }
    step_submit(&s->step, &op, queue_size_on_listed);
}

static void queue_size_on_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    queue_size_run(of_size(CONTAINER_OF(slot, struct queue_size, watch)));
}

static void on_pause(struct conclave_client *client, void *ctx)
{
    queue_size_run(of_size(ctx));
}

bool queue_size_tell(struct conclave_queue *q)
{
    struct queue_size *s = &q->size;
    struct conclave_client *client = q->host.handle.rt->client;
    if (!s->due || !s->active) {
        return false;
    }
    int64_t count = s->seen;
    assert(count >= 0 && count != s->told);
    s->told = count;
    s->due = false;
    client_unlock(client);
    q->callbacks.on_size(q, count, q->ctx);
    client_lock(client);
    return true;
}

void queue_size_init(struct conclave_queue *q)
{
    struct queue_size *s = &q->size;
    step_init(&s->step, &q->host.handle);
    ensure_path_init(&s->ensure, &q->host.handle);
    watch_slot_init(&s->watch, &q->host.handle, queue_size_on_watch);
    client_timer_init(&s->pause, on_pause, s);
    s->seen = s->told = -1;
    s->active = q->callbacks.on_size != NULL;
}

void queue_size_stop(struct conclave_queue *q)
{
    struct queue_size *s = &q->size;
    s->active = false;
    client_timer_stop(q->host.handle.rt->client, &s->pause);
    if (!s->watch.pending) {
        watch_slot_clear(&s->watch);
    }
}

void queue_size_finish(struct conclave_queue *q)
{
    struct queue_size *s = &q->size;
    watch_slot_clear(&s->watch);
    client_timer_stop(q->host.handle.rt->client, &s->pause);
    ensure_path_finish(&s->ensure);
}
