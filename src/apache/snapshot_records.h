/*
 * The records of a snapshot of Apache ZooKeeper, in the order in which files and the stream to a learner have them: sessions,
 * lists of permissions, nodes. Each goes to the taker as soon as it is complete.
 */
#ifndef APACHE_SNAPSHOT_RECORDS_H
#define APACHE_SNAPSHOT_RECORDS_H

#include "state/adopt/adopt.h"

/* Who gets what a snapshot holds, in its order. Each returns 0 to go on, CONCLAVE_ECORRUPT with words in `problem`, or another
 * error. */
struct apache_snapshot_taker {
    void *ctx;
    int (*session)(void *ctx, int64_t id, int32_t timeout_ms);
    int (*acl)(void *ctx, int64_t number, struct wire_vector entries);
    int (*node)(void *ctx, const struct adopted_node *node);
    int (*nodes_end)(void *ctx, int64_t zxid);
    const char *(*problem)(void *ctx);
};

/* Gives all to the adoption. */
struct apache_snapshot_taker apache_adoption_taker(struct adoption *a);

enum snapshot_phase {
    SNAPSHOT_SESSION_COUNT,
    SNAPSHOT_SESSIONS,
    SNAPSHOT_ACL_COUNT,
    SNAPSHOT_ACLS,
    SNAPSHOT_NODES,
    SNAPSHOT_COMPLETE,
};

struct snapshot_records {
    struct apache_snapshot_taker to;
    int64_t zxid; /* of the last transaction that the whole snapshot contains */
    enum snapshot_phase phase;
    int32_t left;    /* records of the phase */
    int error;       /* the taker's answer to the last record */
    const char *why; /* what is wrong with it; NULL: see error */
};

void snapshot_records_init(struct snapshot_records *x, const struct apache_snapshot_taker *to,
                           int64_t zxid);

/* Reads the next record, and gives it to the taker. 0: taken, look at error and phase; else: the bytes do not contain the
 * whole record. Its type is that of apache_decode; x is the struct. */
int snapshot_records_decode(struct wire_reader *r, void *x);

/* What the next record is, for errors. */
const char *snapshot_records_next(const struct snapshot_records *x);

/* A digest as files and streams have it. */
int snapshot_digest_decode(struct wire_reader *r, void *ret); /* struct wire_file_digest */

#endif
