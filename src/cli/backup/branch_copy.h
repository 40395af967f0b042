/*
 * Copies a branch of a state into a running server or ensemble, through an ordinary client. What a client can write is
 * kept: data, ACLs, containers, the TTL of nodes that have one. What it cannot is not: zxids, times and versions begin
 * anew. Ephemeral nodes are left out, because their sessions are not there; /zookeeper is left out, too.
 *
 * The writes are gathered into multis of at most COPY_PARTS nodes and about COPY_BYTES: each is done whole or not at all,
 * the copy as a whole is not.
 */
#ifndef CLI_BACKUP_BRANCH_COPY_H
#define CLI_BACKUP_BRANCH_COPY_H

#include "cli/common/options.h"
#include "state/state.h"

enum { COPY_PARTS = 200, COPY_BYTES = 256 * 1024 };

struct branch_copy {
    const char *command; /* for messages */
    const struct common_options *common;
    const struct state *state;
    const char *from;
    const char *to;
    bool merge; /* nodes may exist: they get the data and the ACL */
};

struct branch_copied {
    uint64_t nodes;      /* created */
    uint64_t changed;    /* existed before */
    uint64_t ephemerals; /* left out */
};

/* 0 and *ret, or the exit code of a printed error; then *ret is what was done before it. */
int branch_copy(const struct branch_copy *options, struct branch_copied *ret);

/* The line, or the object with --json, that tells what was copied. The exit code. */
int branch_copy_report(const struct branch_copy *options, int64_t zxid,
                       const struct branch_copied *done);

#endif
