/*
 * The server without sockets and disks: the state, watches, sessions, pipeline and connections. Everything from outside
 * comes by calls: input of connections, applied log entries, the time. The same calls give the same output, except for
 * session ids and passwords.
 */
#ifndef FRONT_SERVICE_H
#define FRONT_SERVICE_H

#include "base/clock.h"
#include "base/rates.h"
#include "front/connection.h"
#include "front/data_limit.h"
#include "front/fence_requests.h"
#include "front/leadership.h"
#include "front/limits/client_limits.h"
#include "front/limits/request_times.h"
#include "front/limits/server_metrics.h"
#include "front/limits/ttl_collector.h"
#include "front/local_sessions.h"
#include "front/login/audit_log.h"
#include "front/login/password_check.h"
#include "front/login/sasl_login.h"
#include "front/session_notes.h"
#include "front/state_replacement.h"
#include "front/traces/request_traces.h"
#include "session/session.h"

struct service_options {
    struct client_limits limits;
    /* as in state/members/members.h: its number is the top byte of session ids */
    int64_t server_id;
    bool skip_acl;              /* every connection is the superuser */
    struct digest_rules digest; /* strings borrowed */
    /* users who may authenticate by digest; NULL: no list; borrowed */
    struct password_checker *verifier;
    const char *x509_super; /* subject of the superuser's certificate, or NULL; borrowed */
    /* a client without an id of one of these schemes (separated by commas) may only authenticate; NULL: no such rule;
     * borrowed */
    const char *auth_schemes;
    uint32_t command_options; /* enum command_options */
    bool read_only_mode;      /* without a quorum, clients that accept it may read */
    bool local_sessions;      /* new sessions are local, if there are other servers */
    /* a local session may create ephemeral nodes: it then becomes global */
    bool local_upgrading;
    struct sasl_service *login; /* NULL: no SASL; borrowed */
    struct audit_log *audit;    /* NULL: no audit log; borrowed */
    bool close_acls;            /* a leader closes the ACLs of a new tree: COMMAND_CLOSE_ACLS */
    bool local_only;            /* members do not authenticate: none may be on another machine */
    struct ttl_collector_options collector;
    const struct trace_options *traces; /* NULL: no traces; borrowed */
    bool test;                          /* it takes orders of tests: front/faults.h */
    const struct clock_source *clock;   /* borrowed */
    struct pipeline_sink sink;
};

/*
 * Four-letter words: commands in the first bytes of a connection, instead of a session request. A room above answers
 * them: it appends the answer to out and returns the length of the command, 0 if there is none, or -1 if more bytes are
 * needed. The connection closes when the client has read the answer.
 */
struct service_words {
    int (*answer)(void *ctx, struct slice bytes, struct buf *out);
    void *ctx;
};

/* Is told of commands, also during replay, when their replies, events and records are done. NULL: nobody looks on. */
struct service_onlooker {
    /* One that deleted ephemeral nodes. end: how it ended a session; time_ms: its wall time. */
    void (*gone)(void *ctx, const struct command *command, const struct effects *effects,
                 enum session_end end, int64_t time_ms);
    void *ctx;
    /* One that created nodes or changed their data. */
    void (*wrote)(void *wrote_ctx, const struct command *command, const struct effects *effects);
    void *wrote_ctx;
};

struct service_stats {
    uint64_t packets_received;
    uint64_t packets_sent;
    uint64_t applied;     /* commands since the start, including replayed ones */
    uint64_t auth_failed; /* auth requests refused */
};

