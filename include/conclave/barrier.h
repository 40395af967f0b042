/*
 * Barriers.
 *
 * The plain barrier is a node: while it exists, callers wait; when it is removed, all continue.
 *
 * The double barrier lets a number of processes start and end together: enter returns when all are
 * there, leave when all have left. Guarantees: no process enters before the required number is
 * present at one moment; a process that gives up (timeout, canceled) has either entered or does
 * not count, never both; a member whose session is lost gets an error, never a success.
 *
 * The plain barrier is compatible with Curator's DistributedBarrier and kazoo's Barrier on the same path, the double
 * barrier with Curator's DistributedDoubleBarrier and kazoo's DoubleBarrier by its layout.
 *
 * Waiting uses watches; a waiter that wakes always reads the server's state again. Works on
 * Conclave and on Apache ZooKeeper.
 */
#ifndef CONCLAVE_BARRIER_H
#define CONCLAVE_BARRIER_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- plain ----------------------------------------------------------------------- */

struct conclave_barrier;

struct conclave_barrier_callbacks {
    size_t size;
    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_barrier *barrier, int why, void *ctx);
};
#define CONCLAVE_BARRIER_CALLBACKS_INIT CONCLAVE_INIT(conclave_barrier_callbacks)

/* Begin with CONCLAVE_BARRIER_OPTIONS_INIT, then set what differs. */
struct conclave_barrier_options {
    size_t size;
    const char *path;               /* the barrier's node; its parents are made as containers */
    const struct conclave_acl *acl; /* of all created nodes; NULL: the client's */
    size_t acl_count;
};
#define CONCLAVE_BARRIER_OPTIONS_INIT CONCLAVE_INIT(conclave_barrier_options)

/* Sends nothing yet. 0, CONCLAVE_EINVAL, CONCLAVE_ENOMEM, CONCLAVE_ECLOSED. */
CONCLAVE_API int conclave_barrier_open(struct conclave_recipes *recipes,
                                       const struct conclave_barrier_options *options,
                                       const struct conclave_barrier_callbacks *callbacks,
                                       void *ctx, struct conclave_barrier **ret) CONCLAVE_MUST_USE;

typedef void (*conclave_barrier_fn)(struct conclave_barrier *barrier, int error, void *ctx);

/* Creates the barrier; 0 also if it exists already. CONCLAVE_ETIMEDOUT (outcome unknown if the
 * link was lost), CONCLAVE_NO_AUTH, ... */
CONCLAVE_API int conclave_barrier_set(struct conclave_barrier *barrier,
                                      int64_t timeout_ms) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_barrier_set_async(struct conclave_barrier *barrier, int64_t timeout_ms,
                                            conclave_barrier_fn done, void *ctx) CONCLAVE_MUST_USE;

/* Removes the barrier; 0 also if the barrier does not exist. As above; CONCLAVE_NOT_EMPTY: it has
 * children. */
CONCLAVE_API int conclave_barrier_remove(struct conclave_barrier *barrier,
                                         int64_t timeout_ms) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_barrier_remove_async(struct conclave_barrier *barrier, int64_t timeout_ms,
                                               conclave_barrier_fn done,
                                               void *ctx) CONCLAVE_MUST_USE;

/* Waits until there is no barrier. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_ECLOSED, CONCLAVE_NO_AUTH, ...
 * If the session ends meanwhile, the wait continues in the next one. */
CONCLAVE_API int conclave_barrier_wait(struct conclave_barrier *barrier,
                                       int64_t timeout_ms) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_barrier_wait_async(struct conclave_barrier *barrier, int64_t timeout_ms,
                                             conclave_barrier_fn done, void *ctx) CONCLAVE_MUST_USE;

/* Ends waiting calls (CONCLAVE_ECLOSED), then on_closed; the barrier itself stays. Asynchronous,
 * any number of times, also from a callback. */
CONCLAVE_API void conclave_barrier_close(struct conclave_barrier *barrier);
CONCLAVE_API int conclave_barrier_close_wait(struct conclave_barrier *barrier,
                                             int64_t timeout_ms) CONCLAVE_MUST_USE;
/* Frees a closed handle. NULL is allowed. In on_closed: freed when that returns. */
CONCLAVE_API void conclave_barrier_destroy(struct conclave_barrier *barrier);

/* --- double ------------------------------------------------------------------------- */

/* One member of one round. */
struct conclave_double_barrier;

enum { CONCLAVE_DOUBLE_BARRIER_MAX = 5000 }; /* members */

