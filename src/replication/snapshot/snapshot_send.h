/*
 * Sends snapshot files to members that are too far behind. For each of them:
 *
 *   begin → open the file → OFFER → WANT(offset) → CHUNK … → WANT(offset) … → WANT_NOTHING → end
 *
 * The receiver says what it has, so a broken link costs what was under way: when it is up again, or
 * after a second without an answer, the file is offered anew. The file stays open: that it is
 * removed meanwhile does no harm. A file that the receiver found damaged twice is not sent again.
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
    uint64_t damaged; /* index of a file that did not check at the other end, or 0 */
};

void snapshot_sender_init(struct snapshot_sender *s, const struct stream_host *host,
                          const struct file_ops *ops, const char *dir);

/* Only when no job is under way. */
void snapshot_sender_finish(struct snapshot_sender *s);

/* The engine's ENGINE_INSTALL. One that is under way for that member goes on, whatever its index:
 * what it ends with is nearer than what the member has. */
void snapshot_sender_begin(struct snapshot_sender *s, const struct engine_message *install);

void snapshot_sender_wanted(struct snapshot_sender *s, uint64_t from,
                            const struct log_message_wanted *wanted);
void snapshot_sender_link(struct snapshot_sender *s, uint64_t peer, bool up);

/* No leader any more, or the end: all transfers. */
void snapshot_sender_stop(struct snapshot_sender *s);

int64_t snapshot_sender_deadline(const struct snapshot_sender *s); /* INT64_MAX: none */
void snapshot_sender_tick(struct snapshot_sender *s);

/* Bytes acknowledged and in all; false when nothing is being sent to it. */
bool snapshot_sender_progress(const struct snapshot_sender *s, uint64_t to, uint64_t *ret_sent,
                              uint64_t *ret_total);

#endif
