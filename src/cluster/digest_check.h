/*
 * Checks that all members of an ensemble have the same state. From time to time the leader sends the digest of its
 * state after some entry, and every other member compares it with its own digest after that entry. So a difference that
 * the log does not explain (a flipped bit in memory, a fault in apply) shows within seconds.
 *
 * A member that finds a difference sends its own digest to all, and so does every member whose digest differs from
 * that. Then each member sees whether a majority of the voters agrees on a digest other than its own. The leader may be
 * the wrong one, too.
 *
 * Limit: only the last AGREEMENT_KEPT entries are compared; a member that is further behind or ahead learns nothing.
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
    struct digest_check_digest kept[AGREEMENT_KEPT]; /* by index modulo AGREEMENT_KEPT */
    uint64_t last;                                   /* newest index; 0: none */
    /* the leader's claim about an entry that is not applied here yet; index 0: none */
    struct digest_check_digest claim;
    struct {
        uint64_t member;
        struct digest_check_digest told;
    } others[MEMBERS_MAX]; /* the newest digest of each member */
    size_t n_others;
    uint64_t argued; /* newest entry whose digest this member sent because of a difference */
};

enum digest_check_verdict { AGREEMENT_UNKNOWN, AGREEMENT_SAME, AGREEMENT_DIFFERS };

/* Forgets all digests, because the state was replaced. */
void digest_check_reset(struct digest_check *a);

/* An entry was applied, and this is the digest of the state after it. Returns the verdict on a claim that waited. */
enum digest_check_verdict digest_check_applied(struct digest_check *a, uint64_t index,
                                               uint64_t digest);

/* The leader claims this digest after that entry. */
enum digest_check_verdict digest_check_claimed(struct digest_check *a, uint64_t index,
                                               uint64_t digest);

/* Another member sent its digest. The call keeps no claim for later. */
enum digest_check_verdict digest_check_told(struct digest_check *a, uint64_t member, uint64_t index,
                                            uint64_t digest);

/* Whether this member should send its own digest after that entry, because another's differs. True once per entry. */
bool digest_check_argue(struct digest_check *a, uint64_t index, uint64_t *ret_digest);

/* Whether a majority of these voters agrees on one digest after that entry that differs from ours. */
bool digest_check_outvoted(const struct digest_check *a, uint64_t index, const uint64_t *voters,
                           size_t n_voters);

/* The newest entry and its digest; false: none. */
bool digest_check_newest(const struct digest_check *a, uint64_t *ret_index, uint64_t *ret_digest);

#endif
