/*
 * One client's connection: bytes in, bytes out, without a socket or a clock. It cuts frames, does the handshake, gives
 * writes to the pipeline, answers other requests from the state, and keeps the order of replies.
 *
 *   SECURING ──TLS handshake done──> HANDSHAKE
 *
 *   HANDSHAKE ──new session──> CREATING ──applied──> SERVING ──closeSession, unknown operation──┐
 *       │ └──known session, right password──────────────^  │                                    v
 *       └──refused with a reply───────────────────────────────────────────────────────────> CLOSING
 *   any ──bad frame, newer connection, session gone, slow reader, client gone──> CLOSED
 *
 * CLOSING: the output is sent, then the socket is closed. CLOSED: the socket is closed at once. The owner of the socket
 * visits each connection in service.dirty at the end of a turn; nothing is freed earlier.
 */
#ifndef FRONT_CONNECTION_H
#define FRONT_CONNECTION_H

#include "base/list.h"
#include "base/map.h"
#include "front/faults.h"
#include "front/limits/client_address.h"
#include "front/login/client_ids.h"
#include "front/login/sasl_login.h"
#include "front/pipeline.h"
#include "session/cause.h"
#include "state/state.h"
#include "watch/watch.h"

struct service;
struct password_check;

enum connection_stage {
    CONNECTION_SECURING,  /* the TLS handshake is not done */
    CONNECTION_HANDSHAKE, /* no session yet */
    CONNECTION_CREATING,  /* its session command is in the log, but not applied */
    CONNECTION_SERVING,
    CONNECTION_CLOSING, /* no more input; closes when the output has been sent */
    CONNECTION_CLOSED,  /* close at once */
};

/* What four-letter words show about a connection. Latencies in milliseconds, as ZooKeeper counts them. */
struct connection_stats {
    uint64_t received;       /* packets */
    uint64_t sent;           /* packets, including events */
    uint64_t answered;       /* requests whose latency was measured */
    uint64_t latency_sum_ms; /* of these requests */
    int64_t latency_last_ms;
    int64_t latency_min_ms; /* of these requests, 0: none */
    int64_t latency_max_ms;
    int64_t response_at_ms; /* latest reply, monotonic */
    int64_t last_cxid;      /* of the latest request with an xid, -1: none */
    int64_t last_zxid;      /* of the latest reply, -1: none */
    int32_t last_type;      /* enum wire_op of the latest reply, CONNECTION_NO_TYPE: none */
};

enum { CONNECTION_NO_TYPE = INT32_MIN };

/* A connection with fewer unsent and unread bytes than this is always served. */
enum { CONNECTION_BUFFERS_FREE = 65536 };

struct connection {
    struct service *service;
    enum connection_stage stage;
    bool input_ended; /* the last request of this connection was read */
    bool secured;     /* a TLS handshake was done */
    /* its reconfig has no answer yet, which may come after later entries of the log: no request is read meanwhile */
    bool reconfiguring;
    bool sent_away;         /* it ends when its requests are answered */
    bool has_read_only;     /* its ConnectRequest had the readOnly byte, so the reply has it, too */
    bool local;             /* only this server knows its session, and is not upgrading it */
    bool read_only;         /* there is no quorum: the client may only read the local state */
    bool asked;             /* the request also had the extension, so the reply has it */
    bool numbered;          /* its writes have numbers, and their results are remembered */
    int32_t repeated_above; /* writes with numbers above this one */
    int32_t repeated_to; /* and up to this one may be repetitions: the rate limit lets them pass */
    int64_t session_id;  /* 0: none */
    int32_t timeout_ms;  /* negotiated */
    uint64_t trace_link; /* for the ids of its requests' traces: wire/trace_ids.h */
    uint64_t trace_seed; /* of its session and trace_link */
    bool client_spans;   /* its client exports spans, too */
    int64_t seen_zxid;   /* newest zxid that its client has seen, also at other servers */
    /* deadline of the handshake, of closing, or of waiting for memory, monotonic ms */
    int64_t handshake_at;
    const char *host;               /* peer's numeric address, borrowed */
    const char *peer;               /* host:port for log lines, borrowed */
    struct client_address *address; /* of host: shared by all its connections */
    struct account account;         /* memory that the server keeps for it; part of the address's */
    struct map_node by_id;          /* in service.by_session while mapped */
    bool mapped;                    /* it is the current connection of its session, or claims it */
    struct list dirty;              /* in service.dirty */
    struct list throttled;          /* in service.throttled */
    struct list handshaking;        /* in service.handshaking: handshake_at is a deadline */
    struct list confirming;         /* in standing.confirming */
    struct list held;               /* in standing.held */
    int64_t touched_ms;             /* last noted sign of life of its session, monotonic */
    int64_t heard_ms;               /* the same, of a local session, too: for session_notes.h */
    int64_t gap_ms;                 /* longest time between two of these */
    enum session_link link;         /* how the connection ended; OPEN: not yet, or unknown */
    const char *link_reason;        /* why; fixed text, or NULL */
    bool answered;                  /* `out` contains replies, not only events */
    struct connection_faults faults; /* of a server for tests */
    struct watcher watcher;
    struct client_ids identity;
    struct sasl_login *login;            /* its SASL exchange, once begun */
    struct password_check *verification; /* of its password; no request is read meanwhile */
    struct buf verified_id;              /* the id that it gets if the password is correct */
    int32_t verified_xid;                /* xid of that request */
    struct list pending;                 /* unanswered requests, oldest first */
    size_t pending_count;
    struct buf waiting;       /* bodies of waiting requests */
    uint64_t waiting_base;    /* offset of waiting's first byte in all bytes that ever waited */
    size_t waiting_replies;   /* bytes that their answers may need */
    struct buf out;           /* unsent replies and events */
    int64_t sending_since_ns; /* when bytes were given to the socket that it still has; 0: none */
    size_t sending;           /* bytes given to the socket and not sent; set by its owner */
    struct connection_stats stats;
    int64_t established_ms; /* wall time */
    unsigned unmeasured;    /* requests answered in this call, latency not counted yet */
};

