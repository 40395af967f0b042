/*
 * A mirror: a state that follows an Apache ZooKeeper, the source. While it does, only the source's transactions change it,
 * with the source's zxids and times; every other command is refused without a zxid. The flag is part of the state, so all
 * servers know it at the same place of the log.
 *
 *   MIRROR_BEGIN → (not synced) → a replacement with REPLACEMENT_MIRRORS and its id → (synced) → MIRROR_TRANSACTION ...
 *     → MIRROR_END with the zxid for which it is proved that nothing is missing → a state like any other
 *
 * A transaction says which zxid it follows. One that the state has already changes nothing, and so does one that leaves a gap:
 * whoever proposes them looks at the state's zxid.
 */
#ifndef STATE_MIRROR_H
#define STATE_MIRROR_H

#include "state/state.h"

enum { MIRROR_SOURCE_MAX = 1024 };

struct state_mirror {
    int64_t id;          /* of this following; not 0 */
    struct slice source; /* "host:port,host:port"; borrowed until the state changes */
    bool any_reader;     /* serves clients that did not ask for a read-only server, too */
    bool synced; /* the state is the source's at its zxid; false: it must be replaced first */
};

/* False: the state is no mirror. */
bool state_mirror(const struct state *s, struct state_mirror *ret);

/* Whether there are no nodes but those that servers make, so that a mirror would replace nothing. */
bool state_is_empty(const struct state *s);

/* The body of MIRROR_BEGIN (`synced` does not count; replace: nodes that are there may go), and of MIRROR_END. Errors of the
 * commands: CONCLAVE_BAD_ARGUMENTS: malformed; CONCLAVE_NODE_EXISTS: it is a mirror already; CONCLAVE_NOT_EMPTY: there are nodes;
 * CONCLAVE_NO_NODE: it is no mirror, or another mirror; CONCLAVE_BAD_VERSION: MIRROR_END expects another zxid. */
void mirror_begin_encode(struct buf *out, const struct state_mirror *m, bool replace);
void mirror_end_encode(struct buf *out, int64_t id, int64_t expected_zxid);

/* The body of MIRROR_TRANSACTION: bytes as the source sends them. Decoding gives 0 or CONCLAVE_MARSHALLING_ERROR. */
struct mirror_transaction {
    int64_t id;            /* of the mirror */
    int64_t previous_zxid; /* of the transaction before; 0: the first of all */
    struct slice bytes;
};
void mirror_transaction_encode(struct buf *out, const struct mirror_transaction *t);
int mirror_transaction_decode(struct slice body, struct mirror_transaction *ret) CONCLAVE_MUST_USE;

/* Prepares a state of the source to replace `before`, the mirror. Its zxid stays, also if it is lower; the admitted batches,
 * the members and the mirror go on. 0, CONCLAVE_NO_NODE (`before` is no mirror with this id), CONCLAVE_ENOMEM. */
int state_mirror_succeed(struct state *s, const struct state *before, int64_t id) CONCLAVE_MUST_USE;

#endif
