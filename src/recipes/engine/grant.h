/*
 * The public state of a grant, for is_leader, is_held and similar calls: read from any thread and
 * from signal handlers, without the client's lock. And the transaction that is carried out only
 * while the grant's node exists.
 *
 * The lease is compared with the clock at the moment of the question: a grant whose timer comes
 * late has ended all the same.
 */
#ifndef RECIPES_ENGINE_GRANT_H
#define RECIPES_ENGINE_GRANT_H

#include "recipes/engine/recipe_runtime.h"

#include <stdatomic.h>

struct grant {
    _Atomic int64_t until_ns; /* end of the lease; 0: nothing is held */
    _Atomic int64_t czxid;    /* the token */
};

/* Lock held for these two. */
void grant_publish(struct grant *grant, int64_t czxid, int64_t until_ns);
void grant_withdraw(struct grant *grant); /* no thread sees it any more once this has returned */

/* End of the lease if it has not come yet, else 0; 0 in a child of the process that holds it.
 * Any thread, wait-free. */
int64_t grant_until_ns(const struct grant *grant, const struct conclave_recipes *rt);

/* Milliseconds left, the token; both 0 when nothing is held. As above. */
int64_t grant_left_ms(const struct grant *grant, const struct conclave_recipes *rt);
struct conclave_token grant_token(const struct grant *grant, const struct conclave_recipes *rt);

/* Copies the program's requests, whose size may be another, to this library's. 0 or CONCLAVE_EINVAL. */
int ops_read(struct conclave_op *own, const struct conclave_op *ops,
             size_t count) CONCLAVE_MUST_USE;

/* Check of node, then the parts. 0, CONCLAVE_EFENCED (the node is gone, nothing was done),
 * CONCLAVE_EINVAL, CONCLAVE_ENOMEM or the answer's error. Blocks; lock not held. *ret_reply (may be NULL) as in
 * conclave_call, without the check's result; NULL when nothing was sent. */
int fenced_multi(struct conclave_client *client, const char *node, const struct conclave_op *parts,
                 size_t count, struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

/* The same with several checks, none of the caller's. */
int fenced_multi_checks(struct conclave_client *client, const struct conclave_op *checks,
                        size_t checks_count, const struct conclave_op *parts, size_t count,
                        struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

/* The same for a node whose version says whose it is: version (lock held) gives the one that it must have,
 * or why nothing may be written (CONCLAVE_EFENCED); nothing that is queued later comes before this. */
struct fenced_version {
    int (*version)(void *ctx, int32_t *ret);
    void *ctx;
};
int fenced_multi_version(struct conclave_client *client, const char *node,
                         const struct fenced_version *version, const struct conclave_op *parts,
                         size_t count, struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

#endif
