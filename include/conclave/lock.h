/*
 * Locks that one process, or many readers, of an ensemble's clients hold at a time: mutex,
 * read/write lock, several locks at once.
 *
 * Contenders get the lock in the order of arrival; a contender that leaves wakes only the one
 * behind it. Guarantee: is_held turns false, and on_lost has started, before another contender can
 * be granted the lock, whatever stalls, as long as clocks run at about the same speed. A quorum of
 * the ensemble proves the lease behind this; the link alone does not. A process that is stopped
 * between is_held and its action can still act late: pass the token with every write and let the
 * storage refuse smaller tokens, or write with conclave_lock_fenced_multi.
 *
 * A handle is one contender. Two handles on one path exclude each other, in one session too.
 * Several acquires of one handle by different owners wait for each other in the handle.
 *
 * Needs a session timeout of at least three ticks of the server. Works on Conclave and on Apache
 * ZooKeeper.
 */
#ifndef CONCLAVE_LOCK_H
#define CONCLAVE_LOCK_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_lock;

enum conclave_lock_kind {
    CONCLAVE_LOCK_EXCLUSIVE, /* a mutex; on one path with readers and writers it is a writer */
    CONCLAVE_LOCK_READ,      /* held by any number of readers; waits for all writers before it */
    CONCLAVE_LOCK_WRITE,     /* waits for everybody before it */
};

/* Callbacks of one handle run one at a time; any may be NULL. */
struct conclave_lock_callbacks {
    size_t size;
    /* The lock was lost without a release (is_held is false already). Stop within stop_within_ms:
     * no other contender is granted the lock before that. 0: another may have it already, because
     * the node was deleted or the session was killed. Release the lock all the same, which returns
     * CONCLAVE_ELOST; until then, if the session lives, its node exists and keeps others out. why:
     * CONCLAVE_ELOST (lease ran out or node gone), CONCLAVE_SESSION_EXPIRED, CONCLAVE_AUTH_FAILED,
     * CONCLAVE_ECLOSED (the client was closed). */
    void (*on_lost)(struct conclave_lock *lock, int why, int64_t stop_within_ms, void *ctx);

    /* A request to release the lock (conclave_lock_request_revoke, or Curator's Revoker): called
     * once per request; two simultaneous requests may be reported as one. The request may be
     * ignored. */
    void (*on_revoke_request)(struct conclave_lock *lock, void *ctx);

    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_lock *lock, int why, void *ctx);

    /* An operator wants a contender that waits to hold the lock (conclave_lock_hand_over): release it.
     * May be ignored. NULL: on_revoke_request is called. */
    void (*on_hand_over_request)(struct conclave_lock *lock, void *ctx);
};
#define CONCLAVE_LOCK_CALLBACKS_INIT CONCLAVE_INIT(conclave_lock_callbacks)

/* Begin with CONCLAVE_LOCK_OPTIONS_INIT, then set what differs. */
struct conclave_lock_options {
    size_t size;
    /* the lock's node; made with its parents as containers, but as persistent nodes with
     * CONCLAVE_NAMING_KAZOO and CONCLAVE_NAMING_PLAIN: those clients do not make it again */
    const char *path;
    const char *id; /* identity shown to others (the contender's data); NULL: host:pid */
    enum conclave_lock_kind kind;
    /* The owner may acquire the lock again, also while others wait, and must release it as often.
     * A writer that wants to read acquires its write lock again. */
    bool recursive;
    /* Which contenders of other libraries share the path:
     *   CONCLAVE_NAMING_CURATOR_LOCK  InterProcessMutex, InterProcessReadWriteLock;
     *                                 zk.Lock of go-zookeeper
     *   CONCLAVE_NAMING_KAZOO         Lock, ReadLock, WriteLock
     *   CONCLAVE_NAMING_PLAIN         GlobalLock of gozk-recipes. A random line in the node's data
     *                                 finds a node whose reply was lost.
     * CONCLAVE_NAMING_CURATOR_LATCH and CONCLAVE_NAMING_PLAIN have no readers and writers. */
    enum conclave_naming naming;
    struct conclave_lease_options lease;
    const struct conclave_acl *acl; /* of all created nodes; NULL: the client's */
    size_t acl_count;
};
#define CONCLAVE_LOCK_OPTIONS_INIT CONCLAVE_INIT(conclave_lock_options)

/* Creates a handle; it sends nothing yet. Options and callbacks (may be NULL) are copied. 0,
 * CONCLAVE_EINVAL (path, id, kind with naming, or a grace that does not fit), CONCLAVE_ENOMEM,
 * CONCLAVE_ECLOSED. */