/* The nodes of a double barrier. All members of a path must have the same layout. In those of the other libraries nobody
 * compares the numbers of members, and their members count and open in two steps. So these promises are weaker there:
 * - A member of ours that gives up at the moment of the opening may have been counted (in the layout native: never).
 * - Members of the others can leave early: Curator's when one other member is left, kazoo's when the member with the lowest
 *   name goes before the others. Members of ours wait for all.
 * - KAZOO: whoever leaves first removes the sign that the barrier is open. A member without a connection at that moment can
 *   miss it: give its enter a timeout. */
enum conclave_barrier_layout {
    CONCLAVE_BARRIER_LAYOUT_NATIVE,
    CONCLAVE_BARRIER_LAYOUT_CURATOR, /* members and `ready` are children of the path, which stays */
    CONCLAVE_BARRIER_LAYOUT_KAZOO,   /* the same; `ready` is removed by the first to leave */
};

struct conclave_double_barrier_callbacks {
    size_t size;
    /* The membership is gone between enter and leave: CONCLAVE_SESSION_EXPIRED, or CONCLAVE_ELOST
     * when somebody deleted its node. At most once. The others' leave counts it as gone. */
    void (*on_lost)(struct conclave_double_barrier *barrier, int why, void *ctx);

    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_double_barrier *barrier, int why, void *ctx);
};
#define CONCLAVE_DOUBLE_BARRIER_CALLBACKS_INIT CONCLAVE_INIT(conclave_double_barrier_callbacks)

/* Begin with CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT, then set what differs. */
struct conclave_double_barrier_options {
    size_t size;
    const char *path; /* made with its parents as containers */
    const char
        *round; /* name of this round below path; NULL: "round", in other layouts the path itself */
    const char *id; /* shown to others; NULL: host:pid */
    uint32_t count; /* members; all have to say the same */
    /* If the barrier is open already (the caller is late, or all members of an open round died or
     * lost their sessions before they left: then it stays open until somebody deletes the round):
     * false, the default, fails with CONCLAVE_ECONFLICT; true lets the caller pass. */
    bool late_pass;
    const struct conclave_acl *acl; /* of all created nodes; NULL: the client's */
    size_t acl_count;
    enum conclave_barrier_layout layout;
};
#define CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT CONCLAVE_INIT(conclave_double_barrier_options)

/* Sends nothing yet. 0, CONCLAVE_EINVAL (path, round, count), CONCLAVE_ENOMEM, CONCLAVE_ECLOSED. */
CONCLAVE_API int
conclave_double_barrier_open(struct conclave_recipes *recipes,
                             const struct conclave_double_barrier_options *options,
                             const struct conclave_double_barrier_callbacks *callbacks, void *ctx,
                             struct conclave_double_barrier **ret) CONCLAVE_MUST_USE;

typedef void (*conclave_double_barrier_fn)(struct conclave_double_barrier *barrier, int error,
                                           void *ctx);

/* Joins, and waits until all are there. 0: entered. CONCLAVE_ETIMEDOUT, CONCLAVE_ECLOSED: not
 * entered, and no longer counted. CONCLAVE_ECONFLICT: others have a different number, or it is
 * open already (late_pass). CONCLAVE_SESSION_EXPIRED, CONCLAVE_ELOST (node deleted): the
 * membership was lost. CONCLAVE_EBUSY: it is a member already, or enter or leave is in progress.
 * If there is no link when the time is over, the call waits for it, at most until the end of the
 * session. */
CONCLAVE_API int conclave_double_barrier_enter(struct conclave_double_barrier *barrier,
                                               int64_t timeout_ms) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_double_barrier_enter_async(struct conclave_double_barrier *barrier,
                                                     int64_t timeout_ms,
                                                     conclave_double_barrier_fn done,
                                                     void *ctx) CONCLAVE_MUST_USE;

/* Waits until all have left or are gone. 0; CONCLAVE_ENOTOWNER (not entered);
 * CONCLAVE_SESSION_EXPIRED, CONCLAVE_ELOST: the membership was lost before it could leave;
 * CONCLAVE_ETIMEDOUT: it has left, others have not. */
CONCLAVE_API int conclave_double_barrier_leave(struct conclave_double_barrier *barrier,
                                               int64_t timeout_ms) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_double_barrier_leave_async(struct conclave_double_barrier *barrier,
                                                     int64_t timeout_ms,
                                                     conclave_double_barrier_fn done,
                                                     void *ctx) CONCLAVE_MUST_USE;

/* Ends waiting calls, leaves without waiting if it has entered, then on_closed. As above. */
CONCLAVE_API void conclave_double_barrier_close(struct conclave_double_barrier *barrier);
CONCLAVE_API int conclave_double_barrier_close_wait(struct conclave_double_barrier *barrier,
                                                    int64_t timeout_ms) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_double_barrier_destroy(struct conclave_double_barrier *barrier);

#ifdef __cplusplus
}
#endif
#endif