struct service {
    struct client_limits limits;
    int64_t server_id;
    bool skip_acl;
    struct digest_rules digest;
    struct password_checker *verifier;
    struct rates auth_failures; /* per address */
    const char *x509_super;
    const char *auth_schemes;
    uint32_t command_options;
    bool read_only_mode;
    bool local_sessions;
    bool local_upgrading;
    struct sasl_service *login;
    struct audit_log *audit;
    bool close_acls;
    bool local_only;
    int64_t close_acls_at; /* when the leader proposes again, monotonic ms */
    const struct clock_source *clock;
    struct ttl_collector collector;
    struct hash_key key; /* for tables whose keys clients choose */
    struct state *state;
    struct watch_table *watches;
    struct session_tracker *sessions; /* global sessions */
    struct local_sessions locals;     /* local sessions */
    struct pipeline pipeline;
    struct pending *deferred; /* our reconfig that is in progress, or NULL */
    struct leadership standing;
    struct fence_requests fencing;
    struct effects effects;
    struct map by_session;  /* connections by session id */
    struct account account; /* memory kept for all clients; the addresses' accounts are below it */
    struct client_addresses addresses;
    /* connections with a deadline: without a session, closing, or waiting for memory; oldest first */
    struct list handshaking;
    struct list throttled; /* connections that wait until the load falls */
    size_t throttled_load; /* the load when the last of them began to wait */
    struct list dirty;     /* connections whose sockets need work */
    struct service_stats stats;
    struct server_metrics *metrics; /* own */
    struct service_words words;     /* answer is NULL: no words */
    struct clock_watch clock_watch; /* for steps of the wall clock */
    struct request_times times;     /* where the time of requests goes */
    struct request_traces traces;   /* of sampled and slow requests */
    struct session_notes notes;     /* for why sessions ended */
    struct service_onlooker onlooker;
    struct faults *faults; /* orders of tests; NULL: it is no server for tests */
    int64_t now_ns;        /* when the current input, entry or tick came, monotonic */
    uint64_t next_session_id;
    uint64_t generation; /* grows when the whole state is replaced */
    int64_t replaced_by; /* id of our newest replacement, 0: none */
    struct state_replacement replacement;
    bool mirrored;         /* the state is a mirror: see front/mirror.h */
    size_t mirror_backlog; /* bytes that this leader proposed for it and that are not applied */
    int64_t beat_at;       /* latest time for service_tick, monotonic ms */
    bool serving;          /* after service_begin: sessions can expire */
    bool reads_first;      /* no session expires before the waiting input was read */
    bool throttling;       /* too many requests in progress */
    size_t kept_peak;      /* most accounted bytes since memory was given back */
    enum data_level data_level; /* how near the data are to their limit */
};

/* 0 or CONCLAVE_ENOMEM; call service_finish in either case. */
int service_init(struct service *s, const struct service_options *options) CONCLAVE_MUST_USE;

/* Other limits for a service in use. They count from now on: nothing that clients have already is taken away, and sessions
 * keep their timeouts. tick_ms and ended_sessions_max must stay. CONCLAVE_ENOMEM: nothing changed. */
int service_set_limits(struct service *s, const struct client_limits *limits) CONCLAVE_MUST_USE;

/* All connections must be finished. */
void service_finish(struct service *s);

/* Replay is over: all sessions get a full timeout from now. 0 or CONCLAVE_ENOMEM. */
int service_begin(struct service *s) CONCLAVE_MUST_USE;

/* A leader with close_acls proposes COMMAND_CLOSE_ACLS while the ACLs of a new tree are open. It does so as soon as it
 * leads, so before the writes of its clients. */
void service_close_acls(struct service *s, int64_t now_ms);

/* Applies a batch of the log whose header was read. 0, or CONCLAVE_ECORRUPT or CONCLAVE_ENOMEM: the server must
 * stop. */
int service_apply(struct service *s, struct batch_reader *batch) CONCLAVE_MUST_USE;

/* Skips a batch: it counts as admitted, and its writes get no answers. Errors as service_apply. */
int service_skip(struct service *s, struct batch_reader *batch) CONCLAVE_MUST_USE;

/* The log set these members. Errors as service_apply. */
int service_configure(struct service *s, const struct state_member *members,
                      size_t count) CONCLAVE_MUST_USE;

