/*
 * Receives one snapshot file from the leader:
 *
 *   IDLE → offer → OPENING → FILLING → complete → CHECKING → `ready` → READY
 *     → accept → ACCEPTING → `accepted` → done → IDLE
 *   CHECKING → the check fails, and an earlier run began the file → OPENING, from empty
 *   any → discard, a failure, another offer → CLEANING → IDLE
 *
 * The file is written under another name, synced and checked as a whole before it is reported, and gets its final name
 * only with `accepted`. If this or another leader offers the same file again, receiving continues where it stopped,
 * also after a restart: a partial file stays until it is complete, another one comes, or the log has caught up in
 * another way and takes its own snapshot.
 */
#ifndef REPLICATION_SNAPSHOT_SNAPSHOT_RECEIVE_H
#define REPLICATION_SNAPSHOT_SNAPSHOT_RECEIVE_H

#include "replication/disk/error_text.h"
#include "replication/raft/log_messages.h"
#include "replication/snapshot/snapshot_stream.h"

struct snapshot_receiver_callbacks {
    void *ctx;
    /* The file is complete. Call snapshot_receiver_accept or _discard, now or later. Called again if the file is
     * offered again meanwhile. */
    void (*ready)(void *ctx, uint64_t from, const struct log_message_offer *offer);
    /* It is durable under its final name, or not (rv). Then call snapshot_receiver_done or _discard. */
    void (*accepted)(void *ctx, int rv);
};

enum receive_state {
    RECEIVE_IDLE,
    RECEIVE_OPENING,
    RECEIVE_FILLING,
    RECEIVE_CHECKING,
    RECEIVE_READY,
    RECEIVE_ACCEPTING,
    RECEIVE_ACCEPTED,
    RECEIVE_CLEANING,
};

struct snapshot_receiver {
    struct stream_host host;
    struct snapshot_receiver_callbacks callbacks;
    const struct file_ops *ops;
    const char *dir;        /* borrowed */
    const uint8_t *cluster; /* borrowed */
    enum receive_state state;
    uint64_t from;
    struct log_message_offer offer;
    uint64_t expected; /* offset of the next chunk */
    uint64_t written;
    bool gap_told;
    bool anew;             /* use nothing of an earlier run */
    struct worker_job job; /* for all but the writes */

    int fd;         /* belongs to LANE_FILES; or -1 */
    uint64_t found; /* belongs to LANE_FILES until the job is done: bytes of an earlier run */
    int rv;         /* belongs to LANE_FILES until the job is done: the first failure */
    struct error_text problem; /* the same */
};

void snapshot_receiver_init(struct snapshot_receiver *rx, const struct stream_host *host,
                            const struct snapshot_receiver_callbacks *callbacks,
                            const struct file_ops *ops, const char *dir,
                            const uint8_t cluster[FORMAT_CLUSTER_SIZE]);

/* Only while no job is in progress. A partial file stays for the next start. */
void snapshot_receiver_finish(struct snapshot_receiver *rx);

/* The caller has checked that it needs the snapshot; if not, it calls snapshot_receiver_decline. */
void snapshot_receiver_offer(struct snapshot_receiver *rx, uint64_t from,
                             const struct log_message_offer *offer);
void snapshot_receiver_decline(struct snapshot_receiver *rx, uint64_t from,
                               const struct log_message_offer *offer);
void snapshot_receiver_chunk(struct snapshot_receiver *rx, uint64_t from,
                             const struct log_message_chunk *chunk);

void snapshot_receiver_accept(struct snapshot_receiver *rx); /* when ready */
void snapshot_receiver_done(struct snapshot_receiver *rx);   /* when accepted: ready for the next */
void snapshot_receiver_discard(struct snapshot_receiver *rx); /* at any time */

#endif
