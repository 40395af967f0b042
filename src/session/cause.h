/*
 * Why a session ended: facts in, cause out. Each server knows only its own facts: the one with the client's connection
 * knows what the client did, the leader knows why it decided the end. A cause has a weight, so that a reader of several
 * servers' records can take the one that says most.
 *
 * A silent client is judged by TCP. Its server sends keep-alive probes after half of the session's timeout
 * (net/stream.h). A host that answers them while its program says nothing has a program that is paused or stuck. A host
 * that does not answer is down, or the network between is cut. Time in which the server itself did not run or had no
 * leader is the server's, not the client's. So is the loss of a client that left because its requests got no answer: the
 * log of this server waited for its disk, or the other members stored nothing.
 */
#ifndef SESSION_CAUSE_H
#define SESSION_CAUSE_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(enumerator, code, weight). The codes are stable. */
#define SESSION_CAUSES(X)                                                                          \
    X(LIVES, "lives", 0)                                                                           \
    X(MOVED, "moved", 10)                                                                          \
    X(CLIENT_SILENT, "client_silent", 20)                                                          \
    X(SERVER_LOST, "server_lost", 30)                                                              \
    X(LEADER_CHANGE, "leader_change", 40)                                                          \
    X(CLIENT_LEFT, "client_left", 50)                                                              \
    X(CLIENT_PAUSED, "client_paused", 60)                                                          \
    X(CLIENT_NOT_READING, "client_not_reading", 62)                                                \
    X(COMMIT_STALL, "commit_stall", 65)                                                            \
    X(NETWORK, "network", 70)                                                                      \
    X(DROPPED, "dropped", 75)                                                                      \
    X(DISK_STALL, "disk_stall", 78)                                                                \
    X(SERVER_STALL, "server_stall", 80)                                                            \
    X(CLOSED, "closed", 90)                                                                        \
    X(KILLED, "killed", 100)

#define SESSION_CAUSE_ENUM(name, code, weight) SESSION_CAUSE_##name,
enum session_cause { SESSION_CAUSES(SESSION_CAUSE_ENUM) SESSION_CAUSE_COUNT };

enum session_end {
    SESSION_END_NONE, /* it was alive when its connection here ended */
    SESSION_END_EXPIRED,
    SESSION_END_CLOSED, /* by its client */
    SESSION_END_KILLED, /* by an operator */
};

/* The last connection of its client to this server. */
enum session_link {
    SESSION_LINK_NONE,    /* there was none */
    SESSION_LINK_OPEN,    /* open when the session ended */
    SESSION_LINK_LEFT,    /* the client closed or reset it */
    SESSION_LINK_LOST,    /* TCP gave it up: no answer from the client's host */
    SESSION_LINK_DROPPED, /* this server closed it: see `reason` */
    SESSION_LINK_MOVED,   /* the client resumed the session on another server */
};

/* The kernel's view of a connection. */
struct session_tcp {
    bool known;
    uint32_t
        unacknowledged; /* bytes sent, or waiting to be sent, that the client's host has not acknowledged */
    uint32_t retransmits;     /* of these, in a row, without an answer */
    uint32_t retransmits_all; /* since the connection began */
    uint32_t probes;          /* keep-alive probes in a row without an answer */
    int64_t heard_ms;         /* age of the last segment from the client's host */
};

enum { SESSION_NAME_MAX = 96 };

/* What one server knows. Times in ms; -1: unknown. "Silence" is the time from the last request or answer of the
 * session on this server to the end of the session, or of its connection if that ended earlier. */
struct session_facts {
    enum session_end end;
    int32_t timeout_ms;
    char by[SESSION_NAME_MAX]; /* KILLED: the operator */

    enum session_link link;
    char client[SESSION_NAME_MAX]; /* its address; "" without a connection */
    const char *reason;            /* DROPPED, LOST: why; fixed text; NULL: none */
    const char *last_request;      /* its name; fixed text; NULL: none */
    uint64_t requests;
    int64_t linked_ms;   /* how long the connection lived */
    int64_t unlinked_ms; /* from its end to the end of the session */
    int64_t silent_ms;   /* length of the silence */
    int64_t gap_ms;      /* longest time between two signs of life before the silence */
    uint32_t unanswered; /* requests of the connection without an answer */
    int64_t owed_ms;     /* age of the oldest of these */
    struct session_tcp tcp;

    /* This server during the silence, or since the oldest unanswered request. */
    int64_t stalled_ms;       /* its process did not run */
    int64_t stall_longest_ms; /* longest time in a row */
    int64_t cut_off_ms;       /* it had no leader with a quorum */
    int64_t sync_ms;          /* its log waited for the disk */
    int64_t sync_longest_ms;  /* for one write, which may have begun earlier */
    int64_t write_wait_ms;    /* longest time that a write waited for its answer */
    uint32_t queue;           /* most requests in progress at once */
    uint32_t leader_changes;
    uint32_t leader_changes_linked; /* during the connection */

    /* The leader's decision that the session expired. */
    bool decided;
    int64_t heard_ms;  /* age of the last sign of life that the leader knew of */
    int64_t led_ms;    /* how long it had led */
    int64_t owner;     /* number of the server that the client used last; -1: unknown */
    bool owner_here;   /* the leader itself */
    int64_t report_ms; /* age of that server's last report */
    int64_t reborn_ms; /* how long that server had run, if it began during the leadership */
};

enum session_cause session_cause_find(const struct session_facts *f);

const char *session_cause_code(enum session_cause cause);
int session_cause_weight(enum session_cause cause);

/* Appends the cause as a sentence with its figures. */
void session_cause_text(enum session_cause cause, const struct session_facts *f, struct buf *out);

/* Appends the facts as sentences, one per line. */
void session_facts_text(const struct session_facts *f, struct buf *out);

#endif
