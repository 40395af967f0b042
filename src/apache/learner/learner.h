/*
 * The protocol by which a leader of Apache ZooKeeper (3.5 to 3.9) keeps an observer up to date, from the observer's side,
 * without I/O. The leader accepts a server id that is in no configuration. Sources: Learner, Observer, LearnerHandler.
 *
 *   OBSERVERINFO → LEADERINFO → ACKEPOCH → DIFF | TRUNC | SNAP and the whole state → PROPOSAL, COMMIT, INFORM ...
 *     → NEWLEADER → ACK → INFORM ... → UPTODATE → ACK → INFORM, PING ...
 *
 * A packet is: type i32, zxid i64, data buffer, vector of ids; nothing says how long it is. What the caller gets:
 *
 *   last_zxid 0        `state`: the whole, made from a SNAP, or from a DIFF that begins with an empty tree; then transactions
 *   another last_zxid  the transactions behind it; or `state` and transactions, when the leader has nothing older any more
 *
 * A leader that asks to cut off what the caller has (TRUNC), or that goes on elsewhere than the caller ends, is an error:
 * begin again with last_zxid 0. Limits: a packet of PACKET_MAX bytes, PACKET_MAX bytes of proposals
 * without a commit, data_max bytes of a whole state, and OUT_MAX bytes of answers that the leader does not read.
 */
#ifndef APACHE_LEARNER_LEARNER_H
#define APACHE_LEARNER_LEARNER_H

#include "base/hash.h"
#include "state/state.h"

enum { LEARNER_PACKET_MAX = 64 << 20, LEARNER_OUT_MAX = 1 << 20 };

struct learner;

struct learner_options {
    int64_t server_id; /* in no configuration of the source */
    int64_t
        last_zxid; /* of the last transaction that the caller has; 0: it wants the whole state */
    const struct hash_key *key;
    size_t data_max; /* bytes of a whole state, as adoption_memory; 0: any */
};

/* An error of a callback ends the learner. */
struct learner_callbacks {
    void *ctx;

    /* The whole state at its zxid, which the callback takes over; it replaces what the caller has. */
    int (*state)(void *ctx, struct state *state_take);

    /* The next committed transaction: header, record and digest. CONCLAVE_EBUSY: not now, offer it again with the next
     * input. */
    int (*transaction)(void *ctx, int64_t previous_zxid, int64_t zxid, struct slice bytes);

    /* From now on the transactions are those that the source commits. */
    void (*live)(void *ctx);

    /* The newest zxid that the source named. */
    void (*seen)(void *ctx, int64_t zxid);

    /* The transaction of learner_barrier has come. */
    void (*barrier)(void *ctx, int64_t zxid);
};

/* Its first packet is in learner_out. NULL: out of memory. */
struct learner *learner_create(const struct learner_options *options,
                               const struct learner_callbacks *callbacks);
void learner_destroy(struct learner *l);

/* Takes bytes from the front, and says how many in *ret_taken; the rest is to be offered again with what follows. 0;
 * CONCLAVE_EBUSY: as a callback said; CONCLAVE_EPROTO, CONCLAVE_ECORRUPT, CONCLAVE_ECLOSED (with learner_must_restart: begin anew with last_zxid 0) or a
 * callback's error: the end, see learner_problem. */
int learner_input(struct learner *l, struct slice bytes, size_t *ret_taken) CONCLAVE_MUST_USE;

/* Bytes for the leader: send and empty it. */
struct buf *learner_out(struct learner *l);

/* Asks the leader for a transaction that changes nothing (the end of a session that does not exist): everything that was
 * committed before comes first. Only when live. 0 or CONCLAVE_ENOMEM. */
int learner_barrier(struct learner *l) CONCLAVE_MUST_USE;

bool learner_is_live(const struct learner *l);

/* Whether the end came because the caller's state does not fit: it must begin with last_zxid 0. */
bool learner_must_restart(const struct learner *l);

/* What is wrong, one line; "": nothing. Valid until learner_destroy. */
const char *learner_problem(const struct learner *l);

#endif
