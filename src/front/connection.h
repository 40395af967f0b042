/*
 * One client's connection: bytes in, bytes out, no socket, no clock of its own. It cuts frames,
 * speaks the handshake, gives writes to the pipeline and answers the rest from the state, replies
 * in the order of the requests.
 *
 *   HANDSHAKE ──new session──> CREATING ──applied──> SERVING ──closeSession, unknown operation──┐
 *       │ └──known session, right password──────────────^  │                                    v
 *       └──refused with a reply───────────────────────────────────────────────────────────> CLOSING
 *   any ──bad frame, newer connection, session gone, slow reader, peer gone──> CLOSED
 *
 * CLOSING: output is sent, then the socket is closed. CLOSED: the socket is closed at once.
 * The holder of the socket looks at each connection in service.dirty at the end of a turn; nothing
 * is freed earlier.
 */
#ifndef FRONT_CONNECTION_H
#define FRONT_CONNECTION_H

#include "base/list.h"
#include "base/map.h"
#include "front/limits/client_address.h"
#include "front/login/client_ids.h"
#include "front/login/sasl_login.h"
#include "front/pipeline.h"
#include "state/state.h"
#include "watch/watch.h"

struct service;
struct password_check;

enum connection_stage {
    CONNECTION_HANDSHAKE, /* no session yet */
    CONNECTION_CREATING,  /* its new session is on its way through the log */
    CONNECTION_SERVING,
    CONNECTION_CLOSING, /* no more input; close when the output has been sent */
    CONNECTION_CLOSED,  /* close at once */
};

/* What four-letter words tell of a connection. Latencies in milliseconds, as ZooKeeper counts them. */
struct connection_stats {
    uint64_t received;       /* packets */
    uint64_t sent;           /* packets, events among them */
    uint64_t answered;       /* requests whose latency was measured */
    uint64_t latency_sum_ms; /* of them */
    int64_t latency_last_ms;
    int64_t latency_min_ms; /* of `answered`, 0 when there is none */
    int64_t latency_max_ms;
    int64_t response_at_ms; /* latest reply, monotonic */
    int64_t last_cxid;      /* of the latest request that has one, -1: none */
    int64_t last_zxid;      /* of the latest reply, -1: none */
    int32_t last_type;      /* enum wire_op of the latest reply, CONNECTION_NO_TYPE: none */
};

enum { CONNECTION_NO_TYPE = INT32_MIN };

/* Unsent and unread bytes up to which a connection is served whatever the others keep. */
enum { CONNECTION_BUFFERS_FREE = 65536 };

struct connection {
    struct service *service;
    enum connection_stage stage;
    bool input_ended; /* the last request of this connection was read */
    bool securing;    /* the TLS handshake is not done */
    bool secured;     /* it is */
    /* its reconfig is not answered, which may be after later entries of the log: nothing is taken behind it */
    bool reconfiguring;
    bool sent_away;     /* it ends as soon as what it asked for is answered */
    bool has_read_only; /* its ConnectRequest had the readOnly byte, so the reply has it */
    bool local;         /* its session is known to this server alone, and is not being upgraded */
    bool read_only;     /* there is no quorum: the client may read the local state, nothing else */
    bool asked;         /* and behind it the extension, so the reply has that */
    bool numbered;      /* its writes have numbers, and their results are remembered */
    int32_t repeated_above; /* writes with numbers above this one */
    int32_t repeated_to; /* and up to this one may come again: no rate of requests refuses them */
    int64_t session_id;  /* 0: none */
    int32_t timeout_ms;  /* negotiated */
    int64_t seen_zxid;   /* that its client has seen, at other servers */
    /* deadline of the handshake, the closing, or of the wait for memory, monotonic ms */
    int64_t handshake_at;
    const char *host;               /* peer's numeric address, borrowed */
    const char *peer;               /* host:port for log lines, borrowed */
    struct client_address *address; /* of host: what all its connections share */
    struct account account;         /* what the server keeps for it; part of the address's */
    struct map_node by_id;          /* in service.by_session while mapped */
    bool mapped;                    /* it is THE connection of its session, or asks for it */
    struct list dirty;              /* in service.dirty */
    struct list throttled;          /* in service.throttled */
    struct list handshaking;        /* in service.handshaking: something is due at handshake_at */
    struct list confirming;         /* in standing.confirming */
    struct list held;               /* in standing.held */
    int64_t touched_ms;             /* last sign of life of its session that was noted, monotonic */
    bool answered;                  /* replies are in `out`, not only events */
    struct watcher watcher;
    struct client_ids identity;
    struct sasl_login *login;            /* its SASL exchange, once begun */
    struct password_check *verification; /* of its password; nothing is taken behind it */
    struct buf verified_id;              /* the id that it gets if the password is right */
    int32_t verified_xid;                /* of the request */
    struct list pending;                 /* requests not answered, oldest first */
    size_t pending_count;
    struct buf waiting;     /* bodies of requests that wait for the writes before them */
    uint64_t waiting_base;  /* place of waiting's first byte among all that ever waited */
    size_t waiting_replies; /* what the answers to them may take */
    struct buf out;         /* replies and events to be sent */
    size_t sending;         /* bytes handed to the socket that have not left; set by its holder */
    struct connection_stats stats;
    int64_t established_ms; /* wall time */
    unsigned unmeasured;    /* requests answered in this call whose latency is not counted yet */
};

