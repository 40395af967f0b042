/*
 * Frames of channel 1, between the logs of two members; big-endian. The first byte is the kind.
 *
 *   ENGINE    engine kind u8, term u64, then by engine kind:
 *               append         prev index u64, prev term u64, commit u64, count u32,
 *                              count × {term u64, kind u32, length u32, payload}
 *               append result  rejected u64, last index u64, features u16, capacity u16
 *               vote           candidate u64, last index u64, last term u64, flags u8
 *                              (1: disrupt, 2: pre-vote)
 *               vote result    flags u8 (1: granted, 2: pre-vote), features u16, capacity u16
 *               install        never sent: OFFER and CHUNK replace it
 *               timeout now    last index u64, last term u64
 *   OFFER     term u64, snapshot {index u64, term u64, configuration index u64}, size u64,
 *             identity u64: the sender leads and has this file for the receiver
 *   CHUNK     identity u64, offset u64, checksum u64 of the bytes, length u32, bytes
 *   WANT      identity u64, offset u64, state u8: the receiver has the file up to offset
 *   the rest  id u64, term u64, index u64: see the kinds
 *
 * Decoding checks every length and allocates nothing: the result borrows from the frame. A frame with extra bytes at
 * the end is refused.
 */
#ifndef REPLICATION_RAFT_LOG_MESSAGES_H
#define REPLICATION_RAFT_LOG_MESSAGES_H

#include "base/buf.h"
#include "base/slice.h"
#include "replication/raft/engine.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stdint.h>

enum log_message_kind {
    MESSAGE_ENGINE = 1,
    MESSAGE_OFFER,
    MESSAGE_CHUNK,
    MESSAGE_WANT,
    MESSAGE_ROUND,    /* leader: is this still your term? id: number of the round */
    MESSAGE_ROUND_OK, /* answer: the member's term; same id */
    MESSAGE_READ,     /* follower: which index must I have applied? id: its ticket */
    MESSAGE_READ_OK,  /* answer: index; same id */
    MESSAGE_JOIN, /* a server that may have forgotten its promises asks to join. id: of its life */
    MESSAGE_JOIN_OK, /* answer: index; same id */
    MESSAGE_SKIP_VOTE, /* to the leader: I wait before the entry with index id, this term, and checksum index */
    MESSAGE_SKIP_DECIDED, /* the entry with index id will be skipped; index: that of the decision in my log */
};

struct log_message_offer {
    uint64_t term; /* the sender's */
    uint64_t index, snapshot_term, configuration_index;
    uint64_t size;     /* size of the file */
    uint64_t identity; /* identity of its content: equal files have equal identities */
};

struct log_message_chunk {
    uint64_t identity;
    uint64_t offset;
    uint64_t checksum; /* hash_bytes of the bytes */
    struct slice bytes;
};

enum log_message_want {
    WANT_MORE = 0,
    WANT_NOTHING = 1, /* the file is complete, or no longer needed */
    WANT_AGAIN = 2,   /* the received bytes were bad: offer the file again */
};

struct log_message_wanted {
    uint64_t identity;
    uint64_t offset;
    enum log_message_want state;
};

struct log_message_note {
    uint64_t id;
    uint64_t term;
    uint64_t index;
};

struct log_message {
    enum log_message_kind kind;
    struct slice entries; /* of an append: log_message_next_entry */
    union {
        struct engine_message engine; /* its peer is 0, because the frame does not contain it */
        struct log_message_offer offer;
        struct log_message_chunk chunk;
        struct log_message_wanted wanted;
        struct log_message_note note;
    };
};

/* All append to out, which records a failure. Of an append they write only the head: as many entries as its count must
 * follow. Not for ENGINE_INSTALL. */
void log_message_put_engine(struct buf *out, const struct engine_message *m);
void log_message_put_entry(struct buf *out, uint64_t term, uint32_t kind, struct slice payload);
void log_message_put_offer(struct buf *out, const struct log_message_offer *offer);
void log_message_put_chunk(struct buf *out, const struct log_message_chunk *chunk);
void log_message_put_wanted(struct buf *out, const struct log_message_wanted *wanted);
void log_message_put_note(struct buf *out, enum log_message_kind kind,
                          const struct log_message_note *note);

/* Bytes that an entry adds to a frame. */
static inline size_t log_message_entry_size(size_t payload)
{
    return 16 + payload;
}

/* 0 or CONCLAVE_EPROTO. Checks only the form: the engine checks the meaning. */
int log_message_decode(struct slice frame, struct log_message *ret) CONCLAVE_MUST_USE;

/* Takes the next entry of a decoded message; false: no more. */
bool log_message_next_entry(struct slice *entries, struct engine_entry *ret);

#endif
