#include "cluster/bootstrap.h"

#include "base/endian.h"
#include "base/map.h"

#include <assert.h>
#include <string.h>

void bootstrap_init(struct bootstrap *f, uint64_t id, const struct configuration_member *founders,
                    size_t n)
{
    assert(n <= MEMBERS_MAX);
    *f = (struct bootstrap){.id = id, .founders = founders, .n_founders = n, .majority_ms = -1};
}

/* Whether a server founded, with its founding entry, the cluster that this server would found with the others. */
static bool is_own_cluster(const struct bootstrap *f, const struct peer_identity *who)
{
    uint8_t own[PEER_CLUSTER_SIZE];
    bootstrap_cluster(f->founders, f->n_founders, own);
    return memcmp(own, who->cluster, sizeof own) == 0;
}

void bootstrap_hello(struct bootstrap *f, const struct peer_identity *who)
{
    if (who->age == PEER_GROWN || (who->age == PEER_FOUNDED && !is_own_cluster(f, who))) {
        f->grown = true;
        memcpy(f->cluster, who->cluster, sizeof f->cluster);
    }
    for (size_t i = 0; i < f->n_founders; i++) {
        if (f->founders[i].id == who->id) {
            f->heard[i] = who->age == PEER_FRESH || who->age == PEER_FOUNDED;
            f->lost[i] = who->age == PEER_LOST || who->age == PEER_IMPORTING;
            return;
        }
    }
    f->other_lost = f->other_lost || who->age == PEER_LOST;
}

enum bootstrap_verdict bootstrap_decide(struct bootstrap *f, int64_t now_ms)
{
    size_t voters = configuration_voters(f->founders, f->n_founders);
    size_t fresh = 0;
    bool lost = f->other_lost;
    if (f->grown) {
        return FOUNDING_JOIN;
    }
    const struct configuration_member *self = configuration_find(f->founders, f->n_founders, f->id);
    if (self == NULL) {
        return FOUNDING_WAIT; /* not a founder: it can only join a server that has data */
    }
    for (size_t i = 0; i < f->n_founders; i++) {
        fresh += f->founders[i].role == MEMBER_VOTER && (f->heard[i] || &f->founders[i] == self);
        lost = lost || f->lost[i];
    }
    assert(fresh <= voters);
    if (lost || fresh <= voters / 2) {
        f->majority_ms = -1;
        return FOUNDING_WAIT;
    }
    /* The wait gives a slow member that has data the time to be heard. */
    if (f->majority_ms < 0) {
        f->majority_ms = now_ms;
    }
    return fresh == voters || now_ms - f->majority_ms >= FOUNDING_GRACE_MS ? FOUNDING_FOUND
                                                                           : FOUNDING_WAIT;
}

void bootstrap_cluster(const struct configuration_member *founders, size_t n,
                       uint8_t ret[PEER_CLUSTER_SIZE])
{
    /* The id follows from the members alone, so that all founders compute the same one without a message. */
    uint64_t half[2] = {hash_bytes("conclave", 8), hash_bytes("ensemble", 8)};
    struct configuration_member sorted[MEMBERS_MAX];
    assert(n <= MEMBERS_MAX);
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        while (at > 0 && sorted[at - 1].id > founders[i].id) {
            sorted[at] = sorted[at - 1];
            at--;
        }
        sorted[at] = founders[i];
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t h = hash_bytes(sorted[i].address, strlen(sorted[i].address));
        for (size_t k = 0; k < 2; k++) {
            half[k] = hash_u64(half[k] ^ hash_u64(sorted[i].id) ^ h) + k;
        }
    }
    put_be64(ret, half[0]);
    put_be64(ret + 8, half[1]);
}
