/*
 * What a member does about digest_check.h: tells digests, compares them, and steps aside with a state that is not the
 * others'. Part of ensemble.h; called by it.
 *
 *   differs from the leader → all tell their digests → a majority has another state → aside, the folder is read again
 *     → differs again, having agreed with nobody since → `beyond_repair`: the folder is wrong, too
 *
 * Where no majority can say who is right (two voters, or a third that is away) the member that does not lead steps aside
 * and reads its folder again, as often as it differs.
 */
#ifndef CLUSTER_DIGEST_EXCHANGE_H
#define CLUSTER_DIGEST_EXCHANGE_H

#include "base/slice.h"

#include <stdint.h>

struct ensemble;

/* An entry was applied. */
void digest_exchange_applied(struct ensemble *e, uint64_t index);

/* A member's message. */
void digest_exchange_take(struct ensemble *e, uint64_t from, struct slice bytes);

/* The leader's beat. */
void digest_exchange_tell(struct ensemble *e);

#endif
