/* What sending and receiving of snapshot files have in common: how much is under way, and what they
 * need of whoever runs them. Both belong to the caller's thread; files are touched on LANE_FILES. */
#ifndef REPLICATION_SNAPSHOT_SNAPSHOT_STREAM_H
#define REPLICATION_SNAPSHOT_SNAPSHOT_STREAM_H

#include "base/buf.h"
#include "replication/disk/disk_job.h"
#include "replication/disk/file_ops.h"
#include "replication/disk/folder_format.h"

#include <stdbool.h>
#include <stdint.h>

#define STREAM_CHUNK SNAPSHOT_BLOCK_SIZE
#define STREAM_WINDOW (8u * STREAM_CHUNK) /* sent and not acknowledged, at most */
#define STREAM_STALL_MS 1000              /* without an answer: offered anew */
#define STREAM_GIVE_UP 30                 /* times, then the engine has to ask again */

struct stream_host {
    void *ctx;
    int64_t (*now_ms)(void *ctx);
    void (*run)(void *ctx, struct worker_job *job); /* LANE_FILES, in order */
    void (*ran)(void *ctx);                         /* the last call of each job's done */
    void (*send)(void *ctx, uint64_t to, struct buf *message_take); /* may be lost */
    void (*warn)(void *ctx, const char *text);
};

#endif
