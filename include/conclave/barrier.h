/*
 * Barriers.
 *
 * The plain barrier is a node: while it stands everybody waits, when it is removed all go on.
 *
 * The double barrier lets a number of processes begin together and end together: enter returns when
 * all are there, leave when all have left. What is promised: nobody enters before as many as were
 * asked for stand there at one moment; whoever gives up (time over, canceled) has either entered or
 * is not counted, never both; a member whose session is lost gets an error, never a success.
 *
 * All waiting is by watches; whatever wakes a waiter, it looks at the server's state again.
 * Works on Conclave and on Apache ZooKeeper.
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
    /* The end: no callback runs after this one. */
    void (*on_closed)(struct conclave_barrier *barrier, int why, void *ctx);
};

/* Begin with CONCLAVE_BARRIER_OPTIONS_INIT, then set what differs. */
struct conclave_barrier_options {
    size_t size;
    const char *path;               /* the barrier's node; its parents are made as containers */
    const struct conclave_acl *acl; /* of all nodes made; NULL: the client's */
    size_t acl_count;
};
#define CONCLAVE_BARRIER_OPTIONS_INIT                                                              \
    {                                                                                              \
        .size = sizeof(struct conclave_barrier_options)                                            \
    }

/* Nothing is sent yet. 0, CONCLAVE_EINVAL, CONCLAVE_ENOMEM, CONCLAVE_ECLOSED. */
CONCLAVE_API int conclave_barrier_open(struct conclave_recipes *recipes,
                                       const struct conclave_barrier_options *options,
                                       const struct conclave_barrier_callbacks *callbacks,
                                       void *ctx, struct conclave_barrier **ret) CONCLAVE_MUST_USE;

typedef void (*conclave_barrier_fn)(struct conclave_barrier *barrier, int error, void *ctx);

/* Puts the barrier up; 0 also when it stands already. CONCLAVE_ETIMEDOUT (unknown whether it was
 * done, where the link was lost), CONCLAVE_NO_AUTH, ... */
CONCLAVE_API int conclave_barrier_set(struct conclave_barrier *barrier,
                                      int64_t timeout_ms) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_barrier_set_async(struct conclave_barrier *barrier, int64_t timeout_ms,
                                            conclave_barrier_fn done, void *ctx) CONCLAVE_MUST_USE;

/* Takes it down; 0 also when there is none. As above; CONCLAVE_NOT_EMPTY: it has children. */
CONCLAVE_API int conclave_barrier_remove(struct conclave_barrier *barrier,
                                         int64_t timeout_ms) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_barrier_remove_async(struct conclave_barrier *barrier, int64_t timeout_ms,
                                               conclave_barrier_fn done,
                                               void *ctx) CONCLAVE_MUST_USE;

/* Waits until there is no barrier. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_ECLOSED, CONCLAVE_NO_AUTH, ...
 * A session that ends meanwhile is followed by the next. */
CONCLAVE_API int conclave_barrier_wait(struct conclave_barrier *barrier,
                                       int64_t timeout_ms) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_barrier_wait_async(struct conclave_barrier *barrier, int64_t timeout_ms,
                                             conclave_barrier_fn done, void *ctx) CONCLAVE_MUST_USE;

/* Ends what waits (CONCLAVE_ECLOSED), then on_closed; the barrier itself stays. Asynchronous, any
 * number of times, also from a callback. */
CONCLAVE_API void conclave_barrier_close(struct conclave_barrier *barrier);
CONCLAVE_API int conclave_barrier_close_wait(struct conclave_barrier *barrier,
                                             int64_t timeout_ms) CONCLAVE_MUST_USE;
/* Frees a closed handle. NULL is allowed. From on_closed: freed when that returns. */
CONCLAVE_API void conclave_barrier_destroy(struct conclave_barrier *barrier);

/* --- double ------------------------------------------------------------------------- */

/* One member of one round. */
struct conclave_double_barrier;

enum { CONCLAVE_DOUBLE_BARRIER_MAX = 5000 }; /* members */

struct conclave_double_barrier_callbacks {
    /* The membership is gone between enter and leave: CONCLAVE_SESSION_EXPIRED, or CONCLAVE_ELOST
     * when somebody deleted its node. At most once. The others' leave counts it as gone. */
    void (*on_lost)(struct conclave_double_barrier *barrier, int why, void *ctx);

    /* The end: no callback runs after this one. */
    void (*on_closed)(struct conclave_double_barrier *barrier, int why, void *ctx);
};

/* Begin with CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT, then set what differs. */
struct conclave_double_barrier_options {
    size_t size;
    const char *path;  /* made with its parents as containers */
    const char *round; /* name of this round below path; NULL: "round" */
    const char *id;    /* shown to others; NULL: host:pid */
    uint32_t count;    /* members; all have to say the same */
    /* Who comes when the barrier is open already (late, or left open by a round that crashed): false,
     * the default, refuses with CONCLAVE_ECONFLICT; true lets pass. */
    bool late_pass;
    const struct conclave_acl *acl; /* of all nodes made; NULL: the client's */
    size_t acl_count;
};
#define CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT                                                       \
    {                                                                                              \
        .size = sizeof(struct conclave_double_barrier_options)                                     \
    }

/* Nothing is sent yet. 0, CONCLAVE_EINVAL (path, round, count), CONCLAVE_ENOMEM, CONCLAVE_ECLOSED. */
CONCLAVE_API int
conclave_double_barrier_open(struct conclave_recipes *recipes,
                             const struct conclave_double_barrier_options *options,
                             const struct conclave_double_barrier_callbacks *callbacks, void *ctx,
                             struct conclave_double_barrier **ret) CONCLAVE_MUST_USE;

typedef void (*conclave_double_barrier_fn)(struct conclave_double_barrier *barrier, int error,
                                           void *ctx);

/* Comes, and waits until all are there. 0: entered. CONCLAVE_ETIMEDOUT, CONCLAVE_ECLOSED: not
 * entered, and not counted any more. CONCLAVE_ECONFLICT: others said another number, or it is open
 * already (late_pass). CONCLAVE_SESSION_EXPIRED, CONCLAVE_ELOST (node deleted): the membership was
 * lost. CONCLAVE_EBUSY: it is a member already, or enter or leave is under way. When the link is away
 * as the time is over, the answer waits for it, at most for the end of the session. */
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

/* Ends what waits, leaves without waiting if it has entered, then on_closed. As above. */
CONCLAVE_API void conclave_double_barrier_close(struct conclave_double_barrier *barrier);
CONCLAVE_API int conclave_double_barrier_close_wait(struct conclave_double_barrier *barrier,
                                                    int64_t timeout_ms) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_double_barrier_destroy(struct conclave_double_barrier *barrier);

#ifdef __cplusplus
}
#endif
#endif
