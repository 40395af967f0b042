/*
 * How members report signs of life of their clients' sessions to the leader, and what the leader may conclude from the
 * reports. The promise: no session ends before its timeout after the last answer that any server sent to its client.
 *
 *   server F                                      leader L
 *     answers clients, notes when (session.h)
 *     ── REPORT n, sent at s: all signs of life ──>  notes them; asks a majority whether it still leads
 *        that no acknowledged report contains        (replication/read_index.h)
 *     contact := s  <── REPORTED n, s, at time c ──  yes: acknowledges
 *     ── REPORT n + 1: ..., "I know of c" ────────>  F sent this at c or later
 *
 * Each time is on the clock of the server named. T is the timeout of a session, G is one tick of F.
 *
 * Rules that F keeps (leadership.c):
 *  a. F answers a client only until contact + G, and the leader does the same with its own questions to the majority.
 *     So if a new leader is elected at time e, every server has its last contact before e, and answers no client after
 *     e + G until the new leader has acknowledged a report.
 *  b. F answers no session that gave no sign of life at F for T. F drops its connection; the client resumes the session
 *     with ATTACH_SESSION, and the log decides whether its end came first.
 *  c. F notes a sign of life for every request and every answer, and only while it has contact. These notes remain when
 *     the connection ends.
 *
 * L ends a session of F's that was last heard of at h (the time of the report less the age in it) in one of two cases:
 *  d. F sent a report at h + T or later that does not mention the session. All earlier answers are in F's reports (c),
 *     and F sends none later (b). L knows a time before which a report was not sent: c above, or a time known for an
 *     earlier report plus the time since then on F's clock, less drift.
 *  e. L got no such report until r + G + T, where r is the time of the last report. By then F's last answer is T old
 *     (a). This covers a server that was killed, cut off in either direction, stopped or removed.
 *
 *  - A restarted F has forgotten the answers of its earlier life: a report names the life. When another one begins, L
 *    counts the sessions that F had in the last life as heard of at r + G of that life, or at the first report of the
 *    new one, if that is earlier; or at e + G if L knows no life before. F has no contact at the beginning of a life,
 *    so a session that moves to F is heard of after that first report. A session heard of earlier is not F's in this
 *    life, and ends T later. The end of another life does not extend it, so it ends even if F restarts again and again.
 *  - A new leader counts every session as heard of at e. By (a) only a server whose life began after e may have
 *    answered later without a report, hence e + G above.
 *  - A session that moves is heard of when L applies ATTACH_SESSION and it belongs to the new server. The client has
 *    given up the old connection; the old server drops it when it applies the same entry.
 *  - F may apply that entry late. Rule (b) counts from the client's request, which is before L applied it.
 *  - A server that was stopped (SIGSTOP) answers no client when it wakes, by (a), because its clock continued. A leader
 *    that is stopped ends no session meanwhile; the reports in its sockets have the right age by (d), and all sessions
 *    get the time of the pause back (session.h).
 *  - A leader that was deposed and does not know it yet gets no majority, so neither it nor a server that reports to it
 *    has contact.
 *
 * Without faults L ends a session within T / 512 for drift, one interval between reports (an eighth of a tick, at most
 * 125 ms), a granule (50 ms) and the delay of the links after its timeout. The clocks of two servers may differ in rate
 * by 1 / 512. All servers have the same tickTime: for a server that L never heard of, L uses its own G. An answer
 * counts as sent when the server hands it to its kernel.
 */
#ifndef CLUSTER_SESSION_REPORTS_H
#define CLUSTER_SESSION_REPORTS_H

#include "base/buf.h"
#include "front/service.h"

#include <stdbool.h>
#include <stdint.h>

struct ensemble;

/* A report that the leader will acknowledge. */
struct report_name {
    uint32_t number; /* 0: none */
    int64_t sent_ms; /* on the clock of its sender */
};

/* What the leader knows of a server that reports. */
struct reporter {
    uint64_t id;
    uint64_t life;
    int64_t grace_ms;     /* G */
    int64_t heard_ms;     /* when the last report came, */
    int64_t heard_own_ms; /* the same, on the clock that stops during pauses */
    int64_t floor_ms;     /* until then an unknown earlier life may have answered */
    /* when the first report of its life came; CONTACT_NEVER: the life may be older than the leadership */
    int64_t began_ms;
    int64_t complete_ms;      /* all answers until then are reported; CONTACT_NEVER: unknown */
    int64_t sent_ms;          /* when it sent the last report, on its own clock */
    struct report_name asked; /* acknowledged when the ticket is confirmed */
    struct report_name next;  /* arrived since */
    uint64_t ticket;
};

struct session_reports {
    uint64_t life;       /* random id of this server's record of its sessions */
    uint64_t generation; /* of the service's state for that record */
    int64_t born_ms;     /* when the life began */
    uint32_t number;     /* of the last report */
    int64_t known_term;  /* term of the leader of known_ms */
    int64_t known_ms;    /* time of its last acknowledgement; 0: none yet */

    /* Only on a leader. */
    int64_t since_ms; /* when it became leader */
    int64_t since_own_ms;
    struct report_name own; /* its own question to the majority: number is 0 or 1 */
    uint64_t own_ticket;
    struct reporter *reporters;
    size_t n_reporters;
    size_t cap_reporters;
};

void session_reports_begin_life(struct ensemble *e);
void session_reports_finish(struct ensemble *e);

/* The leader changed or became unknown; this server may be the leader. */
void session_reports_leader_changed(struct ensemble *e);

/* Regular work: reports to the leader, or asks the majority. */
void session_reports_tell(struct ensemble *e);
int64_t session_reports_interval_ms(const struct ensemble *e);

/* Messages from other members. */
void session_reports_take(struct ensemble *e, uint64_t from, struct slice bytes);
void session_reports_acknowledged(struct ensemble *e, uint64_t from, struct slice bytes);

/* All tickets up to this one are confirmed. */
void session_reports_confirmed(struct ensemble *e, uint64_t ticket);

/* As pipeline_sink.expiry_wait. */
int64_t session_reports_expiry_wait(struct ensemble *e, int64_t owner, int64_t heard_ms,
                                    int32_t timeout_ms);

/* As pipeline_sink.reporter_ages. */
void session_reports_ages(const struct ensemble *e, int64_t owner, int64_t *ret_report_ms,
                          int64_t *ret_reborn_ms);

#endif
