/*
 * Writes a data folder from which Apache ZooKeeper starts: one snapshot, in the form of 3.6 and later, which 3.5 reads,
 * too. Limits: a session that one of our servers opened has a password at random, and Apache knows only passwords that
 * follow from the id, so its client cannot go on there; the session ends after its timeout.
 */
#ifndef APACHE_EXPORT_H
#define APACHE_EXPORT_H

#include "state/state.h"

/* What was written. */
struct apache_exported {
    char *file; /* name of the snapshot; the caller frees it */
    size_t nodes;
    size_t sessions;
    size_t foreign_sessions; /* of these, those whose clients cannot go on */
    uint64_t bytes;
    uint64_t digest; /* Apache's, of the whole tree */
};

/* Makes dir/version-2 and writes the state there as snapshot.ZXID: the whole file, or none. Refuses a folder that has
 * files of ZooKeeper. told: called now and then with the nodes so far; or NULL. The caller frees *ret_error. 0, CONCLAVE_EFOREIGN, CONCLAVE_EIO or CONCLAVE_ENOMEM. */
int apache_export(const struct state *s, const char *dir, void (*told)(void *ctx, size_t nodes),
                  void *ctx, struct apache_exported *ret, char **ret_error) CONCLAVE_MUST_USE;

#endif
