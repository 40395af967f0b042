/*
 * Whether the members of an ensemble have the same state: the leader tells, now and then, the digest that
 * its state had after some entry; every other member compares with what it had after the same one. What
 * the log does not explain (a flipped bit in memory, a fault in apply) shows within seconds.
 *
 * Who finds a difference tells its own digest to all, and so does who has another one: then each can see
 * whether a majority of the voters agrees on a digest that is not its own. The leader may be the odd one, too.
 *
 * Limit: of the last AGREEMENT_KEPT entries; a member further behind or ahead cannot tell.
 */
#ifndef CLUSTER_DIGEST_CHECK_H
#define CLUSTER_DIGEST_CHECK_H

#include "replication/disk/configuration.h"

#include <stdbool.h>
#include <stdint.h>

enum { AGREEMENT_KEPT = 256 };

struct digest_check_digest {
    uint64_t index;
    uint64_t digest;
};

struct digest_check {
    struct digest_check_digest kept[AGREEMENT_KEPT]; /* by index modulo their number */
    uint64_t last;                                   /* newest index; 0: none */
    /* of an entry that is not applied here yet; index 0: nothing */
    struct digest_check_digest claim;
    struct {
        uint64_t member;
        struct digest_check_digest told;
    } others[MEMBERS_MAX]; /* what each told last */
    size_t n_others;
    uint64_t argued; /* newest entry whose digest was told because of a difference */
};

enum digest_check_verdict { AGREEMENT_UNKNOWN, AGREEMENT_SAME, AGREEMENT_DIFFERS };

/* Forgets all: the state was replaced. */
void digest_check_reset(struct digest_check *a);

/* An entry was applied; the digest of the state after it. Tells about a claim that waited for it. */
enum digest_check_verdict digest_check_applied(struct digest_check *a, uint64_t index,
                                               uint64_t digest);

/* The leader had this digest after that entry. */
enum digest_check_verdict digest_check_claimed(struct digest_check *a, uint64_t index,
                                               uint64_t digest);

/* So had another member; it waits for nothing. */
enum digest_check_verdict digest_check_told(struct digest_check *a, uint64_t member, uint64_t index,
                                            uint64_t digest);

/* Whether the own digest after that entry should be told to all, because another's differs: once. */
bool digest_check_argue(struct digest_check *a, uint64_t index, uint64_t *ret_digest);

/* Whether a majority of these members had one and the same digest after that entry, and not ours. */
bool digest_check_outvoted(const struct digest_check *a, uint64_t index, const uint64_t *voters,
                           size_t n_voters);

/* The newest entry and its digest; false when there is none. */
bool digest_check_newest(const struct digest_check *a, uint64_t *ret_index, uint64_t *ret_digest);

#endif
