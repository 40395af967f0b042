/*
 * What all recipes of a client share: the runtime, fencing tokens, the lease, names of nodes.
 *
 * A recipe's handle is started on a runtime, tells what happens by callbacks or lets the caller
 * block, and is closed before it is destroyed. What holds for all of them: functions may be called
 * from any thread; after a fork the child may use no handle (CONCLAVE_EFORK); strings and bytes that
 * are given are copied. Times are milliseconds of a clock that only goes forward and counts suspend;
 * CONCLAVE_FOREVER waits without end. A closed handle leaves nothing behind: deletions are tried
 * again until they are answered or the session has ended. The one exception is <path>.leader/last, the
 * record of an election whose last leader did not end cleanly.
 *
 * Blocking functions inside callbacks: those that wait for a recipe (acquire, wait, close_wait, ...)
 * give CONCLAVE_EDEADLK. Those that only ask the servers (conclave_call, conclave_client_wait_connected,
 * lists of participants and holders) work inside a recipe's callback when the client was started with
 * threads, and delay the recipe's later callbacks while they wait; on a loop of your own they give
 * CONCLAVE_EDEADLK, too.
 */
#ifndef CONCLAVE_RECIPES_H
#define CONCLAVE_RECIPES_H

#include <conclave/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One per client: timers, guaranteed deletions, the lease heartbeat of everything its session
 * holds, and (when the client was started with threads) a thread for the recipes' callbacks, so
 * that a client callback that blocks delays none. */
struct conclave_recipes;

/* 0, CONCLAVE_ENOMEM, CONCLAVE_EIO. The client must outlive it. */
CONCLAVE_API int conclave_recipes_create(struct conclave_client *client,
                                         struct conclave_recipes **ret) CONCLAVE_MUST_USE;

/* All handles must be destroyed, the last of them inside its on_closed at the latest: this may be
 * called there, too. NULL is allowed. */
CONCLAVE_API void conclave_recipes_destroy(struct conclave_recipes *recipes);

/* Proof of a grant: larger than all before it on the same path, as long as the ensemble keeps
 * its data. */
struct conclave_token {
    int64_t czxid; /* of the node that confers the grant; 0: none */
};

/* How the holder proves that it still holds. */
struct conclave_lease_options {
    int64_t heartbeat_ms; /* between proofs; 0: a sixth of the session timeout */
    /* Time that the loss callback (on_revoked, on_lost) needs to stop the work; at most a third of the session timeout less 500 ms (less a sixth
     * of it below 3 s); 0: that. Through a follower of an Apache ensemble the session is sure to
     * live only a sixth of its timeout and half a tick less than that, so there a grace that is used
     * up to its end can outlast it by so much: give less; Conclave's servers, and Apache's when it
     * stands alone, count from the answer to a heartbeat, and need nothing less. */
    int64_t grace_ms;
    bool stop_on_suspend; /* revoke at once when the link is lost, not at the end of the lease */
};

/* Names of candidates' nodes, for sharing a path with other programs' contenders. */
enum conclave_naming {
    CONCLAVE_NAMING_NATIVE,        /* <guid>-n_<sequence> */
    CONCLAVE_NAMING_CURATOR_LATCH, /* _c_<uuid>-latch-<sequence> */
    CONCLAVE_NAMING_CURATOR_LOCK,  /* _c_<uuid>-lock-<sequence> */
    CONCLAVE_NAMING_KAZOO,         /* <uuid>__lock__<sequence> */
};

#ifdef __cplusplus
}
#endif
#endif
