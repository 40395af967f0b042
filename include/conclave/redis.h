/*
 * Follows the Redis master that `conclave redis-failover` publishes, and tells the program when it
 * must stop writing. The library talks to the ensemble only: the program talks to Redis with its
 * own client.
 *
 * A record names one master under an epoch; the epoch grows with each fail-over. A program that
 * writes does three things:
 *   - it connects to the master of a view and has the server's own answer to ROLE or INFO checked
 *     (conclave_redis_check): a server that came back as another master is refused;
 *   - it asks conclave_redis_may_write with that view's epoch before each write, and ends the
 *     connection when that says no: a few loads, no lock, no I/O;
 *   - it reconnects when on_change or one of the waits reports another epoch.
 *
 * Writes must stop when the library's information may be old. A sync to the ensemble every third
 * of stale_ms proves that it is not; may_write refuses from stale_ms after the *sending* of the
 * last answered sync, even if link, process or machine were stopped meanwhile. A write that was
 * already sent can still arrive: the manager's fencing covers this.
 */
#ifndef CONCLAVE_REDIS_H
#define CONCLAVE_REDIS_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_redis;

/* State of the record. Writes are allowed in OK, DEGRADED and PAUSED. */
enum conclave_redis_state {
    CONCLAVE_REDIS_NONE,           /* there is no record */
    CONCLAVE_REDIS_UNREADABLE,     /* the node's data are not a record, or name an unknown state */
    CONCLAVE_REDIS_OK,             /* the master serves */
    CONCLAVE_REDIS_FAILING_OVER,   /* it is being replaced: hold writes */
    CONCLAVE_REDIS_NO_CANDIDATE,   /* it is down, and no server can take its place */
    CONCLAVE_REDIS_DEGRADED,       /* it serves; too few managers to replace it */
    CONCLAVE_REDIS_NEEDS_OPERATOR, /* only an operator can tell which one is the master */
    CONCLAVE_REDIS_PAUSED,         /* it serves; replacing it was forbidden by an operator */
};

/* "NONE", "OK", "FAILING_OVER", ... Static. */
CONCLAVE_API const char *conclave_redis_state_name(enum conclave_redis_state state);

/* The information at one moment. Everything lives until the callback returns, or the view is
 * freed. */
struct conclave_redis_view {
    enum conclave_redis_state state;
    int64_t epoch;      /* of the master; in the gem's layout counted by this handle; 0: none */
    const char *master; /* "host:port"; NULL: none */
    const char *host;   /* of the master, without the brackets of an IPv6 address; "" without one */
    int port;
    const char *run_id;          /* of the master's process; "" when it is not known */
    const char *reason;          /* in words, for operators; may be "" */
    const char *const *replicas; /* "host:port" each */
    size_t replica_count;
    const char *const *unavailable; /* down, or not of use yet */
    size_t unavailable_count;
    int64_t mzxid;   /* of the record */
    uint64_t change; /* grows with each view of a handle; the first is 1 */
    bool stale;      /* not proved for stale_ms: all of the above may be old */
    bool writable;   /* conclave_redis_may_write said yes to `epoch` when this view was made */
};

/* Callbacks of one handle run one at a time. Any may be NULL. */
struct conclave_redis_callbacks {
    size_t size;
    /* The latest view; several quick changes may be reported as one. The first view comes when the
     * record was read, or was found missing. */
    void (*on_change)(struct conclave_redis *redis, const struct conclave_redis_view *view,
                      void *ctx);

    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_redis *redis, int why, void *ctx);
};
#define CONCLAVE_REDIS_CALLBACKS_INIT CONCLAVE_INIT(conclave_redis_callbacks)

/* Place of the record below the path of the options. */
enum conclave_redis_layout {
    CONCLAVE_REDIS_LAYOUT_NATIVE, /* <path>/current */
    /* <path>/nodes, as the Ruby gem redis_failover writes it (and the daemon with --gem-layout): master,
     * slaves, unavailable. It has neither epoch nor run id: a server that was restarted is not told from
     * the one before. */
    CONCLAVE_REDIS_LAYOUT_GEM,
};