/* One request from the wire; body is borrowed. */
struct request {
    int32_t xid;
    int32_t type;
    int32_t err; /* not 0: refused when it was read */
    struct slice body;
};

/* Begins the handshake. 0, or CONCLAVE_ENOMEM: call connection_finish all the same. */
int connection_init(struct connection *c, struct service *s, const char *host,
                    const char *peer) CONCLAVE_MUST_USE;

/* Adds the subject of the client's verified certificate to its ids. Errors as client_ids_add. */
int connection_add_certificate(struct connection *c, struct slice subject) CONCLAVE_MUST_USE;

/* The socket is gone: leaves all lists and drops its watches. Its unanswered writes continue without it. */
void connection_finish(struct connection *c);

/* Enters its next stage. */
void connection_enter(struct connection *c, enum connection_stage stage);

/* Whether it waits for the session request, or for the TLS handshake before it. */
static inline bool connection_is_new(const struct connection *c)
{
    return c->stage == CONNECTION_SECURING || c->stage == CONNECTION_HANDSHAKE;
}

/* Resets its statistics. */
void connection_reset_stats(struct connection *c);

/* Takes whole frames from the front of bytes; returns the number of bytes taken. Stops when the connection wants no
 * more input. */
size_t connection_input(struct connection *c, struct slice bytes);

/* Whether connection_input would take a frame now. If a limit of all connections refuses, the connection becomes dirty
 * when there is room again. */
bool connection_ready(struct connection *c);

/* Closes at once, with a log line. `reason` is a fixed text. */
void connection_drop(struct connection *c, const char *reason);

/* Closes at once without a log line: the normal end. */
void connection_end(struct connection *c);

/* The socket ended: by the client, or because its host does not answer any more (`lost`). reason: fixed text or NULL. */
void connection_lost(struct connection *c, bool lost, const char *reason);

/* Makes the client go to another server: reads no more requests, and closes when the answers to the earlier ones were
 * sent. */
void connection_send_away(struct connection *c);

/* Closes when the output has been sent, or at handshake_at. */
void connection_close_after_output(struct connection *c);

/* A write of this connection is about to be applied: answers the reads before it. Reads that wait to be confirmed are
 * answered, too: the write's place in the log proves that all earlier acknowledged writes were applied. */
void connection_precede(struct connection *c, const struct pending *entry);

/* A write of this connection was applied: answers it and the requests that waited for it. */
void connection_complete(struct connection *c, struct pending *entry,
                         const struct effects *effects);

/* The password was checked: answers the auth request. err: 0 or CONCLAVE_AUTH_FAILED. */
void connection_verified(struct connection *c, int32_t err);

/* An unanswered write gets no answer, because the connection is being closed. */
void connection_forget(struct connection *c, struct pending *entry);

/* Answers requests at the head of the queue, as far as that is possible now. */
void connection_resume(struct connection *c);

/* Appends a watch event. zxid: of the change, or -1 for one replayed by setWatches. */
void connection_event(struct connection *c, int32_t type, struct slice path, int64_t zxid);

/* Appends a reply: begin, then the record, then end. Begin returns the position for the other two. */
size_t connection_reply_begin(struct connection *c, int32_t xid, int64_t zxid);
void connection_reply_fail(struct connection *c, size_t place, int32_t err); /* drops the record */
void connection_reply_end(struct connection *c, size_t place);

/* Appends a reply without a record. */
void connection_reply(struct connection *c, int32_t xid, int64_t zxid, int32_t err);

/* The output or `sending` has changed: updates its account. */
void connection_count_output(struct connection *c);

/* Whether `more` bytes of output are within the limits of the address and of all connections. */
bool connection_has_room(const struct connection *c, size_t more);

/* Output was appended that is not a reply: marks the connection dirty and checks memory. */
void connection_output_added(struct connection *c);

/* A packet was appended. */
void connection_count_sent(struct connection *c);

/* Gives a command to the pipeline, with an entry that waits for it. */
void connection_write(struct connection *c, const struct command *command, int32_t xid);

#endif
