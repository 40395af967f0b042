/*
 * The replicated log on a uv loop: a thread per lane for the disk, and the handles that call
 * replication_tick when it is due. It has no handle that runs in each pass of the loop: its owner
 * calls replication_loop_turn there.
 */
#ifndef REPLICATION_REPLICATION_UV_H
#define REPLICATION_REPLICATION_UV_H

#include "replication/replication.h"

#include <uv.h>

struct replication_loop;

/* How messages for other servers leave, as in struct replication_host. */
struct replication_sender {
    void *ctx;
    void (*send)(void *ctx, uint64_t to, struct buf *message_take);
};

/* replication_open with a host of its own on the loop. sender may be NULL when there are no other
 * servers; ops NULL: the machine's file system. Errors as of replication_open; what is left on the
 * loop then goes when it runs. */
int replication_loop_open(uv_loop_t *loop, const struct replication_options *options,
                          const struct replication_callbacks *callbacks,
                          const struct replication_sender *sender, const struct file_ops *ops,
                          struct replication_loop **ret, char **ret_text) CONCLAVE_MUST_USE;

/* replication_turn, and the handles set for the next tick. The owner of the loop calls it once in each
 * pass, as late as it can before the loop waits, and until cb of the close. */
void replication_loop_turn(struct replication_loop *l);

/* The log itself, until cb of the close. */
struct replication *replication_loop_log(struct replication_loop *l);

/* replication_close, then the threads and handles; calls cb, after which l is gone. May be called
 * from any callback, once. */
void replication_loop_close(struct replication_loop *l, void (*cb)(void *ctx), void *ctx);

#endif
