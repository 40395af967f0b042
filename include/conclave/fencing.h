/*
 * Fencing tokens where they count: in ZooKeeper's tree, and in resources elsewhere.
 *
 * A holder that was stopped for a while does not know that it lost. Whatever it writes to has to refuse it:
 *
 * - Conclave's servers do it for the tree, when a path prefix is bound to the lock or election
 *   (conclave_fence_bind). An extension, off unless the servers have fencing.enabled; others answer
 *   CONCLAVE_EUNSUPPORTED.
 * - A resource that can keep a number keeps a struct conclave_token_gate. Needs no server.
 * - A resource that can keep nothing asks conclave_token_is_current; there is a gap between the answer and what is
 *   done after it.
 *
 * The functions that ask a server block, and answer CONCLAVE_EDEADLK inside callbacks. They repeat what a lost link left
 * open until timeout_ms is over (CONCLAVE_FOREVER: without end), and then answer CONCLAVE_ETIMEDOUT. Other errors are the
 * server's, such as CONCLAVE_NO_AUTH, or the client's, such as CONCLAVE_ECLOSED and CONCLAVE_ENOMEM.
 */
#ifndef CONCLAVE_FENCING_H
#define CONCLAVE_FENCING_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- bindings ------------------------------------------------------------------ */

/* What stands at prefix and below is written only by the session that holds the lock, or leads the election, at path
 * lock; or in transactions that check the holder's node (conclave_election_fenced_multi and the like). */
struct conclave_fence_binding {
    const char *prefix;
    const char *lock;
    int64_t lock_delay_ms; /* how long nobody writes after a holder went without letting go */
    /* such a time ends then, in ms since 1970 by the leader's clock; 0: none has begun */
    int64_t closed_until_ms;
};

/* Binds, or binds anew, which ends a delay that is running. Needs ADMIN at the prefix, or at the nearest node above it;
 * a client without a chroot. CONCLAVE_EUNSUPPORTED: the servers have no fencing, or have it switched off.
 * CONCLAVE_BAD_ARGUMENTS: a prefix or lock that cannot be bound (see docs/fencing.md), or a delay above a day. */
CONCLAVE_API int conclave_fence_bind(struct conclave_client *client, const char *prefix,
                                     const char *lock, int64_t lock_delay_ms,
                                     int64_t timeout_ms) CONCLAVE_MUST_USE;

/* CONCLAVE_NO_NODE: it is not bound. Otherwise as above. */
CONCLAVE_API int conclave_fence_unbind(struct conclave_client *client, const char *prefix,
                                       int64_t timeout_ms) CONCLAVE_MUST_USE;

/* All bindings, by prefix. 0 and an array, to be freed with conclave_fence_list_free; NULL when there is none. */
CONCLAVE_API int conclave_fence_list(struct conclave_client *client, int64_t timeout_ms,
                                     struct conclave_fence_binding **ret,
                                     size_t *ret_count) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_fence_list_free(struct conclave_fence_binding *list, size_t count);

/* --- tokens -------------------------------------------------------------------- */

/* Whether the token's node is still the first contender's at path: *ret is what was true at some moment since the call
 * began, as a quorum has proved on Conclave's servers. On Apache ZooKeeper it is as good as its sync, which proves
 * nothing about a leader that was replaced and has not noticed. A path without node or contender has no current token,
 * and so has one where a contender for a read lock is first. Asks for the list of contenders and one node, whatever
 * stands there. */
CONCLAVE_API int conclave_token_is_current(struct conclave_client *client, const char *path,
                                           struct conclave_token token, int64_t timeout_ms,
                                           bool *ret) CONCLAVE_MUST_USE;

#define CONCLAVE_ENSEMBLE_MAX 64 /* bytes of an ensemble's id, with the NUL */

/* What a resource remembers: the newest token that it was shown. Zero it for one that has seen none. */
struct conclave_token_gate {
    char ensemble[CONCLAVE_ENSEMBLE_MAX]; /* whose tokens these are */
    int64_t newest;                       /* 0: none */
};

/*
 * Shows the gate a token before something is done in its name. 0: do it. If *ret_changed (not NULL) was set the gate has
 * learnt something: it must be stored durably before anything is done, or a crash opens it for older tokens again.
 * CONCLAVE_EFENCED: a newer one was seen, refuse. CONCLAVE_ECONFLICT: of another ensemble, or one that was built anew;
 * refuse until an operator has zeroed the gate. CONCLAVE_EINVAL: no token, or an id that is too long, or has blanks or
 * control characters.
 *
 * ensemble: what tells this ensemble from others, such as the member "ensemble" in the answers of GET /fence; "" if
 * there will be no other. Pure: no I/O, no memory.
 */
CONCLAVE_API int conclave_token_gate_admit(struct conclave_token_gate *gate, const char *ensemble,
                                           struct conclave_token token,
                                           bool *ret_changed) CONCLAVE_MUST_USE;

#define CONCLAVE_TOKEN_GATE_TEXT_MAX 128 /* bytes of a gate's text, with the NUL */

/* One line of text with a newline, for a file. */
CONCLAVE_API void conclave_token_gate_print(const struct conclave_token_gate *gate,
                                            char buf[CONCLAVE_TOKEN_GATE_TEXT_MAX]);
/* From such a text, of len bytes. CONCLAVE_ECORRUPT: it is none. */
CONCLAVE_API int conclave_token_gate_parse(const char *text, size_t len,
                                           struct conclave_token_gate *ret) CONCLAVE_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
