#include "server/agreement.h"

#include <string.h>

void agreement_reset(struct agreement *a)
{
    memset(a, 0, sizeof *a);
}

static enum agreement_verdict compare(uint64_t ours, uint64_t theirs)
{
    return ours == theirs ? AGREEMENT_SAME : AGREEMENT_DIFFERS;
}

enum agreement_verdict agreement_applied(struct agreement *a, uint64_t index, uint64_t digest)
{
    a->kept[index % AGREEMENT_KEPT].index = index;
    a->kept[index % AGREEMENT_KEPT].digest = digest;
    a->last = index;
    if (a->claim_index == 0 || a->claim_index > index) {
        return AGREEMENT_UNKNOWN;
    }
    bool same_entry = a->claim_index == index; /* else it changed nothing here, and was passed */
    a->claim_index = 0;
    return same_entry ? compare(digest, a->claim_digest) : AGREEMENT_UNKNOWN;
}

enum agreement_verdict agreement_claimed(struct agreement *a, uint64_t index, uint64_t digest)
{
    if (index == 0) {
        return AGREEMENT_UNKNOWN;
    }
    if (index > a->last) {
        a->claim_index = index;
        a->claim_digest = digest;
        return AGREEMENT_UNKNOWN;
    }
    return a->kept[index % AGREEMENT_KEPT].index == index
               ? compare(a->kept[index % AGREEMENT_KEPT].digest, digest)
               : AGREEMENT_UNKNOWN;
}

bool agreement_newest(const struct agreement *a, uint64_t *ret_index, uint64_t *ret_digest)
{
    if (a->last == 0) {
        return false;
    }
    *ret_index = a->last;
    *ret_digest = a->kept[a->last % AGREEMENT_KEPT].digest;
    return true;
}
