/*
 * Whether the members of an ensemble have the same state: the leader tells, now and then, the digest that
 * its state had after some entry; every other member compares with what it had after the same one. What
 * the log does not explain (a flipped bit in memory, a fault in apply) shows within seconds.
 *
 * Limit: of the last AGREEMENT_KEPT entries; a member further behind or ahead cannot tell.
 */
#ifndef SERVER_AGREEMENT_H
#define SERVER_AGREEMENT_H

#include <stdbool.h>
#include <stdint.h>

enum { AGREEMENT_KEPT = 256 };

struct agreement {
    struct {
        uint64_t index;
        uint64_t digest;
    } kept[AGREEMENT_KEPT]; /* by index modulo their number */
    uint64_t last;          /* newest index; 0: none */
    uint64_t claim_index;   /* what was told of an entry that is not applied here yet; 0: nothing */
    uint64_t claim_digest;
};

enum agreement_verdict { AGREEMENT_UNKNOWN, AGREEMENT_SAME, AGREEMENT_DIFFERS };

/* Forgets all: the state was replaced. */
void agreement_reset(struct agreement *a);

/* An entry was applied; the digest of the state after it. Tells about a claim that waited for it. */
enum agreement_verdict agreement_applied(struct agreement *a, uint64_t index, uint64_t digest);

/* The leader had this digest after that entry. */
enum agreement_verdict agreement_claimed(struct agreement *a, uint64_t index, uint64_t digest);

/* The newest entry and its digest; false when there is none. */
bool agreement_newest(const struct agreement *a, uint64_t *ret_index, uint64_t *ret_digest);

#endif
