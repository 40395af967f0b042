/*
 * The contenders, read by a client that does not contend: the names as of one sync, then all their
 * data, with all requests at once, in the naming that most of them have. A contender that leaves
 * between list and read is left out. Where the path itself is ephemeral (CONCLAVE_NAMING_FIXED),
 * its owner is the only one.
 */
#ifndef RECIPES_HOLD_CONTENDER_LIST_H
#define RECIPES_HOLD_CONTENDER_LIST_H

#include "recipes/engine/contender_names.h"

#include <conclave/election.h>

struct listed_contender {
    struct conclave_participant participant; /* node is the block that holds all its texts */
    enum name_kind kind;                     /* NAME_PLAIN unless kinds were asked for */
    int32_t weight;                          /* permits that it asks for */
    int64_t place;                           /* its czxid, or that of whose place it has taken */
};

/* In their order; free every participant.node, and the list. Blocks. 0, CONCLAVE_EINVAL (no path),
 * CONCLAVE_ENOMEM, CONCLAVE_ETIMEDOUT, CONCLAVE_NO_NODE, or the answer's error. */
int contenders_read(struct conclave_recipes *rt, const char *path, bool kinds, int64_t timeout_ms,
                    struct listed_contender **ret, size_t *ret_count) CONCLAVE_MUST_USE;

#endif
