/*
 * The server without sockets and disks: the state, the watches, the sessions, the pipeline and the
 * connections on them. What it needs of the world comes in by calls: input of connections, applied
 * log entries, the time. The same calls give the same output, save for session ids and passwords.
 */
#ifndef FRONT_SERVICE_H
#define FRONT_SERVICE_H

#include "base/clock.h"
#include "base/rates.h"
#include "base/refusals.h"
#include "front/connection.h"
#include "front/data_limit.h"
#include "front/fence_requests.h"
#include "front/leadership.h"
#include "front/limits/client_limits.h"
#include "front/limits/server_metrics.h"
#include "front/local_sessions.h"
#include "front/login/audit_log.h"
#include "front/login/password_check.h"
#include "front/login/sasl_login.h"
#include "front/ttl_collector.h"
#include "session/session.h"

struct service_options {
    struct client_limits limits;
    /* as in state/members/members.h: its number is the top byte of session ids */
    int64_t server_id;
    bool skip_acl;              /* every connection is the superuser */
    struct digest_rules digest; /* strings borrowed */
    /* of the users who may authenticate by digest; NULL: anybody may; borrowed */
    struct password_checker *verifier;
    const char *x509_super; /* subject of the superuser's certificate, or NULL; borrowed */
    /* who has an id of none of them (divided by commas) may do nothing but authenticate; NULL: everybody may; borrowed */
    const char *auth_schemes;
    uint32_t command_options; /* enum command_options */
    bool read_only_mode;      /* without a quorum, clients that ask for it may read */
    bool local_sessions;      /* new sessions are local, where there are other servers */
    /* a local session may get ephemeral nodes: it becomes one of all servers */
    bool local_upgrading;
    struct sasl_service *login; /* NULL: no SASL; borrowed */
    struct audit_log *audit;    /* NULL: no lines; borrowed */
    bool close_acls;            /* a leader closes the ACLs of a new tree: COMMAND_CLOSE_ACLS */
    bool local_only; /* members prove nothing to each other: none may be on another machine */
    struct ttl_collector_options collector;
    const struct clock_source *clock; /* borrowed */
    struct pipeline_sink sink;
};

/*
 * Four-letter words: commands in the first bytes of a connection instead of a session request. A room above answers
 * them: appends the answer to out and returns how many of the bytes were the command, 0 when there is none in them, or
 * -1 when it cannot be told yet. The connection is closed when the answer has been read.
 */
struct service_words {
    int (*answer)(void *ctx, struct slice bytes, struct buf *out);
    void *ctx;
};

struct service_stats {
    uint64_t packets_received;
    uint64_t packets_sent;
    uint64_t applied;     /* commands since the start, replayed ones included */
    uint64_t auth_failed; /* auth requests refused */
};

struct service {
    struct client_limits limits;
    int64_t server_id;
    bool skip_acl;
    struct digest_rules digest;
    struct password_checker *verifier;
    struct rates auth_failures;   /* of addresses */
    struct refusals auth_refused; /* limits the log lines about them */
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
    int64_t close_acls_at; /* when the leader asks again, monotonic ms */
    const struct clock_source *clock;
    struct ttl_collector collector;
    struct hash_key key; /* of the tables whose keys clients choose */
    struct state *state;
    struct watch_table *watches;
    struct session_tracker *sessions; /* of all servers */
    struct local_sessions locals;     /* of this one alone */
    struct pipeline pipeline;
    struct pending *deferred; /* the reconfig of ours that is under way, or NULL */
    struct leadership standing;
    struct fence_requests fencing;
    struct effects effects;
    struct map by_session;  /* connections by session id */
    struct account account; /* memory kept for all clients; the addresses' accounts are below it */
    struct client_addresses addresses;
    /* connections with a deadline: without session, closing, or waiting for memory; oldest first */
    struct list handshaking;
    struct list throttled; /* connections that wait until the server is less busy, or keeps less */
    size_t throttled_load; /* the load at which the last of them began to wait */
    struct list dirty;     /* connections that their socket must look at */
    struct service_stats stats;
    struct server_metrics *metrics; /* own */
    struct service_words words;     /* answer is NULL: none are known */
    int64_t now_ns; /* when the input, entry or tick being worked on came, monotonic */
    uint64_t next_session_id;
    uint64_t generation;        /* grows whenever the state is replaced as a whole */
    int64_t replaced_by;        /* id of the newest replacement of our own, 0: none */
    int64_t beat_at;            /* when service_tick is due at the latest, monotonic ms */
    bool serving;               /* after service_begin: sessions are watched over */
    bool throttling;            /* too many requests outstanding */
    size_t kept_peak;           /* bytes accounted for, at most, since memory was given back */
    enum data_level data_level; /* how near the state is to its limit */
    int64_t log_second;         /* second in which log_lines were written */
    unsigned log_lines;
    uint64_t log_dropped;
};

