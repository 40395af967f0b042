/*
 * Receives one snapshot file, from whoever leads:
 *
 *   IDLE → offer → OPENING → FILLING → all there → CHECKING → `ready` → READY
 *     → accept → ACCEPTING → `accepted` → done → IDLE
 *   CHECKING → it does not check, and an earlier run began it → OPENING, from empty
 *   any → discard, a failure, another offer → CLEANING → IDLE
 *
 * It is written aside, synced and checked as a whole before anybody hears of it, and has its name
 * only after `accepted`. The same file, offered again by this or another leader, goes on where it
 * was, also after a restart: what was begun stays until it is whole, another one comes, or the log has caught up
 * otherwise and takes a snapshot of its own.
 */
#ifndef REPLICATION_SNAPSHOT_SNAPSHOT_RECEIVE_H
#define REPLICATION_SNAPSHOT_SNAPSHOT_RECEIVE_H

#include "replication/disk/error_text.h"
#include "replication/raft/log_messages.h"
#include "replication/snapshot/snapshot_stream.h"

struct snapshot_receiver_callbacks {
    void *ctx;
    /* The file is whole. Now or later: snapshot_receiver_accept or _discard. Told again when it is
     * offered again meanwhile. */
    void (*ready)(void *ctx, uint64_t from, const struct log_message_offer *offer);
    /* It is durable under its name, or (rv) not. Then snapshot_receiver_done or _discard. */
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
    bool anew;             /* nothing of an earlier run is to be used */
    struct worker_job job; /* all but the writes */

    int fd;                    /* LANE_FILES': or -1 */
    uint64_t found;            /* LANE_FILES' until the job is done: bytes of an earlier run */
    int rv;                    /* LANE_FILES' until the job is done: the first failure */
    struct error_text problem; /* the same */
};

void snapshot_receiver_init(struct snapshot_receiver *rx, const struct stream_host *host,
                            const struct snapshot_receiver_callbacks *callbacks,
                            const struct file_ops *ops, const char *dir,
                            const uint8_t cluster[FORMAT_CLUSTER_SIZE]);

/* Only when no job is under way. What is unfinished stays for the next start. */
void snapshot_receiver_finish(struct snapshot_receiver *rx);

/* The caller has looked whether it needs the snapshot; if not: snapshot_receiver_decline. */
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