/* Begin with CONCLAVE_REDIS_OPTIONS_INIT, then set what differs. */
struct conclave_redis_options {
    size_t size;
    const char *cluster; /* without "/"; NULL: "default" */
    const char *path;    /* NULL: /redis_failover/<cluster> */
    enum conclave_redis_layout layout;
    int64_t stale_ms; /* at least 30 */
};
#define CONCLAVE_REDIS_OPTIONS_INIT                                                                \
    CONCLAVE_INIT_WITH(conclave_redis_options, CONCLAVE_SET(stale_ms, 5000))

/* Begins to follow. 0, CONCLAVE_EINVAL, CONCLAVE_ENOMEM, CONCLAVE_ECLOSED, CONCLAVE_EFORK. Trouble with
 * the ensemble comes later: as a view that is stale, or, when it will not get better
 * (CONCLAVE_NO_AUTH, ...), by on_closed. */
CONCLAVE_API int conclave_redis_open(struct conclave_recipes *recipes,
                                     const struct conclave_redis_options *options,
                                     const struct conclave_redis_callbacks *callbacks, void *ctx,
                                     struct conclave_redis **ret) CONCLAVE_MUST_USE;

/* Whether the program may send a write to the master of this epoch now. Any thread, wait-free. 0;
 * CONCLAVE_EFENCED: another epoch, or none; CONCLAVE_EBUSY: the same epoch, but its master is
 * being replaced, or is down; CONCLAVE_EDISCONNECTED: the information may be old. */
CONCLAVE_API int conclave_redis_may_write(const struct conclave_redis *redis,
                                          int64_t epoch) CONCLAVE_MUST_USE;

/* Whether a server is the master of this epoch by its own answer: `answer` is its whole answer to
 * INFO, or to INFO's sections server and replication, or ROLE's first element ("master"), or
 * ROLE's answer as it comes over the wire. 0; what conclave_redis_may_write says;
 * CONCLAVE_ENOTOWNER: it is a replica, or (from INFO) a master of another run id: restarted, or
 * another server under the address; CONCLAVE_EPROTO: this is no such answer. Does not wait; any
 * thread. Call it after connecting; a server that becomes a replica answers writes with READONLY. */
CONCLAVE_API int conclave_redis_check(struct conclave_redis *redis, int64_t epoch,
                                      const void *answer, size_t len) CONCLAVE_MUST_USE;

/* Blocks until there is a view whose `change` is greater than `after` (0: any). 0: *ret is it, to be
 * freed with conclave_redis_view_free. CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK, CONCLAVE_ENOMEM, or why
 * the handle ended. */
CONCLAVE_API int conclave_redis_wait_change(struct conclave_redis *redis, uint64_t after,
                                            int64_t timeout_ms,
                                            struct conclave_redis_view **ret) CONCLAVE_MUST_USE;

/* Blocks until there is a master that may be written to. Otherwise as above. */
CONCLAVE_API int conclave_redis_wait_master(struct conclave_redis *redis, int64_t timeout_ms,
                                            struct conclave_redis_view **ret) CONCLAVE_MUST_USE;

/* NULL is allowed. */
CONCLAVE_API void conclave_redis_view_free(struct conclave_redis_view *view);

/* --- a fail-over on request --------------------------------------------------------------- */

/* Begin with CONCLAVE_REDIS_FAILOVER_OPTIONS_INIT, then set what differs. */
struct conclave_redis_failover_options {
    size_t size;
    const char *target; /* "host:port" of the next master; NULL: the best replica */
    bool force; /* even if the master cannot be fenced, or the replica is behind: may lose writes */
    int64_t timeout_ms; /* for the answer; no manager begins later */
};
#define CONCLAVE_REDIS_FAILOVER_OPTIONS_INIT                                                       \
    CONCLAVE_INIT_WITH(conclave_redis_failover_options, CONCLAVE_SET(timeout_ms, 10000))