/* Replaces the state by a snapshot: at the start, or when the leader sent one because this server was too far behind;
 * see state_replacement_adopt. Errors as state_restore. */
int service_restore(struct service *s, struct slice snapshot) CONCLAVE_MUST_USE;

/* Gives up all unanswered writes: their outcome stays unknown, and later writes do not depend on them. Their
 * connections must be closed. */
void service_forget(struct service *s);

/* An empty tracker for this service's sessions; NULL: out of memory. */
struct session_tracker *service_make_tracker(const struct service *s);

/* The end of a turn: submits writes, and makes throttled connections dirty when there is room again. */
void service_turn(struct service *s);

/* The connection waits for service_turn to find room. */
void service_throttle(struct service *s, struct connection *c);

/* Whether service_turn has new work: sent answers made room, or requests read since then must be submitted. */
bool service_has_work(const struct service *s);

/* The monotonic time, which is also in now_ns. Call it before you date a sign of life: it first gives a pause of this
 * process back to all sessions. */
int64_t service_time_ms(struct service *s);

/* Interval of the regular work at least. */
int64_t service_beat_ms(const struct service *s);

/* Ends a session for an operator: `by` names who, in the log and in the records of all servers; ids are for the audit
 * log. The session ends when the log has the command. 0, CONCLAVE_NO_NODE: there is no such session here; CONCLAVE_ENOMEM,
 * or the log's error. */
int service_kill_session(struct service *s, int64_t id, struct wire_vector ids,
                         const char *by) CONCLAVE_MUST_USE;

/* Puts a write of nobody's session into the log, as if a client with these ids had sent it; the owner gets the outcome later.
 * command: only session_id (for the audit log), type, ids and body. 0; CONCLAVE_CONNECTION_LOSS: no contact to a leader;
 * the error by which a client's request would be refused; CONCLAVE_ENOMEM, or the log's error. */
int service_write(struct service *s, const struct command *command,
                  struct pending_owner *owner) CONCLAVE_MUST_USE;

/* The owner no longer waits; the write goes on. */
void service_disown(struct pending_owner *owner);

/* Regular work: expired sessions, connections without handshake. Due at service_deadline (monotonic ms), harmless
 * earlier. If it comes late, this process did not run, and signs of life may wait in the sockets: then no session ends
 * in this call. Read the input, and call again. */
void service_tick(struct service *s);
int64_t service_deadline(const struct service *s);

/* Ends the sessions that are due. */
void service_expire_sessions(struct service *s, int64_t now_ms);

/* Age of the oldest unanswered write; 0: none. */
int64_t service_oldest_write_ms(const struct service *s);

/* Age of the write that is on its way to this server's disk; 0: none. */
int64_t service_disk_wait_ms(const struct service *s);

/* Resets the statistics, except those of connections. */
void service_reset_stats(struct service *s);

/* The connection of a session's client to this server, or NULL. */
struct connection *service_connection(struct service *s, int64_t session_id);

/* For connections. Whether the client has an id of a required scheme, or none is required. */
bool service_authenticated(const struct service *s, const struct client_ids *identity);
bool service_admits(struct service *s); /* whether another request may be read */
int64_t service_next_session_id(struct service *s);
/* Makes c the current connection of the session, or its claimant; closes an older one. 0 or CONCLAVE_ENOMEM. */
int service_claim(struct service *s, struct connection *c, int64_t session_id) CONCLAVE_MUST_USE;
/* The same, and the session is alive from now on. */
int service_attach(struct service *s, struct connection *c, int64_t session_id) CONCLAVE_MUST_USE;
/* Ends a local session. by: as for session_notes_ended. Closes its connection if it still serves. */
void service_end_local(struct service *s, int64_t id, enum session_end end, struct slice by);
void service_detach(struct service *s, struct connection *c); /* undoes service_claim */

#endif