/* 0 or CONCLAVE_ENOMEM (service_finish is due in either case). */
int service_init(struct service *s, const struct service_options *options) CONCLAVE_MUST_USE;

/* All connections must be finished. */
void service_finish(struct service *s);

/* Replay is over: all sessions get a full timeout from now. 0 or CONCLAVE_ENOMEM. */
int service_begin(struct service *s) CONCLAVE_MUST_USE;

/* A leader with close_acls proposes COMMAND_CLOSE_ACLS as long as ACLs of a new tree are open: as soon as it
 * leads, so before the writes of its clients. */
void service_close_acls(struct service *s, int64_t now_ms);

/* A batch of the log, opened and not read further. 0, or CONCLAVE_ECORRUPT or CONCLAVE_ENOMEM: the server must stop. */
int service_apply(struct service *s, struct batch_reader *batch) CONCLAVE_MUST_USE;

/* A batch that is not applied: it counts as admitted, and no client gets an answer to its writes. Errors as
 * service_apply. */
int service_skip(struct service *s, struct batch_reader *batch) CONCLAVE_MUST_USE;

/* The ensemble has these members now, by the log. Errors as service_apply. */
int service_configure(struct service *s, const struct state_member *members,
                      size_t count) CONCLAVE_MUST_USE;

/* Replaces the state by that of a snapshot: at the start, or when the leader sent one to a server that
 * was too far behind; then see state_replacement_adopt. Errors as state_restore. */
int service_restore(struct service *s, struct slice snapshot) CONCLAVE_MUST_USE;

/* Gives up all writes on their way: nobody will be told what became of them, and what is written from
 * now on does not depend on them. Their connections must be cut off. */
void service_forget(struct service *s);

/* An empty tracker for this service's sessions, or NULL. */
struct session_tracker *service_make_tracker(const struct service *s);

/* End of a turn: hands writes over, and makes throttled connections dirty when there is room
 * again. */
void service_turn(struct service *s);

/* The connection waits for service_turn to find room. */
void service_throttle(struct service *s, struct connection *c);

/* Whether service_turn would do something that it could not do before: answers that left made room, or what
 * they let in is to be handed over. */
bool service_has_work(const struct service *s);

/* The time, which is in now_ns as well, monotonic. Whoever dates a sign of life asks here: a standstill
 * of our own is given back to all sessions first, for who is heard from afterwards needs nothing back. */
int64_t service_time_ms(struct service *s);

/* What the clock brings: expired sessions, connections without handshake. Due at service_deadline
 * (monotonic ms), harmless earlier. */
void service_tick(struct service *s);
int64_t service_deadline(const struct service *s);

/* Age of the oldest write that is not answered, 0 when there is none. */
int64_t service_oldest_write_ms(const struct service *s);

/* What was counted begins anew, save for the connections' own. */
void service_reset_stats(struct service *s);

/* The end of a minute of refusals, for the log: a refusals_fn. */
void service_tell_refused(void *ctx, const char *host, unsigned long long untold);

/* For connections. */
/* Whether an id of a scheme that is required is there, or none is required. */
bool service_authenticated(const struct service *s, const struct client_ids *identity);
bool service_admits(struct service *s); /* whether another request may be taken in */
int64_t service_next_session_id(struct service *s);
/* c is now THE connection of the session, or asks for it with its password: an older one is closed. 0 or
 * CONCLAVE_ENOMEM. */
int service_claim(struct service *s, struct connection *c, int64_t session_id) CONCLAVE_MUST_USE;
/* The same, and the session lives from now on. */
int service_attach(struct service *s, struct connection *c, int64_t session_id) CONCLAVE_MUST_USE;
/* A local session ends: closed by its client, or expired. Its connection is cut off while it serves. */
void service_end_local(struct service *s, int64_t id);
void service_detach(struct service *s, struct connection *c); /* undoes it */
bool service_may_log(
    struct service *s); /* false when clients caused too many lines in this second */

#endif