/* The managers' answer, in one block. */
struct conclave_redis_failover_result {
    bool ok;            /* the target, or another replica, is the master now */
    const char *text;   /* what was done, or why nothing was */
    const char *master; /* "host:port" now; "" none */
    int64_t epoch;
    int64_t lost_bytes; /* of the old master's data that the new one does not have; -1 unknown */
};

/* Asks the managers for another master, and waits for their answer. 0: *ret is the answer, also when they
 * refuse. CONCLAVE_ETIMEDOUT: none came; the request is withdrawn, unless there was no link
 * for that: then it expires after timeout_ms. A fail-over that has begun may still be completed.
 * CONCLAVE_CONNECTION_LOSS: it is unknown whether they were asked; it is not asked twice. CONCLAVE_NO_NODE: no manager has been there yet. CONCLAVE_EINVAL: an option,
 * or the gem's layout. CONCLAVE_EDEADLK, CONCLAVE_ENOMEM, CONCLAVE_NO_AUTH, ... Blocking. */
CONCLAVE_API int
conclave_redis_failover(struct conclave_redis *redis,
                        const struct conclave_redis_failover_options *options,
                        struct conclave_redis_failover_result **ret) CONCLAVE_MUST_USE;

/* NULL is allowed. */
CONCLAVE_API void
conclave_redis_failover_result_free(struct conclave_redis_failover_result *result);

/* --- replicas to read from ----------------------------------------------------------------- */

/* A replica, as the manager with the newest facts about it saw it. */
struct conclave_redis_replica {
    const char *address; /* "host:port" */
    const char *host;    /* without the brackets of an IPv6 address */
    int port;
    bool usable;          /* up, and with a link to the master and its history */
    int64_t lag_bytes;    /* missing bytes of what the master had written; -1 unknown */
    int64_t link_down_ms; /* its link to the master is down for so long; -1: it is up, or unknown */
    int64_t latency_us;   /* of its answer to the manager; -1 unknown */
    int64_t age_ms;       /* of these facts, when the manager reported them; -1: there are none */
};

/* The replicas of one master, in one block: usable ones first, then the smallest lag, then latency. */
struct conclave_redis_replicas {
    const char *master; /* "host:port"; NULL: none */
    int64_t epoch;
    const struct conclave_redis_replica *const *list;
    size_t count;
};

/* Reads what the managers last reported, a request for each of them: call it before connecting, not
 * before each read. Blocking. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EINVAL (the gem's layout), CONCLAVE_EDEADLK,
 * CONCLAVE_ENOMEM, or why the handle ended. */
CONCLAVE_API int
conclave_redis_list_replicas(struct conclave_redis *redis, int64_t timeout_ms,
                             struct conclave_redis_replicas **ret) CONCLAVE_MUST_USE;

/* A replica that is usable and at most max_lag_bytes behind (-1: any lag, also unknown). turn 0 is the
 * best; successive numbers give all of them by turns, so programs that begin at different numbers spread
 * over them. NULL: there is none. Lives as long as the list. */
CONCLAVE_API const struct conclave_redis_replica *
conclave_redis_pick(const struct conclave_redis_replicas *replicas, int64_t max_lag_bytes,
                    uint64_t turn);

/* NULL is allowed. */
CONCLAVE_API void conclave_redis_replicas_free(struct conclave_redis_replicas *replicas);

/* Ends the handle; from now on the program must not write. Then on_closed. Asynchronous, any
 * number of times, also from a callback. */
CONCLAVE_API void conclave_redis_close(struct conclave_redis *redis);

/* Closes and waits for on_closed to have returned. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK. */
CONCLAVE_API int conclave_redis_close_wait(struct conclave_redis *redis, int64_t timeout_ms);

/* Frees a closed handle. NULL is allowed. In on_closed: freed when that returns. */
CONCLAVE_API void conclave_redis_destroy(struct conclave_redis *redis);

#ifdef __cplusplus
}
#endif
#endif