/* One request off the wire; body is borrowed. */
struct request {
    int32_t xid;
    int32_t type;
    int32_t err; /* other than 0: refused when it was read */
    struct slice body;
};

/* Begins the handshake. 0, or CONCLAVE_ENOMEM, after which connection_finish is still due. */
int connection_init(struct connection *c, struct service *s, const char *host,
                    const char *peer) CONCLAVE_MUST_USE;

/* The peer's verified certificate has this subject: one of its ids from now on. Errors as
 * client_ids_add. */
int connection_add_certificate(struct connection *c, struct slice subject) CONCLAVE_MUST_USE;

/* The socket is gone: leaves all lists, gives up its watches; writes on their way go on without
 * it. */
void connection_finish(struct connection *c);

/* What it counted begins anew. */
void connection_reset_stats(struct connection *c);

/* Takes whole frames from the front of bytes; returns how many bytes. Stops when it wants no more
 * input. */
size_t connection_input(struct connection *c, struct slice bytes);

/* Whether connection_input would take a frame now. A no to a limit of all connections is
 * remembered: the connection becomes dirty when there is room again. */
bool connection_ready(struct connection *c);

/* Closes at once, with a log line. `reason` is a fixed text. */
void connection_drop(struct connection *c, const char *reason);

/* Closes at once without a line: the ordinary end. */
void connection_end(struct connection *c);

/* Makes the client go to another server: reads no more requests, answers those it has read, closes when the answers
 * were sent. */
void connection_send_away(struct connection *c);

/* Closes when the output has been sent, or at handshake_at. */
void connection_close_after_output(struct connection *c);

/* A write of this connection is about to be applied: answers the reads in front of it. Those that want to be
 * confirmed are, by this: what was acknowledged before they came stands before the write in the log. */
void connection_precede(struct connection *c, const struct pending *entry);

/* A write of this connection was applied: answers it and all that waited behind it. */
void connection_complete(struct connection *c, struct pending *entry,
                         const struct effects *effects);

/* The password that it waited for was checked: answers the auth request. err: 0 or
 * CONCLAVE_AUTH_FAILED. */
void connection_verified(struct connection *c, int32_t err);

/* A write on its way gets no answer: the connection is being cut off. */
void connection_forget(struct connection *c, struct pending *entry);

/* Answers what waits at the head of its queue, as far as it may be answered by now. */
void connection_resume(struct connection *c);

/* Appends a watch event. zxid: of the change, or -1 for one replayed by setWatches. */
void connection_event(struct connection *c, int32_t type, struct slice path, int64_t zxid);

/* Appends a reply: begin, then the record, then end. Begin returns the place for the other two. */
size_t connection_reply_begin(struct connection *c, int32_t xid, int64_t zxid);
void connection_reply_fail(struct connection *c, size_t place, int32_t err); /* drops the record */
void connection_reply_end(struct connection *c, size_t place);

/* Its output, or `sending`, has changed: its account follows. */
void connection_count_output(struct connection *c);

/* Whether `more` bytes of output are within the limits of the address and of all connections. */
bool connection_has_room(const struct connection *c, size_t more);

/* Appends output that is no reply: marks the connection dirty and checks memory. */
void connection_output_added(struct connection *c);

/* A packet was appended. */
void connection_count_sent(struct connection *c);

/* Gives a command to the pipeline with an entry that waits for it. */
void connection_write(struct connection *c, const struct command *command, int32_t xid);

#endif
