/*
 * The replicated log on a libuv loop: a thread per lane for the disk, and the handles that call replication_tick when
 * it is due. No handle runs in each iteration of the loop: its owner calls replication_loop_turn there.
 */
#ifndef REPLICATION_REPLICATION_UV_H
#define REPLICATION_REPLICATION_UV_H

#include "replication/replication.h"

#include <uv.h>

struct replication_loop;

/* Sends messages to other servers, as in struct replication_host. */
struct replication_sender {
    void *ctx;
    void (*send)(void *ctx, uint64_t to, struct buf *message_take);
};

/* replication_open with a host on the loop. sender may be NULL if there are no other servers; ops NULL: the system's
 * files. Errors as replication_open; handles that are left on the loop then close when it runs. */
int replication_loop_open(uv_loop_t *loop, const struct replication_options *options,
                          const struct replication_callbacks *callbacks,
                          const struct replication_sender *sender, const struct file_ops *ops,
                          struct replication_loop **ret, char **ret_text) CONCLAVE_MUST_USE;

/* replication_turn, and sets the handles for the next tick. Call it once in each iteration of the loop, as late as
 * possible before the loop waits, until cb of the close. */
void replication_loop_turn(struct replication_loop *l);

/* The log, valid until cb of the close. */
struct replication *replication_loop_log(struct replication_loop *l);

/* replication_close, then closes the threads and handles; calls cb, and l is freed by then. May be called from any
 * callback, once. */
void replication_loop_close(struct replication_loop *l, void (*cb)(void *ctx), void *ctx);

#endif
