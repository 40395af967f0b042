/*
 * Active/standby with fencing: of all members of a service one is active, and before another
 * becomes active it makes sure that the one before it is dead, unless that stopped in order.
 *
 * Two nodes, in the layout of Hadoop's elector:
 *   <dir>/ActiveStandbyElectorLock  ephemeral: who may become active
 *   <dir>/ActiveBreadCrumb          lasting: who was made active last, and whether it stopped in order
 * Whoever gets the lock reads the breadcrumb. If it names another incarnation that did not stop in
 * order, that one is fenced; when it cannot be, nobody becomes active until it can be, or an operator
 * says that it is dead (conclave_elector_override). Then the breadcrumb is written anew, in a
 * transaction that fails when anybody else was faster, and only then activate is called.
 *
 * What is promised: is_active turns false, and deactivate has been started, before anybody else's
 * activate is called, as long as clocks run at about the same speed; the lease is proved by a quorum.
 * A process that was stopped can still act late: that is what fence and the token are for.
 *
 * All standbys are woken when the lock is free. For more than ten of them use herd_free.
 */
#ifndef CONCLAVE_ELECTOR_H
#define CONCLAVE_ELECTOR_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_elector;

enum conclave_elector_state {
    CONCLAVE_ELECTOR_INIT, /* not connected for the first time */
    CONCLAVE_ELECTOR_NEUTRAL, /* not in the race: not healthy, ceded, not connected, or after a failure */
    CONCLAVE_ELECTOR_STANDBY, /* in the race, another has the lock */
    CONCLAVE_ELECTOR_FENCING, /* has the lock, makes sure that the one before is dead */
    CONCLAVE_ELECTOR_ACTIVE, /* active: from before activate is called until deactivate has returned */
};

/* What a check of the service's health found. Only HEALTHY takes part in the race. */
enum conclave_health {
    CONCLAVE_HEALTH_INITIALIZING, /* not known yet */
    CONCLAVE_HEALTH_HEALTHY,
    CONCLAVE_HEALTH_UNHEALTHY,      /* it says so itself */
    CONCLAVE_HEALTH_NOT_RESPONDING, /* no answer in time */
    CONCLAVE_HEALTH_MONITOR_FAILED, /* the check itself cannot run */
};

/* Names ("STANDBY", "HEALTHY"). Static. */
CONCLAVE_API const char *conclave_elector_state_name(enum conclave_elector_state state);
CONCLAVE_API const char *conclave_health_name(enum conclave_health health);

/* What the breadcrumb says of a member. Strings and data live until the callback returns, or the
 * struct is freed. */
struct conclave_breadcrumb {
    const char *id;          /* "" when the breadcrumb was not written by this library */
    const char *incarnation; /* "" then, too */
    struct conclave_token
        token;        /* of its time as active; mzxid of the breadcrumb when it names none */
    bool clean;       /* it stopped in order */
    const void *data; /* as given in its options; all of the breadcrumb when id is "" */
    size_t data_len;
};

/* Callbacks of one handle run one at a time, save fence, which has a thread of its own. activate and
 * deactivate strictly alternate. */
struct conclave_elector_callbacks {
    /* Become active; 0 when it is. Anything else: deactivate is called, the lock is given up, and the
     * race goes on after a pause. */
    int (*activate)(struct conclave_elector *elector, struct conclave_token token, void *ctx);

    /* It is active no more: stop within stop_within_ms (0: somebody else may be active already). 0 when
     * it is sure that it has stopped: an orderly end leaves nobody to be fenced. Anything else: the
     * successor fences. why: CONCLAVE_ELOST (lease or lock lost), CONCLAVE_SESSION_EXPIRED,
     * CONCLAVE_ECANCELED (ceded, or not healthy, or activate failed), CONCLAVE_ECLOSED. */
    int (*deactivate)(struct conclave_elector *elector, int why, int64_t stop_within_ms, void *ctx);

    /* Make sure that old is dead, or will do nothing any more; 0 only when it is sure. In a thread of
     * its own, one at a time; may take long, should have a timeout: the lock is kept meanwhile, and
     * whether it still is ours is found out afterwards. NULL: nothing can be fenced, so only an orderly
     * end or an override lets another become active. */
    int (*fence)(struct conclave_elector *elector, const struct conclave_breadcrumb *old,
                 struct conclave_token mine, void *ctx);

    /* Every change of state. reason: a few words ("fencing failed"), may be "". */
    void (*on_state)(struct conclave_elector *elector, enum conclave_elector_state state,
                     const char *reason, void *ctx);

    /* The end: no callback runs after this one. */
    void (*on_closed)(struct conclave_elector *elector, int why, void *ctx);
};

/* What the two nodes hold. */
enum conclave_elector_layout {
    CONCLAVE_ELECTOR_LAYOUT_NATIVE, /* some lines of text, then the data */
    /* The data as it is, a protobuf message (Hadoop's ActiveNodeInfo), with one more field, which
     * Hadoop's tools skip. The breadcrumb is deleted by an orderly end. */
    CONCLAVE_ELECTOR_LAYOUT_HADOOP,
};

