/*
 * libraft behind plain types: only the engine's files include raft.h. The engine decides, in
 * memory; whoever calls it carries out what a step's result says, in this order: persist term and
 * vote, start the write of the new entries, send messages, apply up to the commit index. It has no
 * clock, no randomness and no I/O.
 *
 * Who owns what, as read in libraft 0.22.1 (v1 interface, raft_init without io):
 * - The engine keeps indexes and terms (its trail), never bytes. RAFT_SUBMIT: array and payloads
 *   stay the caller's, on success and failure; entries[0].batch must merely not be NULL.
 * - A barrier that libraft makes itself comes in the update; its 8 bytes are freed here.
 * - RAFT_START: entries stay the caller's when the step succeeds; after a failure they are freed or
 *   not, depending on where it failed: they are leaked. Out of memory it may free a configuration
 *   twice: nothing can be done from outside.
 * - Configurations in snapshot metadata and in RAFT_CONFIGURATION pass to libraft.
 * - AppendEntries with entries: entries[0].batch is libraft's on every path but the one that asks
 *   for them to be persisted, where it is the caller's. The array stays the caller's.
 * - InstallSnapshot: a second one while one is under way leaks what it carries; so nothing is given
 *   with it (no configuration, no data): the caller has both.
 * - update.messages belongs to libraft until the next step; when enlarging that array fails, a batch
 *   is freed twice: so it is enlarged here, before each step.
 * - A step that fails for want of memory leaves states of which some cannot even be closed: the
 *   engine refuses all that follows, and destroying it then leaks.
 *
 * What libraft must never be fed (it asserts, or goes wrong without a word), guarded here:
 * - time that goes back: it is held;
 * - messages of its own term to a leader; vote results to a non-candidate (it reads another member
 *   of a union); granted pre-votes of a later term; anything from itself, from id 0, with term 0;
 *   terms of entries that are 0, fall, or are above the message's; prev_term 0 with a prev_index;
 *   configurations that do not decode (its decoder does not look at lengths);
 * - an append that begins below its trail: it takes entries that were trimmed for new ones, or
 *   refuses them for ever, or takes the commit index back. What is committed here is cut off the
 *   front of every append;
 * - a configuration in the midst of an append: 0.22.1 notes it under the index of the first new
 *   entry, so its commit would be seen too early. Such an append is fed in several steps;
 * - a rejection below what the member had acknowledged (its disk was wiped): the leader asserts.
 *   The acknowledgement is forgotten first;
 * - a rejection of another index than that of the snapshot that is being sent is ignored, so a leader that has
 *   made the next snapshot would wait for its install timeout: the member is asked about the one that was sent;
 * - an election timeout of a member whose vote an uncommitted entry takes away: libraft never lets it stand, though nobody
 *   else may be able to win; see engine_stand;
 * - RAFT_PERSISTED_ENTRIES for what is not above the last one persisted, not in the trail any more,
 *   or while a snapshot is being installed: dropped. Writes that a truncation overtook: see
 *   engine_persisted;
 * - RAFT_SNAPSHOT at or below the newest snapshot: dropped;
 * - RAFT_CATCH_UP of strangers, of voters, of a second member: refused. Of a member that has
 *   everything: libraft would wait for news that never comes; finished at once;
 * - a change of more than one member, or before an entry of the leader's term is committed
 *   (libraft does not look): refused.
 * While a snapshot is being installed appends are only signs of life. The leader's id survives a new
 * term in libraft; engine_leader does not tell it. Replies to a stale leader have fields that were
 * never set; they are 0 here.
 *
 * Other facts. Without a snapshot the log begins at index 1 with a configuration. A sole voter makes
 * itself leader, inside RAFT_START or when the leader is silent, and all its stored entries are then
 * committed; libraft takes no new term for it. Here it gets one (result.vote_changed), as there may be
 * a leader of the old one, unless it always was alone; and what it sends must be on its disk first,
 * or a crash could put another entry in the same place and term (engine_appends_wait). A new leader of several voters always adds a barrier
 * (result.barrier). Followers learn the commit index only with the next append or heartbeat:
 * engine_announce. A configuration counts as committed as soon as the commit index has passed it.
 */
