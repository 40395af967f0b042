/* What sending and receiving of snapshot files share: the limits, and the functions that the owner provides. Both
 * belong to the caller's thread; files are used on LANE_FILES. */
#ifndef REPLICATION_SNAPSHOT_SNAPSHOT_STREAM_H
#define REPLICATION_SNAPSHOT_SNAPSHOT_STREAM_H

#include "base/buf.h"
#include "replication/disk/disk_job.h"
#include "replication/disk/file_ops.h"
#include "replication/disk/folder_format.h"

#include <stdbool.h>
#include <stdint.h>

#define STREAM_CHUNK SNAPSHOT_BLOCK_SIZE
#define STREAM_WINDOW (8u * STREAM_CHUNK) /* most unacknowledged bytes */
#define STREAM_STALL_MS 1000              /* without an answer the file is offered again */
#define STREAM_GIVE_UP 30                 /* after so many offers the engine must ask again */

struct stream_host {
    void *ctx;
    int64_t (*now_ms)(void *ctx);
    void (*run)(void *ctx, struct worker_job *job); /* LANE_FILES, in order */
    void (*ran)(void *ctx);                         /* the last call in each job's done */
    void (*send)(void *ctx, uint64_t to, struct buf *message_take); /* may be lost */
    void (*warn)(void *ctx, const char *text);
};

#endif
