/*
 * The log entry after which the state is that of a snapshot. A snapshot comes in pieces, one entry each, so that no entry
 * is large: every server keeps them until the last one, and the state changes then.
 *
 * Big-endian: version i8 (5), origin i64, id i64, number i32 (from 0), flags i8 (enum replacement_flags), bytes. All bytes
 * of one id together are those from state_snapshot_step. Version 3, in older logs, has the whole snapshot behind version,
 * origin and id; it is read but never written.
 */
#ifndef STATE_ENTRY_REPLACEMENT_H
#define STATE_ENTRY_REPLACEMENT_H

#include "base/buf.h"

#include <conclave/error.h>

enum replacement_flags {
    REPLACEMENT_LAST = 1,    /* the snapshot is complete with this piece */
    REPLACEMENT_MIRRORS = 2, /* it is the source's of the mirror with this id: see state/mirror.h */
    REPLACEMENT_GIVEN_UP = 4, /* no further piece will come: forget those before */
};

struct replacement {
    int64_t origin; /* server id of the server that proposed it */
    int64_t id;     /* id of the replacement on that server, or of the mirror */
    int32_t number;
    uint8_t flags; /* enum replacement_flags */
    struct slice bytes;
};

/* Appends the head of a piece; append its bytes after it. */
void replacement_begin(struct buf *b, const struct replacement *piece);

/* Whether a log entry is a replacement, not a batch. */
bool replacement_is(struct slice entry);

/* 0 or CONCLAVE_ECORRUPT; borrows. */
int replacement_open(struct slice entry, struct replacement *ret) CONCLAVE_MUST_USE;

/* The pieces so far. */
struct replacement_pieces {
    int64_t origin;
    int64_t id; /* 0: none */
    int32_t next;
    struct buf bytes;
};
void replacement_pieces_init(struct replacement_pieces *p);
void replacement_pieces_finish(struct replacement_pieces *p);

/* Takes the next piece. 1: the snapshot is complete, *ret_snapshot has it until replacement_pieces_forget; 0: it is not,
 * or the piece belongs to none that is under way, and nothing happens; CONCLAVE_ENOMEM. */
int replacement_pieces_take(struct replacement_pieces *p, const struct replacement *piece,
                            struct slice *ret_snapshot) CONCLAVE_MUST_USE;
void replacement_pieces_forget(struct replacement_pieces *p);

#endif