#ifndef REPLICATION_RAFT_ENGINE_H
#define REPLICATION_RAFT_ENGINE_H

#include "base/buf.h"
#include "base/slice.h"
#include "replication/disk/snapshot_file.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stdint.h>

struct engine;

enum engine_kind {
    ENGINE_APPEND = 1,
    ENGINE_APPEND_RESULT,
    ENGINE_VOTE,
    ENGINE_VOTE_RESULT,
    ENGINE_INSTALL,
    ENGINE_TIMEOUT_NOW,
};

/* What members tell each other. Entries of an append are told by index: their bytes are the
 * caller's business. */
struct engine_message {
    enum engine_kind kind;
    uint64_t peer; /* whom it goes to, or who sent it */
    uint64_t term; /* the sender's */
    union {
        struct {
            uint64_t prev_index, prev_term, commit;
            uint64_t first_index; /* prev_index + 1 */
            uint32_t count;
        } append;
        struct {
            uint64_t rejected; /* the prev_index that did not fit, or 0 */
            uint64_t last_index;
            uint16_t features, capacity;
        } append_result;
        struct {
            uint64_t candidate, last_index, last_term;
            bool disrupt, pre_vote;
        } vote;
        struct {
            bool granted, pre_vote;
            uint16_t features, capacity;
        } vote_result;
        struct {
            uint64_t index, term, configuration_index; /* of the snapshot */
        } install;
        struct {
            uint64_t last_index, last_term;
        } timeout_now;
    };
};

/* What a step asks for. */
struct engine_result {
    bool vote_changed;       /* persist term and voted_for before anything else of this result */
    uint64_t first_index;    /* new entries to persist begin here; 0: none */
    uint32_t count;          /* of them */
    uint64_t truncated_from; /* they replace what the trail had from here on; 0: nothing */
    bool barrier; /* the last of them is a barrier without payload that the engine added */
    bool install; /* the snapshot of the ENGINE_INSTALL is wanted: restore, then engine_installed */
    bool commit_moved;
    unsigned messages; /* to be sent: engine_message */
};

/* An entry as told at the start or received; payload only of interest for ENTRY_CONFIGURATION. */
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

/* NULL when memory is out. Then, before the start: seed, timeouts. */
struct engine *engine_create(uint64_t server_id);
void engine_destroy(struct engine *e);
void engine_seed(struct engine *e, unsigned seed);
void engine_set_timeouts(struct engine *e, unsigned election_ms, unsigned heartbeat_ms,
                         unsigned install_ms);
void engine_set_max_inflight(struct engine *e, unsigned entries);

/* While false no vote is given, no candidacy begun and no transfer taken: for who lost the disk on
 * which it may have promised otherwise. True at first. */
void engine_set_voting(struct engine *e, bool voting);

/* Events. All: 0, CONCLAVE_EBUSY (not the leader, or not now), CONCLAVE_EINVAL, CONCLAVE_ENOMEM (and
 * all later calls fail), CONCLAVE_ECORRUPT (this server's log contradicts what is committed: stop)
 * or CONCLAVE_SYSTEM_ERROR. ret is set on success only. */
int engine_start(struct engine *e, int64_t now_ms, const struct engine_start *start,
                 struct engine_result *ret) CONCLAVE_MUST_USE;
/* The entry has no bytes here: the caller keeps them. A configuration must differ from the present
 * one in one member. */
int engine_submit(struct engine *e, int64_t now_ms, uint32_t kind, struct slice payload,
                  struct engine_result *ret) CONCLAVE_MUST_USE;
/* CONCLAVE_EPROTO: a message that no sound member sends; nothing was changed. entries: the n
 * entries of an append (n as in its count), borrowed. */
int engine_receive(struct engine *e, int64_t now_ms, const struct engine_message *message,
                   const struct engine_entry *entries, size_t n,
                   struct engine_result *ret) CONCLAVE_MUST_USE;
