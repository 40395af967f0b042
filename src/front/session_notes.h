/*
 * What this server notes about sessions, so that it can say later why one ended (session/cause.h): its own stalls,
 * changes of leader and the state of its log, once per beat; and a record when a connection or a session ends. Requests
 * cost nothing more than a comparison. With maxEndedSessions=0 there are no records and no notes.
 */
#ifndef FRONT_SESSION_NOTES_H
#define FRONT_SESSION_NOTES_H

#include "session/ledger.h"

struct connection;
struct service;

enum {
    NOTED_STALLS = 256, /* so many short ones do not push out the long one that ended a session */
    NOTED_CHANGES = 16,
    NOTED_BEATS = 96, /* at a quarter of a tick each: 48 s by default */
    NOTED_STALL_MIN_MS = 50,
};

struct noted_beat {
    int64_t at_ms;
    int64_t sync_ms; /* the log waited for the disk since the beat before */
    int64_t disk_ms; /* age of the write that was on its way to the disk */
    int64_t write_wait_ms;
    uint32_t queue;
    bool in_contact;
};

struct session_notes {
    struct session_ledger *ledger; /* NULL: off */
    /* Rings; the counts grow without end. */
    struct {
        int64_t end_ms; /* monotonic */
        int64_t lost_ms;
    } stalls[NOTED_STALLS];
    size_t stalls_count;
    int64_t changes[NOTED_CHANGES]; /* monotonic ms */
    size_t changes_count;
    struct noted_beat beats[NOTED_BEATS];
    size_t beats_count;
    uint64_t ended[SESSION_CAUSE_COUNT]; /* sessions of this server's clients, by cause */
    uint64_t sync_sum;                   /* of the metric, at the last beat */
    uint64_t leader;                     /* 0: none known yet */
    int64_t led_since_ms;                /* monotonic, of a leader */
    /* Reads the kernel's view of a connection; NULL: connections have no sockets. */
    bool (*tcp)(const struct connection *c, struct session_tcp *ret);
};

/* What the leader knows of a server that reports. Ages in ms, -1: unknown. */
struct reporter_ages {
    int64_t report_ms; /* of its last report */
    int64_t reborn_ms; /* of its present run, if that began during the leadership */
};

/* max: records of each kind; 0: off. 0 or CONCLAVE_ENOMEM; call session_notes_finish in either case. */
int session_notes_init(struct session_notes *n, size_t max) CONCLAVE_MUST_USE;
void session_notes_finish(struct session_notes *n);

/* This process did not run for lost_ms until now. */
void session_notes_stall(struct session_notes *n, int64_t now_ms, int64_t lost_ms);

/* Regular work. */
void session_notes_beat(struct service *s, int64_t now_ms);

/* This member leads. The same one again is no change. */
void session_notes_leader(struct service *s, uint64_t leader);

/* The connection of a living session is about to end; its socket is open still. */
void session_notes_unlinked(struct service *s, const struct connection *c);

/* The client resumed its session: here, or on another server (c: its connection here, or NULL). */
void session_notes_resumed(struct service *s, int64_t id);
void session_notes_moved(struct service *s, int64_t id, const struct connection *c);

/* The leader decides that a session has expired. owner: server that the client used last, 0: unknown. */
void session_notes_decided(struct service *s, int64_t id, int64_t heard_ms, int32_t timeout_ms,
                           int64_t owner, const struct reporter_ages *ages);

/* A session ended. c: its connection, open until now, or NULL. by: the operator who killed it. */
void session_notes_ended(struct service *s, int64_t id, enum session_end end, struct slice by,
                         const struct connection *c);

#endif
