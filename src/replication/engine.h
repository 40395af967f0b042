/*
 * libraft behind plain types: engine.c is the only file that includes raft.h. The engine
 * decides, in memory; whoever calls it carries out what a step's result says, in this order:
 * persist term and vote, start the write of the new entries, send messages, apply up to the commit
 * index.
 *
 * Who owns what, as read in libraft 0.22.1 (v1 interface, raft_init without io):
 * - RAFT_SUBMIT: the array and the payloads stay the caller's, on success and on failure. The
 *   update's entries.batch is the caller's own array. The engine keeps indexes and terms (its
 *   trail), never bytes, so both may go as soon as raft_step has returned; entries[0].batch must
 *   merely not be NULL. A payload of RAFT_CHANGE is decoded at once.
 * - A barrier that the engine makes itself (several voters) comes in the update; its buffer was
 *   allocated by the engine and belongs to whoever handles the update (raft_free).
 * - RAFT_START: entries stay the caller's when the step succeeds. When it fails the engine has
 *   freed the array and each entry's batch, unless it failed while electing itself. Here one batch
 *   serves all entries, from raft_malloc, and a failed start leaks it rather than free it twice:
 *   the process is about to end.
 * - Snapshot metadata in RAFT_START and RAFT_SNAPSHOT: the configuration's memory passes to the
 *   engine. The same for the configuration of RAFT_CONFIGURATION.
 * - messages.batch belongs to the engine and is valid until the next step.
 *
 * Other facts: a single voter makes itself leader inside RAFT_START, without a new term, and all
 * its stored entries are
 * then committed; RAFT_PERSISTED_ENTRIES must name an index above the last one persisted;
 * RAFT_SNAPSHOT one that differs from the last snapshot's; without a snapshot the log begins at
 * index 1 with a configuration.
 */
#ifndef REPLICATION_ENGINE_H
#define REPLICATION_ENGINE_H

#include "base/buf.h"
#include "base/slice.h"
#include "replication/snapshot_file.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stdint.h>

struct engine;

/* What a step asks for. */
struct engine_result {
    bool vote_changed;    /* persist term and voted_for before anything else of this result */
    uint64_t first_index; /* new entries to persist begin here; 0: none */
    uint32_t count;       /* of them */
    unsigned messages;    /* to be sent; always 0 with one voter */
};

/* An entry as told at the start; payload only for ENTRY_CONFIGURATION. */
struct engine_entry {
    uint64_t term;
    uint32_t kind;
    struct slice payload;
};

struct engine_start {
    uint64_t term;
    uint64_t voted_for;
    const struct snapshot_meta *snapshot; /* or NULL */
    uint64_t first_index;                 /* of entries */
    size_t count;
    void (*entry)(void *ctx, size_t i,
                  struct engine_entry *ret); /* asked for each, once, in order */
    void *ctx;
};

/* NULL when memory is out. */
struct engine *engine_create(uint64_t server_id);
void engine_destroy(struct engine *e);

/* All of these: 0, CONCLAVE_EBUSY (not the leader), CONCLAVE_ENOMEM, CONCLAVE_ECORRUPT or
 * CONCLAVE_SYSTEM_ERROR. */
int engine_start(struct engine *e, int64_t now_ms, const struct engine_start *start,
                 struct engine_result *ret) CONCLAVE_MUST_USE;
int engine_submit(struct engine *e, int64_t now_ms, uint32_t kind, struct slice payload,
                  struct engine_result *ret) CONCLAVE_MUST_USE;
int engine_persisted(struct engine *e, int64_t now_ms, uint64_t index,
                     struct engine_result *ret) CONCLAVE_MUST_USE;
int engine_configuration(struct engine *e, int64_t now_ms, uint64_t index,
                         struct slice configuration, struct engine_result *ret) CONCLAVE_MUST_USE;
int engine_snapshot(struct engine *e, int64_t now_ms, const struct snapshot_meta *meta,
                    uint64_t trailing, struct engine_result *ret) CONCLAVE_MUST_USE;
int engine_timeout(struct engine *e, int64_t now_ms, struct engine_result *ret) CONCLAVE_MUST_USE;

uint64_t engine_term(const struct engine *e);
uint64_t engine_voted_for(const struct engine *e);
uint64_t engine_commit_index(const struct engine *e);
bool engine_is_leader(const struct engine *e);
bool engine_is_candidate(const struct engine *e);
int64_t engine_next_timeout_ms(const struct engine *e); /* on the clock of now_ms */

/* A configuration of one voter, encoded. 0 or CONCLAVE_ENOMEM. */
int engine_encode_single(uint64_t server_id, struct buf *out) CONCLAVE_MUST_USE;

/* 1 when the server is the only voter of the encoded configuration, 0 when not, or
 * CONCLAVE_ECORRUPT. */
int engine_is_single(struct slice configuration, uint64_t server_id) CONCLAVE_MUST_USE;

#endif