/* All entries up to index are durable. Of a write that was overtaken by a truncation (its entries
 * replaced by others) only what is still there may be told: compare engine_term_at with the terms
 * that were written. */
int engine_persisted(struct engine *e, int64_t now_ms, uint64_t index,
                     struct engine_result *ret) CONCLAVE_MUST_USE;
/* May be told when applied; the engine knows by itself. */
int engine_configuration(struct engine *e, int64_t now_ms, uint64_t index,
                         struct slice configuration, struct engine_result *ret) CONCLAVE_MUST_USE;
/* A snapshot of this server's own state is durable; entries behind it, save `trailing`, are
 * forgotten. */
int engine_snapshot(struct engine *e, int64_t now_ms, const struct snapshot_meta *meta,
                    uint64_t trailing, struct engine_result *ret) CONCLAVE_MUST_USE;
/* The snapshot that result.install asked for is in place and the log begins anew behind it. */
int engine_installed(struct engine *e, int64_t now_ms, const struct snapshot_meta *meta,
                     struct engine_result *ret) CONCLAVE_MUST_USE;
int engine_timeout(struct engine *e, int64_t now_ms, struct engine_result *ret) CONCLAVE_MUST_USE;
/* Leader: hands over to a voter, 0: to the most suitable one. Submissions are refused until it is
 * done or an election timeout has passed. */
int engine_transfer(struct engine *e, int64_t now_ms, uint64_t id,
                    struct engine_result *ret) CONCLAVE_MUST_USE;
/* Leader: begins to follow how an observer or spare catches up: before it is made a voter. */
int engine_catch_up(struct engine *e, int64_t now_ms, uint64_t id,
                    struct engine_result *ret) CONCLAVE_MUST_USE;
/* Leader: messages to those who have not been told the present commit index. */
int engine_announce(struct engine *e, int64_t now_ms, struct engine_result *ret) CONCLAVE_MUST_USE;

/* Message i < result.messages of the last successful event; valid until the next. */
void engine_message(const struct engine *e, unsigned i, struct engine_message *ret);

/* The link to the leader broke: as a follower, wait only ms to twice ms from now before candidacy,
 * until a leader is heard or elected; each further round takes twice as long. */
void engine_hasten(struct engine *e, int64_t now_ms, unsigned ms);

/* Facts. */
uint64_t engine_term(const struct engine *e);
uint64_t engine_voted_for(const struct engine *e);
uint64_t engine_commit_index(const struct engine *e);
uint64_t engine_last_index(const struct engine *e);
uint64_t engine_stored(const struct engine *e); /* last index told by engine_persisted */
uint64_t engine_term_at(const struct engine *e, uint64_t index); /* 0: not in the trail */
bool engine_is_leader(const struct engine *e);
bool engine_is_candidate(const struct engine *e);
bool engine_transferring(const struct engine *e);
uint64_t engine_leader(const struct engine *e); /* of this term, or 0 */
bool engine_is_voter(const struct engine *e, uint64_t id);
int64_t engine_next_timeout_ms(const struct engine *e); /* on the clock of now_ms */
/* Appends may leave only when this server's own write of their entries is durable. */
bool engine_appends_wait(const struct engine *e);
/* What the leader knows a member to have; 0 for others. */
uint64_t engine_match_index(const struct engine *e, uint64_t id);

enum engine_catch_up { CATCH_UP_NONE, CATCH_UP_RUNNING, CATCH_UP_ABORTED, CATCH_UP_FINISHED };
enum engine_catch_up engine_catch_up_status(const struct engine *e, uint64_t id);

/* Appends the present configuration, committed or not. 0 or CONCLAVE_ENOMEM. */
int engine_members(const struct engine *e, struct buf *out) CONCLAVE_MUST_USE;

/* A configuration of one voter, encoded. 0 or CONCLAVE_ENOMEM. */
int engine_encode_single(uint64_t server_id, struct buf *out) CONCLAVE_MUST_USE;

#endif
