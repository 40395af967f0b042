/*
 * Who is alive, by the clock of the leader: sessions in buckets of one tick. A session whose
 * last sign of life is older than its timeout expires in (timeout, timeout + tick], as in
 * ZooKeeper's ExpiryQueue. Time is given by the caller, in milliseconds of a monotonic clock. A
 * pause of the caller's own (a stopped process, a stalled disk) is not held against the
 * sessions: see session_tracker_pause.
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session_tracker;

struct session_tracker *session_tracker_create(int32_t tick_ms);
void session_tracker_destroy(struct session_tracker *t);

/* Starts watching over a session, at full timeout from now. Known already: its timeout is
 * replaced, and touched. */
int session_tracker_add(struct session_tracker *t, int64_t id, int32_t timeout_ms,
                        int64_t now_ms) CONCLAVE_MUST_USE;

/* A sign of life. False when the session is not known. */
bool session_tracker_touch(struct session_tracker *t, int64_t id, int64_t now_ms);

void session_tracker_remove(struct session_tracker *t, int64_t id);

/* When session_tracker_expire should be called next; INT64_MAX when there is no session. */
int64_t session_tracker_deadline(const struct session_tracker *t);

/* Calls fn for each session that is due and moves it one timeout on, so that it is named again
 * only if it was not removed by then (the close is a log entry that may fail). fn may remove
 * sessions. */
void session_tracker_expire(struct session_tracker *t, int64_t now_ms,
                            void (*fn)(void *ctx, int64_t id), void *ctx);

/* The caller did not run from then to now: every session gets the time lost added. */
void session_tracker_pause(struct session_tracker *t, int64_t lost_ms);

/* Calls fn for each session, in no particular order, with the time of the caller's clock (ms) at which
 * it is due, until fn returns false. fn must not change the tracker. */
void session_tracker_each(const struct session_tracker *t,
                          bool (*fn)(void *ctx, int64_t id, int64_t due_ms), void *ctx);

size_t session_tracker_count(const struct session_tracker *t);

#endif
