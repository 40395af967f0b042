#include "cluster/digest_exchange.h"

#include "cluster/ensemble.h"

enum { PATIENCE = 3 }; /* differences with the leader in a row, while no majority decides */

static void tell_all(struct ensemble *e, uint64_t index, uint64_t digest)
{
    for (size_t i = 0; i < e->n_others; i++) {
        struct buf message;
        ensemble_message_begin(&message, ENSEMBLE_DIGEST);
        buf_append_i64(&message, (int64_t)index);
        buf_append_i64(&message, (int64_t)digest);
        ensemble_send(e, e->others[i], &message);
    }
}

/* This member's state is wrong, and serving it would spread the fault. Reading the folder again mends a fault in
 * memory; a fault on the disk shows again. */
static void strike(struct ensemble *e, bool outvoted)
{
    if (e->replication == NULL) {
        return; /* already aside: entries that are still applied prove nothing */
    }
    e->differences = 0;
    e->beyond_repair = outvoted && e->doubted;
    e->doubted = e->doubted || outvoted;
    e->failed(e->failed_ctx, CONCLAVE_ECORRUPT,
              !outvoted
                  ? "this member's state differs from the leader's: it reads its folder again. "
                    "If this happens again, stop the member, empty its folder and start it"
              : e->beyond_repair
                  ? "the states of this member and of its folder differ from the majority's"
                  : "this member's state differs from the majority's: it reads its folder "
                    "again");
}

/* Another member has another state: finds out which one is wrong. */
static void doubt(struct ensemble *e, uint64_t index, bool leaders)
{
    uint64_t digest;
    e->differences += leaders;
    if (digest_check_argue(&e->agreement, index, &digest)) {
        tell_all(e, index, digest);
    }
    if (digest_check_outvoted(&e->agreement, index, e->voters, e->n_voters)) {
        strike(e, true);
    } else if (leaders && (e->n_voters < 3 || e->differences >= PATIENCE)) {
        strike(e, false);
    }
}

static void judge_leader(struct ensemble *e, enum digest_check_verdict verdict, uint64_t index)
{
    e->stats.compared += verdict != AGREEMENT_UNKNOWN;
    if (verdict == AGREEMENT_SAME) {
        e->doubted = false;
        e->differences = 0;
    } else if (verdict == AGREEMENT_DIFFERS) {
        e->stats.differed++;
        doubt(e, index, true);
    }
}

void digest_exchange_applied(struct ensemble *e, uint64_t index)
{
    if (!e->sole) {
        uint64_t digest = state_digest_now(e->service->state);
        judge_leader(e, digest_check_applied(&e->agreement, index, digest), index);
    }
}

void digest_exchange_take(struct ensemble *e, uint64_t from, struct slice bytes)
{
    struct wire_reader r = wire_reader_make(bytes);
    if (bytes.len != 16) {
        e->stats.refused++;
        return;
    }
    uint64_t index = (uint64_t)wire_read_i64(&r);
    uint64_t digest = (uint64_t)wire_read_i64(&r);
    enum digest_check_verdict verdict = digest_check_told(&e->agreement, from, index, digest);
    if (from == e->leader && e->role != REPLICATION_LEADER) {
        judge_leader(e, digest_check_claimed(&e->agreement, index, digest), index);
    } else if (verdict == AGREEMENT_DIFFERS) {
        doubt(e, index, false);
    }
}

void digest_exchange_tell(struct ensemble *e)
{
    uint64_t index;
    uint64_t digest;
    if (e->role == REPLICATION_LEADER && digest_check_newest(&e->agreement, &index, &digest)) {
        tell_all(e, index, digest);
    }
}
