/*
 * The ephemeral node of a fixed name that a call of an operator makes: the lock of a reset, the request to hand over. It
 * ends with the call, also when the answer to its creation comes later, and nothing is done to a node of another under
 * that name: its data end with a mark of this call. Blocking; no lock held.
 */
#ifndef RECIPES_STANDBY_OPERATOR_NODE_H
#define RECIPES_STANDBY_OPERATOR_NODE_H

#include "recipes/standby/elector_view.h"

enum { OPERATOR_MARK_BYTES = 16 };

struct operator_node {
    struct elector_question
        *q; /* its requests are bound to the session of the node, while that exists */
    char *path;
    const struct conclave_acl *acl; /* borrowed; NULL: the client's */
    size_t acl_count;
    struct deletion *removal; /* made before the node is: it must not stay for want of memory */
    char mark[2 * OPERATOR_MARK_BYTES + 1];
};

/* Makes the node `name` below the question's directory, with text, the mark and this ACL (NULL: the client's). CONCLAVE_EBUSY: another's is there;
 * CONCLAVE_NO_NODE: the directory is not. After an error there is nothing to end. */
int operator_node_make(struct operator_node *n, struct elector_question *q, const char *name,
                       struct slice text, const struct conclave_acl *acl,
                       size_t acl_count) CONCLAVE_MUST_USE;

/* Writes another text. CONCLAVE_NO_NODE: somebody has deleted it; CONCLAVE_SESSION_EXPIRED: so it has gone. */
int operator_node_set(struct operator_node *n, struct slice text) CONCLAVE_MUST_USE;

/* Deletes it, and goes on with that after the end of the question's time. The error of a server that refuses that for
 * good, which is not tried again: it goes with its session. gone: it is deleted already. */
int operator_node_end(struct operator_node *n) CONCLAVE_MUST_USE;
void operator_node_gone(struct operator_node *n);

#endif
