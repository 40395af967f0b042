/*
 * What the members of an ensemble tell the leader about the sessions of their clients, and what the
 * leader may conclude from it. The promise: no session ends before its timeout after the last answer
 * that any server sent to its client.
 *
 *   server F                                      leader L
 *     answers clients, notes when (session.h)
 *     ── REPORT n, sent at s: all signs of life ──>  notes them; asks a majority whether it still leads
 *        that no acknowledged report has             (replication/read_index.h)
 *     contact := s  <── REPORTED n, s, at time c ──  yes: acknowledges
 *     ── REPORT n + 1: ..., "I know of c" ────────>  F sent this at c or later
 *
 * Times below are of the clock of the server named; T is the timeout of a session, G is one tick of F.
 *
 * What F keeps to (leadership.c):
 *  a. F answers a client only until contact + G, and the leader does the same with its own questions to
 *     the majority. So when a new leader is elected at time e, every server has its last contact before e,
 *     and answers nobody after e + G until the new leader has acknowledged a report.
 *  b. F answers no session that gave no sign of life at F for T. Its connection is dropped; the client
 *     takes the session up again with ATTACH_SESSION, and the log decides whether its end came first.
 *  c. F notes a sign of life for every request and every answer, and only while it has contact. A connection
 *     that ends takes nothing with it.
 *
 * When L ends a session of F's, heard of at h (the time the report came, less the age that F tells):
 *  d. F sent a report at h + T or later that does not mention the session. All earlier answers are in
 *     F's reports (c), and F sends none later (b). L knows a time before which a report was not sent: c
 *     above, or a time known for an earlier report plus the time since on F's clock, less drift.
 *  e. Or L got no such report until r + G + T, r being when the last one came: by then F's last answer is
 *     T old (a). This covers a server that was killed, cut off in either direction, stopped, removed.
 *
 *  - A restarted F has forgotten the answers of its earlier life: a report names the life. When another one
 *    begins, the sessions that F had in the last one are taken to be heard of at r + G of that life, or when the
 *    first report of the new one came, if that is earlier; or at e + G if L does not know a life before. F has
 *    no contact at the beginning of a life, so a session that moves to it is heard of after that first report:
 *    one of an earlier time is not F's in this life, and ends T later. It is not extended by the end of
 *    another life, so it ends also while F restarts again and again.
 *  - A new leader counts every session as heard of at e. By (a) only a server whose life began after e
 *    may have answered later without telling, hence e + G above.
 *  - A session that moves is heard of when L applies ATTACH_SESSION and belongs to the new server. The
 *    old connection was given up by the client; its server drops it when it applies the same entry.
 *  - F may apply that entry late. It counts (b) from when the client asked, which is before L applied it.
 *  - A server that is stopped (SIGSTOP) answers nobody when it wakes, by (a), as clocks go on. A leader
 *    that is stopped ends no session meanwhile; the reports in its sockets have the right age by (d), and the
 *    pause is given back to all sessions (session.h).
 *  - A leader that was deposed and does not know it yet gets no majority, so neither it nor a server that
 *    reports to it has contact.
 *
 * Without faults L ends a session within T / 512 for drift, one interval between reports (an eighth of a tick,
 * at most 125 ms), a granule (50 ms) and the delay of the links after its timeout. Clocks of two servers
 * may differ in rate by 1 / 512. All servers have the same tickTime: G of a server that L never heard is
 * taken to be its own. What a server hands to its kernel at a time is taken to be sent then.
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
    int64_t heard_own_ms; /* and the same on the clock that stands still during pauses */
    int64_t floor_ms; /* until then a life that this leader knows nothing of may have answered */
    /* when the first report of its life came; CONTACT_NEVER: it may be older than the leader */
    int64_t began_ms;
    int64_t complete_ms; /* all that it answered by then is reported; CONTACT_NEVER: not known */
    int64_t sent_ms;     /* when it sent the last report, by its own clock */
    struct report_name asked; /* is acknowledged when the ticket is confirmed */
    struct report_name next;  /* came since */
    uint64_t ticket;
};

struct session_reports {
    uint64_t life;       /* of this server's record of its sessions */
    uint64_t generation; /* of the service's state that the record belongs to */
    int64_t born_ms;     /* when it began */
    uint32_t number;     /* of the last report */
    int64_t known_term;  /* of the leader whose time is */
    int64_t known_ms;    /* this, as it last acknowledged; 0: it did not yet */

    /* Of a leader. */
    int64_t since_ms; /* when it began to lead */
    int64_t since_own_ms;
    struct report_name own; /* its own question to the majority: number is 0 or 1 */
    uint64_t own_ticket;
    struct reporter *reporters;
    size_t n_reporters;
    size_t cap_reporters;
};

void session_reports_init(struct ensemble *e);
void session_reports_finish(struct ensemble *e);

/* The leader changed, or is unknown now; this server may be the leader. */
void session_reports_leader_changed(struct ensemble *e);

/* A beat: reports to the leader, or asks the majority. */
void session_reports_tell(struct ensemble *e);
int64_t session_reports_interval_ms(const struct ensemble *e);

/* What other members sent. */
void session_reports_take(struct ensemble *e, uint64_t from, struct slice bytes);
void session_reports_acknowledged(struct ensemble *e, uint64_t from, struct slice bytes);

/* Tickets up to this one are confirmed. */
void session_reports_confirmed(struct ensemble *e, uint64_t ticket);

/* As pipeline_sink.expiry_wait. */
int64_t session_reports_expiry_wait(struct ensemble *e, int64_t owner, int64_t heard_ms,
                                    int32_t timeout_ms);

#endif
