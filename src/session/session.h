/*
 * Which sessions are alive. On the leader the tracker ends sessions: they lie in buckets of one granule, and a
 * session whose last sign of life is older than its timeout is named in (timeout, timeout +
 * granule]. On every other server it is a record of the signs of life that the leader must hear
 * of: each stays in the reports until a report that has it was acknowledged, whatever becomes of
 * the connection that gave it (cluster/session_reports.h). Time is given by the caller, in milliseconds of
 * a monotonic clock. A pause of the caller's own (a stopped process, a stalled disk) is not held
 * against the sessions: see session_tracker_pause.
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session_tracker;

/* It ends sessions until session_tracker_lead says otherwise. NULL when memory is out. */
struct session_tracker *session_tracker_create(int32_t granule_ms);
void session_tracker_destroy(struct session_tracker *t);

/* Starts watching over a session, at full timeout from now. Known already: its timeout is
 * replaced, and touched. */
int session_tracker_add(struct session_tracker *t, int64_t id, int32_t timeout_ms,
                        int64_t now_ms) CONCLAVE_MUST_USE;

/* Whether this server judges (the leader) or reports. A leader goes on to add every session anew. */
void session_tracker_lead(struct session_tracker *t, bool leads);

/* A sign of life at heard_ms; an earlier one than is known changes nothing. False when the session is
 * not known. */
bool session_tracker_touch(struct session_tracker *t, int64_t id, int64_t heard_ms);

/* The session may have been alive until until_ms, unless its last sign of life is from before since_ms. */
void session_tracker_extend(struct session_tracker *t, int64_t id, int64_t since_ms,
                            int64_t until_ms);

/* The session is only known to have been alive at heard_ms, which is earlier than was said before. */
void session_tracker_doubt(struct session_tracker *t, int64_t id, int64_t heard_ms);

/* Whether the session may have ended by now, or is being ended: its client gets no answer. Judged by the
 * leader's own decision, and elsewhere by the time since the last sign of life here. False when the
 * session is not known. */
bool session_tracker_is_over(const struct session_tracker *t, int64_t id, int64_t now_ms);

void session_tracker_remove(struct session_tracker *t, int64_t id);

/* When session_tracker_expire should be called next; INT64_MAX when there is no session. */
int64_t session_tracker_deadline(struct session_tracker *t);

/* What the owner of the tracker says of a session that is due: SESSION_ENDS, SESSION_LIVES (it was
 * touched), or in how many ms it wants to be asked again. */
enum { SESSION_ENDS = 0, SESSION_LIVES = -1 };
typedef int64_t (*session_verdict)(void *ctx, int64_t id, int64_t heard_ms, int32_t timeout_ms);

/* Calls fn for each session that is due. One that ends is moved one timeout on, so that it is named
 * again only if it was not removed by then (the close is a log entry that may fail). fn may remove and
 * touch sessions. */
void session_tracker_expire(struct session_tracker *t, int64_t now_ms, session_verdict fn,
                            void *ctx);

/* The caller did not run from then to now: every session gets the time lost added. */
void session_tracker_pause(struct session_tracker *t, int64_t lost_ms);

/* now_ms on the clock that stands still during pauses. */
int64_t session_tracker_own_ms(const struct session_tracker *t, int64_t now_ms);

/* Reports: calls fn for each sign of life that no acknowledged report has, the oldest first, and puts
 * them into report `number` (from 1, growing). */
void session_tracker_report(struct session_tracker *t, uint32_t number,
                            void (*fn)(void *ctx, int64_t id, int64_t heard_ms), void *ctx);

/* The leader has this report and so all before it. */
void session_tracker_reported(struct session_tracker *t, uint32_t number);

/* Calls fn for each session, in no particular order, with the time of the caller's clock (ms) at which
 * it is due, until fn returns false. fn must not change the tracker. */
void session_tracker_each(const struct session_tracker *t,
                          bool (*fn)(void *ctx, int64_t id, int64_t due_ms), void *ctx);

size_t session_tracker_count(const struct session_tracker *t);

#endif
