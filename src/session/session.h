/*
 * Tracks which sessions are alive. On the leader the tracker ends sessions: they are in buckets of one granule, and a
 * session is reported as due when its last sign of life is older than its timeout, within (timeout, timeout + granule].
 * On every other server it records the signs of life that the leader must learn: each stays in the reports until a
 * report that contains it is acknowledged, whatever happens to its connection (cluster/session_reports.h). The caller
 * gives the time, in milliseconds of a monotonic clock. A pause of the caller itself (a stopped process, a stalled
 * disk) does not count against the sessions: see session_tracker_pause.
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session_tracker;

/* It ends sessions until session_tracker_lead says otherwise. NULL: out of memory. */
struct session_tracker *session_tracker_create(int32_t granule_ms);
void session_tracker_destroy(struct session_tracker *t);

/* Adds a session, with its full timeout from now. If it is known, its timeout is replaced, and it is touched. */
int session_tracker_add(struct session_tracker *t, int64_t id, int32_t timeout_ms,
                        int64_t now_ms) CONCLAVE_MUST_USE;

/* Sets whether this server ends sessions (the leader) or reports them. A new leader then adds every session again. */
void session_tracker_lead(struct session_tracker *t, bool leads);

/* A sign of life at heard_ms; one that is older than the known one changes nothing. False: the session is unknown. */
bool session_tracker_touch(struct session_tracker *t, int64_t id, int64_t heard_ms);

/* The session may have been alive until until_ms, unless its last sign of life is from before since_ms. */
void session_tracker_extend(struct session_tracker *t, int64_t id, int64_t since_ms,
                            int64_t until_ms);

/* The session was certainly alive only at heard_ms, which is earlier than the known time. */
void session_tracker_doubt(struct session_tracker *t, int64_t id, int64_t heard_ms);

/* Whether the session may have ended, or is about to end: then its client gets no answer. The leader knows by its own
 * decision, other servers by the time since the last sign of life here. False: the session is unknown. */
bool session_tracker_is_over(const struct session_tracker *t, int64_t id, int64_t now_ms);

void session_tracker_remove(struct session_tracker *t, int64_t id);

/* When to call session_tracker_expire next; INT64_MAX: there are no sessions. */
int64_t session_tracker_deadline(struct session_tracker *t);

/* The owner's answer about a due session: SESSION_ENDS, SESSION_LIVES (it was touched), or in how many ms to ask
 * again. */
enum { SESSION_ENDS = 0, SESSION_LIVES = -1 };
typedef int64_t (*session_verdict)(void *ctx, int64_t id, int64_t heard_ms, int32_t timeout_ms);

/* Calls fn for each due session. One that ends becomes due again one timeout later, in case it was not removed by then
 * (the close is a log entry, which may fail). fn may remove and touch sessions. */
void session_tracker_expire(struct session_tracker *t, int64_t now_ms, session_verdict fn,
                            void *ctx);

/* The caller did not run for this time: adds it to every session's deadline. */
void session_tracker_pause(struct session_tracker *t, int64_t lost_ms);

/* For tests: this time passes at once for every session. */
void session_tracker_pass(struct session_tracker *t, int64_t ms);

/* now_ms on the clock that stops during pauses. */
int64_t session_tracker_own_ms(const struct session_tracker *t, int64_t now_ms);

/* Calls fn for each sign of life that no acknowledged report contains, oldest first, and assigns them to report
 * `number` (from 1, growing). */
void session_tracker_report(struct session_tracker *t, uint32_t number,
                            void (*fn)(void *ctx, int64_t id, int64_t heard_ms), void *ctx);

/* The leader has this report, and so all earlier ones. */
void session_tracker_reported(struct session_tracker *t, uint32_t number);

/* Calls fn for each session, in any order, with its deadline on the caller's clock (ms), until fn returns false. fn
 * must not change the tracker. */
void session_tracker_each(const struct session_tracker *t,
                          bool (*fn)(void *ctx, int64_t id, int64_t due_ms), void *ctx);

/* Its last sign of life and its deadline, on the caller's clock (ms). False: the session is unknown. */
bool session_tracker_look(const struct session_tracker *t, int64_t id, int64_t *ret_heard_ms,
                          int64_t *ret_due_ms);

size_t session_tracker_count(const struct session_tracker *t);

#endif
