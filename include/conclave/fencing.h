/*
 * Fencing tokens: checked in ZooKeeper's tree, and in other resources.
 *
 * A holder that was stopped for a while does not know that it has lost its lock. The written
 * resource must refuse its writes:
 *
 * - Conclave's servers do it for the tree, when a path prefix is bound to the lock or election
 *   (conclave_fence_bind). An extension, off unless the servers have fencing.enabled; others answer
 *   CONCLAVE_EUNSUPPORTED.
 * - A resource that can store a number keeps a struct conclave_token_gate. Needs no server.
 * - A resource that can store nothing asks conclave_token_is_current; between the answer and the
 *   action the token may become old.
 *
 * The functions that ask a server block, and return CONCLAVE_EDEADLK inside callbacks. After a
 * lost link they repeat their requests until timeout_ms has passed (CONCLAVE_FOREVER:
 * indefinitely), and then return CONCLAVE_ETIMEDOUT. Other errors are the server's, such as
 * CONCLAVE_NO_AUTH, or the client's, such as CONCLAVE_ECLOSED and CONCLAVE_ENOMEM.
 */
#ifndef CONCLAVE_FENCING_H
#define CONCLAVE_FENCING_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- bindings ------------------------------------------------------------------ */

/* Nodes at and below prefix can be written only by the session that holds the lock, or leads the
 * election, at path lock; or in transactions that check the holder's node
 * (conclave_election_fenced_multi and similar functions). */
struct conclave_fence_binding {
    const char *prefix;
    const char *lock;
    int64_t lock_delay_ms; /* time without writes after a holder went without a release */
    /* end of a running delay, in ms since 1970 by the leader's clock; 0: none is running */
    int64_t closed_until_ms;
};

/* Binds, or binds again, which ends a running delay. Needs ADMIN at the prefix, or at the nearest
 * existing node above it, and a client without a chroot. CONCLAVE_EUNSUPPORTED: the servers have
 * no fencing, or it is switched off. CONCLAVE_BAD_ARGUMENTS: a prefix or lock that cannot be bound
 * (see docs/fencing.md), or a delay above a day. */
CONCLAVE_API int conclave_fence_bind(struct conclave_client *client, const char *prefix,
                                     const char *lock, int64_t lock_delay_ms,
                                     int64_t timeout_ms) CONCLAVE_MUST_USE;

/* CONCLAVE_NO_NODE: it is not bound. Otherwise as above. */
CONCLAVE_API int conclave_fence_unbind(struct conclave_client *client, const char *prefix,
                                       int64_t timeout_ms) CONCLAVE_MUST_USE;

/* All bindings, by prefix. 0 and a list, to be freed with conclave_fence_list_free. */
CONCLAVE_API int conclave_fence_list(struct conclave_client *client, int64_t timeout_ms,
                                     struct conclave_fence_binding ***ret,
                                     size_t *ret_count) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_fence_list_free(struct conclave_fence_binding **list, size_t count);

/* --- tokens -------------------------------------------------------------------- */

/* Whether the token's node is still that of the first contender at path. *ret was true or false at
 * some moment after the call began; a quorum of Conclave's servers proves this. Apache ZooKeeper's
 * sync proves nothing if a deposed leader that has not noticed yet answers. There is no current
 * token if the path has no node or no contender, or if the first contender wants a read lock.
 * Reads the list of contenders and one node. */
CONCLAVE_API int conclave_token_is_current(struct conclave_client *client, const char *path,
                                           struct conclave_token token, int64_t timeout_ms,
                                           bool *ret) CONCLAVE_MUST_USE;

#define CONCLAVE_ENSEMBLE_MAX 64 /* bytes of an ensemble's id, with the NUL */

/* The newest token that a resource has seen. Zero it for a resource that has seen none. */
struct conclave_token_gate {
    char ensemble[CONCLAVE_ENSEMBLE_MAX]; /* whose tokens these are */
    int64_t newest;                       /* 0: none */
};

/*
 * Checks a token before an action of its holder. 0: proceed. If *ret_changed (not NULL) is true,
 * the gate has changed: store it durably before the action, otherwise a crash lets older tokens
 * pass again. CONCLAVE_EFENCED: a newer token was seen, refuse. CONCLAVE_ECONFLICT: the token is
 * of another ensemble, or of one that was rebuilt; refuse until an operator has zeroed the gate.
 * CONCLAVE_EINVAL: no token, or an id that is too long, or has blanks or control characters.
 *
 * ensemble: an id of the ensemble, such as the member "ensemble" in the answers of GET /fence; ""
 * if there is only one. No I/O, no allocation.
 */
CONCLAVE_API int conclave_token_gate_admit(struct conclave_token_gate *gate, const char *ensemble,
                                           struct conclave_token token,
                                           bool *ret_changed) CONCLAVE_MUST_USE;

#define CONCLAVE_TOKEN_GATE_TEXT_MAX 128 /* bytes of a gate's text, with the NUL */

/* One line of text with a newline, for a file. */
CONCLAVE_API void conclave_token_gate_print(const struct conclave_token_gate *gate,
                                            char buf[CONCLAVE_TOKEN_GATE_TEXT_MAX]);
/* Reads such a text of len bytes. CONCLAVE_ECORRUPT: it is not a gate. */
CONCLAVE_API int conclave_token_gate_parse(const char *text, size_t len,
                                           struct conclave_token_gate *ret) CONCLAVE_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
