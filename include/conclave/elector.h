/*
 * Active/standby with fencing: one member of a service is active. Before another member becomes
 * active, it makes sure that the previous one is dead, unless that one stopped cleanly.
 *
 * Two nodes, in the layout of Hadoop's elector:
 *   <dir>/ActiveStandbyElectorLock  ephemeral: the member that may become active
 *   <dir>/ActiveBreadCrumb          persistent: the last active member, and whether it stopped
 *                                   cleanly
 * The member that gets the lock reads the breadcrumb. If it names another incarnation that
 * did not stop cleanly, the member fences that one; until that succeeds, or an operator confirms
 * that it is dead (conclave_elector_override), no member becomes active. Then the member writes the
 * breadcrumb, in a transaction that fails if another member was faster, and only then activate is
 * called.
 *
 * Guarantee: is_active turns false, and deactivate has started, before activate of another member
 * is called, as long as clocks run at about the same speed; a quorum proves the lease. A process
 * that was stopped can still act late: fence and the token prevent harm from this.
 *
 * A free lock wakes all standby members. For more than ten of them use herd_free.
 */
#ifndef CONCLAVE_ELECTOR_H
#define CONCLAVE_ELECTOR_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_elector;

enum conclave_elector_state {
    CONCLAVE_ELECTOR_INIT,    /* not connected for the first time */
    CONCLAVE_ELECTOR_NEUTRAL, /* not competing: not healthy, ceded, not connected, after a failure */
    CONCLAVE_ELECTOR_STANDBY,  /* competing, another has the lock */
    CONCLAVE_ELECTOR_FENCING,  /* has the lock, fences the previous one */
    CONCLAVE_ELECTOR_ACTIVE,   /* active: from before activate until after deactivate */
    CONCLAVE_ELECTOR_OBSERVER, /* takes part, but never competes: see conclave_elector_observe */
};

/* Result of a health check of the service. Only HEALTHY members compete. */
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

/* The data of a member in the breadcrumb. Strings and data live until the callback returns, or the
 * struct is freed. */
struct conclave_breadcrumb {
    const char *id;          /* "" when the breadcrumb was not written by this library */
    const char *incarnation; /* "" then, too */
    struct conclave_token
        token;        /* of its time as active; mzxid of the breadcrumb when it names none */
    bool clean;       /* it stopped cleanly */
    const void *data; /* as given in its options; all of the breadcrumb when id is "" */
    size_t data_len;
};

/* Callbacks of one handle run one at a time, except fence, which has its own thread. activate and
 * deactivate strictly alternate. */
struct conclave_elector_callbacks {
    size_t size;
    /* Become active; return 0 when the service is active. After any other value, deactivate is
     * called, the lock is released, and the competition continues after a pause. */
    int (*activate)(struct conclave_elector *elector, struct conclave_token token, void *ctx);

    /* This member is no longer active: stop within stop_within_ms (0: another member may be active
     * already). Return 0 only if the service has certainly stopped: after a clean stop nobody
     * fences. After any other value the successor fences this member. why: CONCLAVE_ELOST (lease
     * or lock lost), CONCLAVE_SESSION_EXPIRED, CONCLAVE_ECANCELED (ceded, or not healthy, or
     * activate failed), CONCLAVE_ECLOSED. */
    int (*deactivate)(struct conclave_elector *elector, int why, int64_t stop_within_ms, void *ctx);

    /* Make sure that old is dead, or can do nothing any more; return 0 only if this is certain.
     * Runs in a separate thread, one call at a time. It may take long, but should have a timeout:
     * this member keeps the lock meanwhile, and checks afterwards whether it still has it. NULL:
     * nothing can be fenced, so another member becomes active only after a clean stop or an
     * override. */
    int (*fence)(struct conclave_elector *elector, const struct conclave_breadcrumb *old,
                 struct conclave_token mine, void *ctx);

    /* Every change of state. reason: a few words ("fencing failed"), may be "". */
    void (*on_state)(struct conclave_elector *elector, enum conclave_elector_state state,
                     const char *reason, void *ctx);

    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_elector *elector, int why, void *ctx);
};
#define CONCLAVE_ELECTOR_CALLBACKS_INIT CONCLAVE_INIT(conclave_elector_callbacks)

/* Format of the two nodes. */
enum conclave_elector_layout {
    CONCLAVE_ELECTOR_LAYOUT_NATIVE, /* some lines of text, then the data */
    /* The data as it is, a protobuf message (Hadoop's ActiveNodeInfo), with one more field, which
     * Hadoop's tools skip. The breadcrumb is deleted by an orderly end. */
    CONCLAVE_ELECTOR_LAYOUT_HADOOP,
};

