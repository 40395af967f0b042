/*
 * A snapshot of Apache ZooKeeper compared with a state, while it is read: every node with data, permissions and each field
 * of its stat, every session with its timeout. So a file that was just written is proved without a second state in memory.
 */
#ifndef APACHE_COMPARE_H
#define APACHE_COMPARE_H

#include "state/state.h"

/* What was compared. */
struct apache_compared {
    size_t nodes;
    size_t sessions;
};

/* digest: Apache's, of the state, which the file must have. told: called now and then with the nodes so far; or NULL. 0: equal; CONCLAVE_ECORRUPT with *ret_error, which names file,
 * place and the first difference; CONCLAVE_EIO, CONCLAVE_ENOMEM. */
int apache_compare(const struct state *s, uint64_t digest, const char *file,
                   void (*told)(void *ctx, size_t nodes), void *ctx, struct apache_compared *ret,
                   char **ret_error) CONCLAVE_MUST_USE;

#endif
