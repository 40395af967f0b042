/*
 * Gives a log the turns that its owner owes it (replication/replication_uv.h), where nothing else runs on the loop:
 * one before each time that the loop waits, until the log is closed.
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

/* The handle does not keep the loop alive: the log does. */
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

/* From the callback of replication_loop_close; t stays until the loop has run. */
static inline void log_turns_stop(struct log_turns *t)
{
    uv_close((uv_handle_t *)&t->prepare, NULL);
}

#endif
