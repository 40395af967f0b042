/*
 * Transactions of Apache ZooKeeper: what its leader decided, as its log and its stream to followers have it. Applying
 * one needs no decision: it says which nodes and sessions are as they are now.
 *
 * A transaction may find its effect, or that of later ones, in the state already, because Apache writes a snapshot
 * while the tree changes. It is then applied as Apache's DataTree does when it loads such a snapshot, so that both come
 * to the same tree.
 */
#ifndef STATE_ADOPT_OUTCOME_H
#define STATE_ADOPT_OUTCOME_H

#include "state/state.h"

/* One transaction; record borrows. */
struct outcome {
    struct wire_txn_header header;
    struct slice record;           /* what belongs to the header's type */
    bool has_digest;               /* Apache 3.6 and later */
    struct wire_txn_digest digest; /* of Apache's tree after it */
};

/* The first of the last 256 epochs: enough remain for everything that follows. No ZooKeeper gets there. */
#define OUTCOME_ZXID_MAX (INT64_MAX - (1LL << 40))

/* Takes a transaction apart and checks all of it, so that outcome_apply needs no memory but that of the change. 0, or
 * CONCLAVE_ECORRUPT: it cannot be read, or has a type or a value that no Apache server writes. */
int outcome_read(struct slice bytes, struct outcome *ret) CONCLAVE_MUST_USE;

/* Applies a transaction that outcome_read has read, and sets the zxid to its own. 0, or CONCLAVE_ECORRUPT: a node below
 * an ephemeral one, or a session id that cannot be one; then the state is useless. If memory runs out, the process
 * ends, as in state_apply. */
int outcome_apply(struct state *s, const struct outcome *o,
                  struct effects *effects) CONCLAVE_MUST_USE;

/* Apache's number over the tree, version 2: the sum of the CRC-32 of each node outside /zookeeper. `crc` computes a
 * CRC-32 (IEEE 802.3) from the one of the bytes before. */
enum { OUTCOME_DIGEST_VERSION = 2 };
uint64_t outcome_tree_digest(const struct state *s,
                             uint32_t (*crc)(uint32_t before, struct slice bytes));

/* The password of every session of Apache ZooKeeper: it follows from the id. */
void outcome_password(int64_t session_id, uint8_t ret[WIRE_PASSWD_LEN]);

#endif
