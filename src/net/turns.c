#include "net/turns.h"

static void turns_on_idle(uv_idle_t *idle)
{
    struct turns *t = idle->data;
    struct list now; /* what is asked for below waits for the next turn */
    struct list *node;
    (void)uv_idle_stop(idle); /* cannot fail */
    list_push_back(&t->due, &now);
    list_remove(&t->due);
    while ((node = list_pop_front(&now)) != NULL) {
        struct turn *turn = CONTAINER_OF(node, struct turn, node);
        turn->take(turn);
    }
}

void turns_init(struct turns *t, uv_loop_t *loop)
{
    (void)uv_idle_init(loop, &t->idle); /* cannot fail */
    t->idle.data = t;
    list_init(&t->due);
}

void turn_init(struct turn *turn, void (*take)(struct turn *turn))
{
    list_init(&turn->node);
    turn->take = take;
}

void turns_ask(struct turns *t, struct turn *turn)
{
    list_remove(&turn->node); /* it may be due already */
    list_push_back(&t->due, &turn->node);
    (void)uv_idle_start(&t->idle, turns_on_idle); /* cannot fail: the callback is not NULL */
}

void turn_drop(struct turn *turn)
{
    list_remove(&turn->node);
}

static void turns_on_closed(uv_handle_t *handle)
{
    struct turns *t = handle->data;
    t->closed(t->closed_ctx);
}

void turns_close(struct turns *t, void (*closed)(void *ctx), void *ctx)
{
    t->closed = closed;
    t->closed_ctx = ctx;
    uv_close((uv_handle_t *)&t->idle, turns_on_closed);
}