CONCLAVE_API int conclave_lock_open(struct conclave_recipes *recipes,
                                    const struct conclave_lock_options *options,
                                    const struct conclave_lock_callbacks *callbacks, void *ctx,
                                    struct conclave_lock **ret) CONCLAVE_MUST_USE;

/*
 * Acquires, waiting at most timeout_ms (losses of the link included); CONCLAVE_FOREVER: without
 * end; 0: only if it is free now (conclave_lock_try). The owner is the calling thread. 0 and the
 * token (ret_token may be NULL), CONCLAVE_ETIMEDOUT, CONCLAVE_EBUSY (timeout 0: held by another),
 * CONCLAVE_EDISCONNECTED (timeout 0: no link), CONCLAVE_EDEADLK (this owner holds it already and
 * it is not recursive; or in a callback), CONCLAVE_ECANCELED, CONCLAVE_SESSION_EXPIRED (while it
 * waited: its place is lost), CONCLAVE_ELOST (its node was deleted by somebody, or its lease was
 * over before the call could return), CONCLAVE_ECLOSED, or why the server refused
 * (CONCLAVE_NO_AUTH, ...). A call that fails leaves nothing behind: a node that it created is
 * deleted, in the background if need be.
 */
CONCLAVE_API int conclave_lock_acquire(struct conclave_lock *lock, int64_t timeout_ms,
                                       struct conclave_token *ret_token) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_lock_try(struct conclave_lock *lock,
                                   struct conclave_token *ret_token) CONCLAVE_MUST_USE;

/* The same without waiting: fn is called once, as a callback of the handle, with 0 and the token
 * or with an error as above. owner: any number that the program chose, to be given to
 * release_async; 0: the calling thread. 0, CONCLAVE_EINVAL (no fn), CONCLAVE_ENOMEM,
 * CONCLAVE_ECLOSED, CONCLAVE_EFORK:
 * then fn is not called. */
typedef void (*conclave_lock_fn)(struct conclave_lock *lock, int error, struct conclave_token token,
                                 void *ctx);
CONCLAVE_API int conclave_lock_acquire_async(struct conclave_lock *lock, uint64_t owner,
                                             int64_t timeout_ms, conclave_lock_fn fn,
                                             void *ctx) CONCLAVE_MUST_USE;

/* Ends every acquire of this handle that was not granted yet with CONCLAVE_ECANCELED. 0,
 * CONCLAVE_EFORK. */
CONCLAVE_API int conclave_lock_cancel(struct conclave_lock *lock);

/* Whether it is held now: lease checked against the clock at this moment. Any thread, wait-free,
 * async-signal-safe; so are the next three. */
CONCLAVE_API bool conclave_lock_is_held(const struct conclave_lock *lock);

/* Milliseconds left of the lease, 0 when it is not held. */
CONCLAVE_API int64_t conclave_lock_lease_left_ms(const struct conclave_lock *lock);

/* The token of this grant, 0 when it is not held. A downgraded lock keeps its token. */
CONCLAVE_API struct conclave_token conclave_lock_token(const struct conclave_lock *lock);

/* End of the lease in nanoseconds of CLOCK_BOOTTIME, 0 when it is not held: for handing to other
 * processes. */
CONCLAVE_API int64_t conclave_lock_lease_until_ns(const struct conclave_lock *lock);

/* Name of its node, "" when it has none; copied to buf. */
CONCLAVE_API void conclave_lock_node(const struct conclave_lock *lock, char *buf, size_t len);

/*
 * Releases; is_held is false at once. Waits at most timeout_ms for the answer to the deletion; the
 * deletion continues until it is answered or the session has ended. 0, CONCLAVE_ETIMEDOUT
 * (released, but not answered yet), CONCLAVE_ENOTOWNER (not this thread's), CONCLAVE_ELOST (it was
 * lost before: the work under it may be unsafe; it is released all the same), CONCLAVE_EDEADLK in
 * a callback. A recursive lock is released by the last release; the others give 0 (or
 * CONCLAVE_ELOST) at once.
 */
CONCLAVE_API int conclave_lock_release(struct conclave_lock *lock,
                                       int64_t timeout_ms) CONCLAVE_MUST_USE;

/* The same without waiting; fn (may be NULL) is called when the deletion was answered or the
 * session has ended. 0, CONCLAVE_ENOTOWNER, CONCLAVE_ELOST as above (fn is then not called),
 * CONCLAVE_ENOMEM, CONCLAVE_EFORK. */
typedef void (*conclave_lock_done_fn)(struct conclave_lock *lock, int error, void *ctx);
CONCLAVE_API int conclave_lock_release_async(struct conclave_lock *lock, uint64_t owner,
                                             conclave_lock_done_fn fn, void *ctx) CONCLAVE_MUST_USE;