/* Begin with CONCLAVE_ELECTOR_OPTIONS_INIT, then set what differs. */
struct conclave_elector_options {
    size_t size;
    const char *dir;         /* created with its parents */
    const char *id;          /* of this member, no newline, at most 1024 bytes; NULL: host:pid */
    const char *incarnation; /* differs from start to start of the service; NULL: a random one */
    const void *data;        /* for others: address, ways to fence it, ...; at most 64 KiB */
    size_t data_len;
    enum conclave_elector_layout layout;
    /* wait in a queue below <dir>/line instead of all for one lock; the same for all members */
    bool herd_free;
    /* at the start (default HEALTHY); later by conclave_elector_set_health */
    enum conclave_health health;
    struct conclave_lease_options lease; /* stop_on_suspend counts too */
    /* After a failed fence or activate the member does not compete: for the minimum at first,
     * twice as long each time up to the maximum, with jitter. */
    int64_t backoff_min_ms;
    int64_t backoff_max_ms;
    const struct conclave_acl *acl; /* of all created nodes; NULL: the client's */
    size_t acl_count;
    /* Shown to others in an ephemeral node <dir>/members/<id>, with role, state, health, token and
     * data; id is then the name of a node (no '/', at most 255 bytes). Hand-overs to a named member need it. If the node cannot
     * be made, the member takes part all the same. */
    bool listed;
    bool observer;      /* starts as an observer */
    bool reports_ready; /* listed as ready from conclave_elector_ready on, not from activate on */
};
#define CONCLAVE_ELECTOR_OPTIONS_INIT                                                              \
    CONCLAVE_INIT_WITH(conclave_elector_options,                                                   \
                       CONCLAVE_SET(health, CONCLAVE_HEALTH_HEALTHY)                               \
                           CONCLAVE_SET(backoff_min_ms, 1000) CONCLAVE_SET(backoff_max_ms, 30000))

/* Begins. Options and callbacks are copied. 0, CONCLAVE_EINVAL (dir, id, or a grace that does not
 * fit), CONCLAVE_ENOMEM, CONCLAVE_ECLOSED. Problems with the ensemble are reported later, by callback. */
CONCLAVE_API int conclave_elector_open(struct conclave_recipes *recipes,
                                       const struct conclave_elector_options *options,
                                       const struct conclave_elector_callbacks *callbacks,
                                       void *ctx, struct conclave_elector **ret) CONCLAVE_MUST_USE;

/* Reports the service's health. A member that is not HEALTHY stops competing, for at least
 * backoff_min_ms if it had the lock; an active one is deactivated, and the successor fences it,
 * because an unhealthy process cannot be trusted. Any thread. */
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

/* Steps down cleanly and does not compete for stay_out_ms, so that another member becomes active.
 * Asynchronous; also for a member that is not active. 0, CONCLAVE_ECLOSED, CONCLAVE_EINVAL
 * (negative, or more than a year). */
CONCLAVE_API int conclave_elector_cede(struct conclave_elector *elector,
                                       int64_t stay_out_ms) CONCLAVE_MUST_USE;

/* With true: becomes an observer, which never competes; an active member steps down cleanly first.
 * With false: competes again. Asynchronous. 0, CONCLAVE_ECLOSED. */
CONCLAVE_API int conclave_elector_observe(struct conclave_elector *elector,
                                          bool observer) CONCLAVE_MUST_USE;

/* With reports_ready: the service is ready in its present time as active, if it has one. */
CONCLAVE_API void conclave_elector_ready(struct conclave_elector *elector);

/* A transaction that is carried out only while this member is active: a check of the breadcrumb,
 * then the parts. As conclave_election_fenced_multi. */
CONCLAVE_API int conclave_elector_fenced_multi(struct conclave_elector *elector,
                                               const struct conclave_op *parts, size_t count,
                                               struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

/* Leaves: deactivates if it is active (cleanly, if deactivate returns 0), then on_closed. Waits
 * for a running fence. Asynchronous; may be called repeatedly, also in a callback. */
CONCLAVE_API void conclave_elector_close(struct conclave_elector *elector);
/* 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK (in a callback, fence included; nothing was done). */
CONCLAVE_API int conclave_elector_close_wait(struct conclave_elector *elector, int64_t timeout_ms);

/* Frees a closed handle. NULL is allowed. In on_closed: freed when that returns. */
CONCLAVE_API void conclave_elector_destroy(struct conclave_elector *elector);

#ifdef __cplusplus
}
#endif

#include <conclave/elector_admin.h>

#endif
