/*
 * Sends snapshot files to members that are too far behind. For each of them:
 *
 *   begin → open the file → OFFER → WANT(offset) → CHUNK … → WANT(offset) … → WANT_NOTHING → end
 *
 * The receiver tells which part it has, so a broken link costs only the chunks on the way: when it is up again, or
 * after a second without an answer, the file is offered again. The file stays open, so its removal does no harm. A file
 * that the receiver found damaged twice is not sent again.
 */
#ifndef REPLICATION_SNAPSHOT_SNAPSHOT_SEND_H
#define REPLICATION_SNAPSHOT_SNAPSHOT_SEND_H

#include "base/list.h"
#include "replication/raft/engine.h"
#include "replication/raft/log_messages.h"
#include "replication/snapshot/snapshot_stream.h"

struct snapshot_sender {
    struct stream_host host;
    const struct file_ops *ops;
    const char *dir; /* borrowed */
    struct list transfers;
    uint64_t damaged; /* index of a file that a receiver found damaged, or 0 */
};

void snapshot_sender_init(struct snapshot_sender *s, const struct stream_host *host,
                          const struct file_ops *ops, const char *dir);

/* Only while no job is in progress. */
void snapshot_sender_finish(struct snapshot_sender *s);

/* The engine's ENGINE_INSTALL. A transfer to that member that is in progress continues, whatever its index: its
 * snapshot is newer than the member's log. */
void snapshot_sender_begin(struct snapshot_sender *s, const struct engine_message *install);

void snapshot_sender_wanted(struct snapshot_sender *s, uint64_t from,
                            const struct log_message_wanted *wanted);
void snapshot_sender_link(struct snapshot_sender *s, uint64_t peer, bool up);

/* Ends all transfers: this server is no leader any more, or stops. */
void snapshot_sender_stop(struct snapshot_sender *s);

int64_t snapshot_sender_deadline(const struct snapshot_sender *s); /* INT64_MAX: none */
void snapshot_sender_tick(struct snapshot_sender *s);

/* Acknowledged and total bytes; false: nothing is being sent to it. */
bool snapshot_sender_progress(const struct snapshot_sender *s, uint64_t to, uint64_t *ret_sent,
                              uint64_t *ret_total);

#endif