/* Begin with CONCLAVE_ELECTOR_OPTIONS_INIT, then set what differs. */
struct conclave_elector_options {
    size_t size;
    const char *dir;         /* made with its parents */
    const char *id;          /* of this member, no newline; NULL: host:pid */
    const char *incarnation; /* differs from start to start of the service; NULL: a random one */
    const void *data;        /* for others: address, ways to fence it, ...; at most 64 KiB */
    size_t data_len;
    enum conclave_elector_layout layout;
    /* wait in a line below <dir>/line instead of all for one lock; the same for all members */
    bool herd_free;
    /* at the start (default HEALTHY); later by conclave_elector_set_health */
    enum conclave_health health;
    struct conclave_lease_options lease; /* stop_on_suspend counts too */
    /* After a failed fence or activate the member stays out of the race: for the minimum at first, twice as long each time
     * up to the maximum, with jitter. */
    int64_t backoff_min_ms;
    int64_t backoff_max_ms;
    const struct conclave_acl *acl; /* of all nodes made; NULL: the client's */
    size_t acl_count;
};
#define CONCLAVE_ELECTOR_OPTIONS_INIT                                                              \
    {                                                                                              \
        .size = sizeof(struct conclave_elector_options), .health = CONCLAVE_HEALTH_HEALTHY,        \
        .backoff_min_ms = 1000, .backoff_max_ms = 30000                                            \
    }

/* Begins. Options and callbacks are copied. 0, CONCLAVE_EINVAL (dir, id, or a grace that does not
 * fit), CONCLAVE_ENOMEM, CONCLAVE_ECLOSED. Trouble with the ensemble comes later, by callback. */
CONCLAVE_API int conclave_elector_start(struct conclave_recipes *recipes,
                                        const struct conclave_elector_options *options,
                                        const struct conclave_elector_callbacks *callbacks,
                                        void *ctx, struct conclave_elector **ret) CONCLAVE_MUST_USE;

/* What is known of the service's health now. Not HEALTHY: it leaves the race, for backoff_min_ms at least
 * when it had the lock; the active one is deactivated, and the successor fences it, as an unhealthy process
 * may say anything. Any thread. */
CONCLAVE_API void conclave_elector_set_health(struct conclave_elector *elector,
                                              enum conclave_health health);

/* Whether it is active now: lease checked against the clock at this moment. Any thread, wait-free,
 * async-signal-safe. */
CONCLAVE_API bool conclave_elector_is_active(const struct conclave_elector *elector);
CONCLAVE_API int64_t conclave_elector_lease_left_ms(const struct conclave_elector *elector);
CONCLAVE_API int64_t conclave_elector_lease_until_ns(const struct conclave_elector *elector);
CONCLAVE_API struct conclave_token conclave_elector_token(const struct conclave_elector *elector);

CONCLAVE_API enum conclave_elector_state
conclave_elector_state(const struct conclave_elector *elector);

/* Steps down in order and stays out of the race for stay_out_ms, so that another becomes active.
 * Asynchronous; also for one that is not active. 0, CONCLAVE_ECLOSED, CONCLAVE_EINVAL (negative, or
 * more than a year). */
CONCLAVE_API int conclave_elector_cede(struct conclave_elector *elector,
                                       int64_t stay_out_ms) CONCLAVE_MUST_USE;

/* A transaction that is carried out only while this member is the active one: check of the
 * breadcrumb, then the parts. As conclave_election_fenced_multi. */
CONCLAVE_API int conclave_elector_fenced_multi(struct conclave_elector *elector,
                                               const struct conclave_op *parts, size_t count,
                                               struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

/* Leaves: deactivates if it is active (in order, if deactivate says so), then on_closed. Waits for a
 * fence that runs. Asynchronous, any number of times, also from a callback. */
CONCLAVE_API void conclave_elector_close(struct conclave_elector *elector);
CONCLAVE_API int conclave_elector_close_wait(struct conclave_elector *elector, int64_t timeout_ms);

/* Frees a closed handle. NULL is allowed. From on_closed: freed when that returns. */
CONCLAVE_API void conclave_elector_destroy(struct conclave_elector *elector);

/* --- for operators, blocking --------------------------------------------------------- */

/* What stands in dir. Free with conclave_elector_view_free. */
struct conclave_elector_view {
    bool has_lock; /* somebody has the lock */
    int64_t lock_session;
    struct conclave_breadcrumb
        lock;        /* its id, incarnation and data; its token is its node's czxid */
    bool has_active; /* there is a breadcrumb */
    struct conclave_breadcrumb active;
};
CONCLAVE_API int conclave_elector_view(struct conclave_recipes *recipes, const char *dir,
                                       int64_t timeout_ms,
                                       struct conclave_elector_view **ret) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_elector_view_free(struct conclave_elector_view *view);

/* (Whoever deletes the lock and the breadcrumb by hand while one is active takes the promise away: the
 * versions begin anew.) */

/* "I have made sure that the one with this token is dead": lets the next one become active without
 * fencing it. token has to be that of the breadcrumb that stands, which must not be clean: else
 * CONCLAVE_ECONFLICT; CONCLAVE_NO_NODE without a breadcrumb. acl: as of the members' options; they have
 * to be able to read and delete the node. NULL: the client's. */
CONCLAVE_API int conclave_elector_override(struct conclave_recipes *recipes, const char *dir,
                                           struct conclave_token token,
                                           const struct conclave_acl *acl, size_t acl_count,
                                           int64_t timeout_ms) CONCLAVE_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