/* Turns a held write lock into a read lock in one step, with no writer in between; readers that
 * wait behind it may enter. 0, CONCLAVE_ENOTOWNER, CONCLAVE_EINVAL (no write lock),
 * CONCLAVE_ETIMEDOUT (outcome unknown: it is held in the old or the new kind), CONCLAVE_EBUSY
 * (another change is in progress), CONCLAVE_ELOST, CONCLAVE_ENOMEM, CONCLAVE_EDEADLK in a
 * callback. */
CONCLAVE_API int conclave_lock_downgrade(struct conclave_lock *lock,
                                         int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Turns a held read lock into a write lock with a new token, if there is no other reader and no
 * other writer; otherwise CONCLAVE_EBUSY, and the read lock stays. Never waits for others (two
 * readers would wait for each other). timeout_ms: for the answers. Errors as above. */
CONCLAVE_API int conclave_lock_try_upgrade(struct conclave_lock *lock,
                                           int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Asks the present holders to release the lock (on_revoke_request; also Curator's
 * RevocationListener): writes "__REVOKE__" to their nodes' data. Any handle on the path may ask.
 * 0, CONCLAVE_EEMPTY (no other holder), CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK in a callback,
 * CONCLAVE_EINVAL with CONCLAVE_NAMING_PLAIN, or the answer's error. */
CONCLAVE_API int conclave_lock_request_revoke(struct conclave_lock *lock,
                                              int64_t timeout_ms) CONCLAVE_MUST_USE;

/* A transaction that is carried out only while the lock is held: a check of its node, then the
 * parts. 0, CONCLAVE_EFENCED (not held, or node gone; nothing was done), CONCLAVE_SESSION_EXPIRED,
 * or the answer's error; CONCLAVE_CONNECTION_LOSS: it is unknown whether it was carried out; if
 * so, while the lock was held. Blocking; in callbacks only when the client runs with threads.
 * *ret_reply as in conclave_call, without the check's result, NULL when nothing was sent. */
CONCLAVE_API int conclave_lock_fenced_multi(struct conclave_lock *lock,
                                            const struct conclave_op *parts, size_t count,
                                            struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

/* Acquires all or none, within one timeout, for the calling thread: in the order of their paths,
 * whatever the given order, so that two callers with the same locks never wait for each other. 0,
 * or the error of the lock that failed; the ones acquired before it are then released.
 * CONCLAVE_EDEADLK: two handles are for one path. Blocking. */
CONCLAVE_API int conclave_locks_acquire(struct conclave_lock *const *locks, size_t count,
                                        int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Releases all, the last acquired first, within one timeout: the first error, all are tried. */
CONCLAVE_API int conclave_locks_release(struct conclave_lock *const *locks, size_t count,
                                        int64_t timeout_ms) CONCLAVE_MUST_USE;

/* A holder of a lock or semaphore, or a contender that waits for it. Strings live until the list
 * is freed. */
struct conclave_contender {
    const char *node; /* name of its node */
    const char *id;   /* identity it gave, or "__REVOKE__" when it was asked to release */
    enum conclave_lock_kind kind;
    bool holds;                  /* it holds the lock; else it waits */
    struct conclave_token token; /* of its node: that of its grant, when it is granted */
    int64_t session_id;
    int64_t since_ms; /* when its node was made: milliseconds since 1970 of the server's clock */
};

/* The holders and waiting contenders of the lock at path, in their order, in the naming that most
 * of them have. Does not disturb them. Blocking: also CONCLAVE_ETIMEDOUT, CONCLAVE_NO_NODE (no
 * such lock). Free with conclave_contenders_free. */
CONCLAVE_API int conclave_lock_contenders(struct conclave_recipes *recipes, const char *path,
                                          int64_t timeout_ms, struct conclave_contender ***ret,
                                          size_t *ret_count) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_contenders_free(struct conclave_contender **list, size_t count);

/* Ends the handle: acquires that wait get CONCLAVE_ECLOSED, a held lock is released, then
 * on_closed. Asynchronous; may be called repeatedly, also in a callback. */
CONCLAVE_API void conclave_lock_close(struct conclave_lock *lock);

/* Waits for on_closed to have returned. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK. */
CONCLAVE_API int conclave_lock_close_wait(struct conclave_lock *lock,
                                          int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Frees a closed handle. NULL is allowed. In on_closed: freed when that returns. */
CONCLAVE_API void conclave_lock_destroy(struct conclave_lock *lock);

#ifdef __cplusplus
}
#endif
#endif
