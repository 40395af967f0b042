/*
 * The common parts of a client's recipes: the runtime, fencing tokens, the lease, names of nodes.
 *
 * Create a recipe's handle on a runtime; it reports by callbacks or by blocking functions; close
 * it before you destroy it. For all handles: functions may be called from any thread; a child
 * after fork may not use a handle (CONCLAVE_EFORK); strings and bytes are copied. Times are
 * milliseconds of a monotonic clock that counts suspend; CONCLAVE_FOREVER waits indefinitely, and so does a
 * time that the clock cannot count (292 years). A closed handle leaves nothing behind: deletions are tried again until they are answered or the
 * session has ended. The one exception is <path>.leader/last, the record of an election whose last
 * leader did not end cleanly.
 *
 * Blocking functions inside callbacks: functions that wait for a recipe (acquire, wait,
 * close_wait, ...) return CONCLAVE_EDEADLK. Functions that only ask the servers (conclave_call,
 * conclave_client_wait_connected, lists of participants and holders) work inside a recipe's
 * callback if the client was started with threads, and delay later callbacks of the recipe while
 * they wait; in your own loop they return CONCLAVE_EDEADLK, too.
 */
#ifndef CONCLAVE_RECIPES_H
#define CONCLAVE_RECIPES_H

#include <conclave/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One per client: timers, guaranteed deletions, the lease heartbeat of everything that its session
 * holds, and (if the client was started with threads) a thread for the recipes' callbacks, so that
 * a blocking client callback does not delay them. */
struct conclave_recipes;

/* 0, CONCLAVE_ENOMEM, CONCLAVE_EIO. The client must outlive it. */
CONCLAVE_API int conclave_recipes_open(struct conclave_client *client,
                                       struct conclave_recipes **ret) CONCLAVE_MUST_USE;

/* Destroy all handles first, the last one at the latest in its on_closed, where this function and
 * then conclave_client_close may be called, too. NULL is allowed. */
CONCLAVE_API void conclave_recipes_destroy(struct conclave_recipes *recipes);

/* Proof of a grant: larger than all earlier tokens of the same path, as long as the ensemble keeps
 * its data. */
struct conclave_token {
    int64_t czxid; /* of the node that confers the grant; 0: none */
};

/* How the holder proves that it still holds. */
struct conclave_lease_options {
    int64_t heartbeat_ms; /* between proofs; 0: a sixth of the session timeout */
    /* Time that the loss callback (on_revoked, on_lost) needs to stop the work. Maximum: a third
     * of the session timeout minus 500 ms (minus a sixth of it for timeouts below 3 s); 0: the
     * maximum. Through a follower of an Apache ensemble, the session may end up to a sixth of its
     * timeout and half a tick earlier: reduce the grace by that much there. Conclave's servers and
     * a standalone Apache server need no reduction. */
    int64_t grace_ms;
    bool stop_on_suspend; /* revoke at once when the link is lost, not at the end of the lease */
    int64_t reserved[4];  /* 0 */
};

/* Names of contenders' nodes, to share a path with contenders of other libraries. */
enum conclave_naming {
    CONCLAVE_NAMING_NATIVE,        /* <guid>-n_<sequence> */
    CONCLAVE_NAMING_CURATOR_LATCH, /* _c_<uuid>-latch-<sequence> */
    CONCLAVE_NAMING_CURATOR_LOCK,  /* _c_<uuid>-lock-<sequence> */
    CONCLAVE_NAMING_KAZOO,         /* <uuid>__lock__<sequence> */
    /* Elections only: no line of contenders. The path itself is the leader's ephemeral node, and
     * candidates race to create it (see conclave/election.h). */
    CONCLAVE_NAMING_FIXED,
    /* <sequence>, without more. Locks that are not shared only. */
    CONCLAVE_NAMING_PLAIN,
};

#ifdef __cplusplus
}
#endif
#endif
