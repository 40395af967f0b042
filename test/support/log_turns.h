/*
 * Calls a log's turn function (replication/replication_uv.h) on behalf of its owner, when nothing else runs on the
 * loop: once before each wait of the loop, until the log is closed.
 */
#ifndef SUPPORT_LOG_TURNS_H
#define SUPPORT_LOG_TURNS_H

#include "replication/replication_uv.h"

#include <stdlib.h>

struct log_turns {
    uv_prepare_t prepare;
    struct replication_loop *log;
};

static inline void log_turns_on_prepare(uv_prepare_t *prepare)
{
    struct log_turns *t = prepare->data;
    replication_loop_turn(t->log);
}

/* The log keeps the loop alive, not this handle. */
static inline void log_turns_start(struct log_turns *t, uv_loop_t *loop,
                                   struct replication_loop *log)
{
    t->log = log;
    if (uv_prepare_init(loop, &t->prepare) != 0 ||
        uv_prepare_start(&t->prepare, log_turns_on_prepare) != 0) {
        abort();
    }
    t->prepare.data = t;
    uv_unref((uv_handle_t *)&t->prepare);
}

/* Call it in the callback of replication_loop_close; keep t until the loop has run. */
static inline void log_turns_stop(struct log_turns *t)
{
    uv_close((uv_handle_t *)&t->prepare, NULL);
}

#endif
