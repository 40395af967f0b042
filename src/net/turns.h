/*
 * Shares the loop's thread: whoever has more to do than fits into one turn of the loop goes on in the next one, in the
 * order of the requests. Between two turns the loop serves its sockets and timers.
 */
#ifndef NET_TURNS_H
#define NET_TURNS_H

#include "base/list.h"

#include <uv.h>

/* Embedded in what goes on. */
struct turn {
    struct list node; /* in turns.due */
    void (*take)(struct turn *turn);
};

struct turns {
    uv_idle_t idle; /* runs while a turn is due */
    struct list due;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

void turns_init(struct turns *t, uv_loop_t *loop);

/* take may ask for the next turn. */
void turn_init(struct turn *turn, void (*take)(struct turn *turn));

/* Calls turn->take once in the next turn of the loop; again while it is due: at the end of the queue. */
void turns_ask(struct turns *t, struct turn *turn);

/* Forgets a turn; harmless if none is due. */
void turn_drop(struct turn *turn);

/* No turn is taken any more. Calls closed from the loop. */
void turns_close(struct turns *t, void (*closed)(void *ctx), void *ctx);

#endif
