#include "cluster/digest_check.h"

#include <assert.h>
#include <string.h>

void digest_check_reset(struct digest_check *a)
{
    memset(a, 0, sizeof *a);
}

static enum digest_check_verdict compare(const struct digest_check *a, uint64_t index,
                                         uint64_t digest)
{
    const struct digest_check_digest *own = &a->kept[index % AGREEMENT_KEPT];
    if (index == 0 || own->index != index) {
        return AGREEMENT_UNKNOWN;
    }
    return own->digest == digest ? AGREEMENT_SAME : AGREEMENT_DIFFERS;
}

enum digest_check_verdict digest_check_applied(struct digest_check *a, uint64_t index,
                                               uint64_t digest)
{
    assert(index > a->last);
    a->kept[index % AGREEMENT_KEPT] = (struct digest_check_digest){index, digest};
    a->last = index;
    if (a->claim.index == 0 || a->claim.index > index) {
        return AGREEMENT_UNKNOWN;
    }
    struct digest_check_digest claim = a->claim;
    a->claim.index = 0;
    /* The claimed entry was not applied here because it is empty: there is nothing to compare. */
    return claim.index == index ? compare(a, index, claim.digest) : AGREEMENT_UNKNOWN;
}

enum digest_check_verdict digest_check_claimed(struct digest_check *a, uint64_t index,
                                               uint64_t digest)
{
    if (index > a->last) {
        a->claim = (struct digest_check_digest){index, digest};
        return AGREEMENT_UNKNOWN;
    }
    return compare(a, index, digest);
}

enum digest_check_verdict digest_check_told(struct digest_check *a, uint64_t member, uint64_t index,
                                            uint64_t digest)
{
    size_t i = 0;
    assert(a->n_others <= MEMBERS_MAX);
    while (i < a->n_others && a->others[i].member != member) {
        i++;
    }
    /* Only the newest digest of each member counts. */
    if (i < MEMBERS_MAX) {
        a->others[i].member = member;
        a->others[i].told = (struct digest_check_digest){index, digest};
        a->n_others += i == a->n_others;
    }
    return compare(a, index, digest);
}

bool digest_check_argue(struct digest_check *a, uint64_t index, uint64_t *ret_digest)
{
    const struct digest_check_digest *own = &a->kept[index % AGREEMENT_KEPT];
    if (index <= a->argued || own->index != index) {
        return false;
    }
    a->argued = index;
    *ret_digest = own->digest;
    return true;
}

/* The digest of a member after that entry. False if it is unknown or equals ours. */
static bool differs_there(const struct digest_check *a, uint64_t index, uint64_t member,
                          uint64_t *ret_digest)
{
    for (size_t i = 0; i < a->n_others; i++) {
        if (a->others[i].member == member && a->others[i].told.index == index) {
            *ret_digest = a->others[i].told.digest;
            return compare(a, index, *ret_digest) == AGREEMENT_DIFFERS;
        }
    }
    return false;
}

bool digest_check_outvoted(const struct digest_check *a, uint64_t index, const uint64_t *voters,
                           size_t n_voters)
{
    for (size_t i = 0; i < n_voters; i++) {
        uint64_t digest;
        size_t same = 0;
        if (!differs_there(a, index, voters[i], &digest)) {
            continue;
        }
        for (size_t j = 0; j < n_voters; j++) {
            uint64_t other;
            same += differs_there(a, index, voters[j], &other) && other == digest;
        }
        if (same > n_voters / 2) {
            return true;
        }
    }
    return false;
}

bool digest_check_newest(const struct digest_check *a, uint64_t *ret_index, uint64_t *ret_digest)
{
    if (a->last == 0) {
        return false;
    }
    assert(a->kept[a->last % AGREEMENT_KEPT].index == a->last);
    *ret_index = a->last;
    *ret_digest = a->kept[a->last % AGREEMENT_KEPT].digest;
    return true;
}
