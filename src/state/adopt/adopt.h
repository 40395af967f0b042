/*
 * Makes a state of what Apache ZooKeeper holds: the sessions, lists of permissions and nodes of a snapshot, in the order
 * in which it writes them, then the transactions that follow. Stats, counters of names, and ids stay as they are, so a
 * client that comes back finds what it left.
 *
 *   adoption_create → adoption_session..., adoption_acl..., adoption_node... (parents first) → adoption_nodes_end
 *     → adoption_apply... → adoption_end
 *
 * It trusts nothing. After an error the adoption is useless, and adoption_error says in words what is wrong.
 * Limits: counts of quotas are counted anew, as Apache does when it starts. Owners of ZooKeeper 3.5.3's TTL nodes
 * (zookeeper.emulate353TTLNodes) are taken for sessions.
 */
#ifndef STATE_ADOPT_ADOPT_H
#define STATE_ADOPT_ADOPT_H

#include "state/adopt/outcome.h"

struct adoption;

/* A node of a snapshot; borrows. */
struct adopted_node {
    struct slice path;            /* the root's is "" */
    struct wire_file_node record; /* acl: number in the snapshot's table, -1: the open list */
};

/* What the adoption met besides. */
struct adoption_report {
    size_t
        orphans; /* ephemeral nodes of sessions that do not exist: deleted, as Apache does when it starts */
    bool
        digest_compared; /* Apache's digest of the last transaction, or of the snapshot, was there and is equal */
};

/* The key as in state_create. NULL: out of memory. */
struct adoption *adoption_create(const struct hash_key *key);
void adoption_destroy(struct adoption *a);

/* 0, CONCLAVE_ENOMEM or CONCLAVE_ECORRUPT. */
int adoption_session(struct adoption *a, int64_t id, int32_t timeout_ms) CONCLAVE_MUST_USE;
int adoption_acl(struct adoption *a, int64_t number, struct wire_vector entries) CONCLAVE_MUST_USE;
int adoption_node(struct adoption *a, const struct adopted_node *node) CONCLAVE_MUST_USE;

/* All nodes have come; zxid: of the last transaction that the whole snapshot contains. */
int adoption_nodes_end(struct adoption *a, int64_t zxid) CONCLAVE_MUST_USE;

/* Applies the next transaction, whose zxid is above all before. */
int adoption_apply(struct adoption *a, const struct outcome *o) CONCLAVE_MUST_USE;

/* The zxid of the last transaction. */
int64_t adoption_zxid(const struct adoption *a);

/* Bytes of nodes and sessions so far, as state_memory. */
size_t adoption_memory(const struct adoption *a);

/* Checks the whole, and gives the state away. `digest`: what Apache noted for the tree with its zxid, or NULL; the last
 * transaction's own goes before it. crc: as for outcome_tree_digest. */
int adoption_end(struct adoption *a, const struct wire_file_digest *digest,
                 uint32_t (*crc)(uint32_t before, struct slice bytes), struct adoption_report *ret,
                 struct state **ret_state) CONCLAVE_MUST_USE;

/* What is wrong, after CONCLAVE_ECORRUPT; valid until adoption_destroy. */
const char *adoption_error(const struct adoption *a);

#endif
