/*
 * What a member does with digest_check.h: it sends digests, compares them, and steps aside if its state is wrong. Part
 * of ensemble.h, which calls it.
 *
 *   differs from the leader → all send their digests → a majority has another state → steps aside, reads its folder
 *   again
 *     → differs again, without one agreement since then → `beyond_repair`: the folder is wrong, too
 *
 * Where no majority can decide (two voters, or a third one is away), the member that does not lead steps aside and
 * reads its folder again, each time that it differs.
 */
#ifndef CLUSTER_DIGEST_EXCHANGE_H
#define CLUSTER_DIGEST_EXCHANGE_H

#include "base/slice.h"

#include <stdint.h>

struct ensemble;

/* An entry was applied: computes its digest and compares. */
void digest_exchange_applied(struct ensemble *e, uint64_t index);

/* A digest from another member. */
void digest_exchange_take(struct ensemble *e, uint64_t from, struct slice bytes);

/* Called regularly: a leader sends its newest digest to all. */
void digest_exchange_tell(struct ensemble *e);

#endif
