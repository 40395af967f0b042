/*
 * libraft behind plain types: only the engine's files include raft.h. The engine decides, in memory; its caller carries
 * out the result of each step, in this order: persist term and vote, start the write of the new entries, send messages,
 * apply up to the commit index. The engine has no clock, no randomness and no I/O.
 *
 * Ownership, as found in the source of libraft 0.22.1 (v1 interface, raft_init without io):
 * - The engine keeps indexes and terms (its trail), but no bytes. RAFT_SUBMIT: array and payloads
 *   stay the caller's, on success and failure; entries[0].batch must not be NULL.
 * - A barrier that libraft makes itself comes in the update; its 8 bytes are freed here.
 * - RAFT_START: entries stay the caller's if the step succeeds; after a failure they may or may not be freed, so they
 *   are leaked. Out of memory it may free a configuration twice; the caller cannot prevent that.
 * - Configurations in snapshot metadata and in RAFT_CONFIGURATION pass to libraft.
 * - AppendEntries with entries: libraft owns entries[0].batch on every path except the one that asks to persist them;
 *   there the caller does. The array stays the caller's.
 * - InstallSnapshot: a second one during the first leaks its content, so it carries none here (no configuration, no
 *   data): the caller keeps both.
 * - update.messages belongs to libraft until the next step. If enlarging that array fails, a batch is freed twice, so
 *   the array is enlarged here before each step.
 * - After a step that ran out of memory, some states cannot even be closed: the engine then refuses every call, and
 *   destroying it leaks.
 *
 * Input that would make libraft assert or fail silently, and that is caught here:
 * - time that goes back: the engine keeps the newest time;
 * - messages of its own term to a leader; vote results to a server that is not a candidate (it reads the wrong member
 *   of a union); granted pre-votes of a later term; anything from itself, from id 0, with term 0; terms of entries that
 *   are 0, decrease, or exceed the message's; prev_term 0 with a prev_index; configurations that do not decode (its
 *   decoder does not check lengths);
 * - an append that begins before its trail: it takes trimmed entries for new ones, or refuses them forever, or moves
 *   the commit index back. Entries that are committed here are cut off the front of every append;
 * - a configuration inside an append: 0.22.1 records it under the index of the first new entry, so it would count as
 *   committed too early. Such an append is fed in several steps;
 * - a rejection before the index that the member had acknowledged (its disk was wiped): the leader asserts. The
 *   acknowledgement is removed first;
 * - a rejection of another index than that of the snapshot that is being sent: libraft ignores it, so a leader that has
 *   made the next snapshot would wait for its install timeout. The member is asked about the snapshot that was sent;
 * - an election timeout of a member whose vote an uncommitted entry takes away: libraft never lets it become a
 *   candidate, although no other member may be able to win; see engine_stand;
 * - RAFT_PERSISTED_ENTRIES up to an index that was persisted before, or is not in the trail any more, or while a
 *   snapshot is being installed: dropped. For writes that a truncation overtook see engine_persisted;
 * - RAFT_SNAPSHOT not newer than the newest snapshot: dropped;
 * - RAFT_CATCH_UP of unknown members, of voters, or of a second member: refused. For a member that has everything
 *   libraft would wait forever: finished at once;
 * - a change of more than one member, or before an entry of the leader's term is committed (libraft does not check):
 *   refused.
 * While a snapshot is being installed, appends are only heartbeats. In libraft the leader's id survives a new term;
 * engine_leader does not report it. Some fields of replies to a stale leader were never set in libraft; here they are
 * 0.
 *
 * Other facts. Without a snapshot the log begins at index 1 with a configuration. A sole voter makes itself leader,
 * inside RAFT_START or when the leader is silent, and then all its stored entries are committed; libraft gives it no
 * new term. Here it gets one (result.vote_changed), because there may be a leader of the old term, unless it always was
 * alone; and its entries must be on its disk before it sends them, or a crash could put another entry in the same place
 * and term (engine_appends_wait). A new leader of several voters always adds a barrier (result.barrier). Followers
 * learn the commit index only with the next append or heartbeat: engine_announce. A configuration counts as committed
 * as soon as the commit index has passed it.
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

/* A message between members. The entries of an append are named by index: the caller keeps their bytes. */
struct engine_message {
    enum engine_kind kind;
    uint64_t peer; /* the receiver, or the sender */
    uint64_t term; /* the sender's */
    union {
        struct {
            uint64_t prev_index, prev_term, commit;
            uint64_t first_index; /* prev_index + 1 */
            uint32_t count;
        } append;
        struct {
            uint64_t rejected; /* the prev_index that did not match, or 0 */
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
            uint64_t index, term, configuration_index; /* the snapshot */
        } install;
        struct {
            uint64_t last_index, last_term;
        } timeout_now;
    };
};

/* The work that a step asks for. */
struct engine_result {
    bool vote_changed;       /* persist term and voted_for before anything else of this result */
    uint64_t first_index;    /* new entries to persist begin here; 0: none */
    uint32_t count;          /* number of new entries */
    uint64_t truncated_from; /* the new entries replace the trail from here on; 0: no */
    bool barrier; /* the last new entry is a barrier without payload that the engine added */
    bool
        install; /* the engine wants the snapshot of the ENGINE_INSTALL: restore, then engine_installed */
    bool commit_moved;
    unsigned messages; /* number of messages to send: engine_message */
};

/* An entry given at the start or received; only an ENTRY_CONFIGURATION needs its payload. */
struct engine_entry {
    uint64_t term;
    uint32_t kind;
    struct slice payload;
};

struct engine_start {
    uint64_t term;
    uint64_t voted_for;
    const struct snapshot_meta *snapshot; /* or NULL */
    uint64_t first_index;                 /* index of the first entry */
    size_t count;
    void (*entry)(void *ctx, size_t i,
                  struct engine_entry *ret); /* called once for each, in order */
    void *ctx;
};

/* NULL: out of memory. Before the start set seed and timeouts. */
struct engine *engine_create(uint64_t server_id);
void engine_destroy(struct engine *e);
void engine_seed(struct engine *e, unsigned seed);
void engine_set_timeouts(struct engine *e, unsigned election_ms, unsigned heartbeat_ms,
                         unsigned install_ms);
void engine_set_max_inflight(struct engine *e, unsigned entries);

/* While false, the server gives no vote, is no candidate and takes over no leadership: for a server that lost its disk
 * and may have promised otherwise. Initially true. */
void engine_set_voting(struct engine *e, bool voting);

/* Events. All return 0, CONCLAVE_EBUSY (not the leader, or not now), CONCLAVE_EINVAL, CONCLAVE_ENOMEM (then all later
 * calls fail), CONCLAVE_ECORRUPT (this server's log contradicts committed entries: stop) or CONCLAVE_SYSTEM_ERROR. ret
 * is set only on success. */
int engine_start(struct engine *e, int64_t now_ms, const struct engine_start *start,
                 struct engine_result *ret) CONCLAVE_MUST_USE;
/* Submits an entry; the caller keeps its bytes. A configuration must differ from the current one in one member. */
int engine_submit(struct engine *e, int64_t now_ms, uint32_t kind, struct slice payload,
                  struct engine_result *ret) CONCLAVE_MUST_USE;
/* CONCLAVE_EPROTO: a malformed message; nothing has changed. entries: the n entries of an append (n equals its count),
 * borrowed. */
int engine_receive(struct engine *e, int64_t now_ms, const struct engine_message *message,
                   const struct engine_entry *entries, size_t n,
                   struct engine_result *ret) CONCLAVE_MUST_USE;
/* All entries up to index are durable. If a truncation overtook the write and replaced its entries, report only entries
 * that are still there: compare engine_term_at with the terms that were written. */
int engine_persisted(struct engine *e, int64_t now_ms, uint64_t index,
                     struct engine_result *ret) CONCLAVE_MUST_USE;
/* May be called when a configuration is applied; the engine also notices by itself. */
int engine_configuration(struct engine *e, int64_t now_ms, uint64_t index,
                         struct slice configuration, struct engine_result *ret) CONCLAVE_MUST_USE;
/* A snapshot of this server's own state is durable; forgets the entries before it, except `trailing` ones. */
int engine_snapshot(struct engine *e, int64_t now_ms, const struct snapshot_meta *meta,
                    uint64_t trailing, struct engine_result *ret) CONCLAVE_MUST_USE;
/* The snapshot that result.install asked for is in place, and the log begins anew after it. */
int engine_installed(struct engine *e, int64_t now_ms, const struct snapshot_meta *meta,
                     struct engine_result *ret) CONCLAVE_MUST_USE;
int engine_timeout(struct engine *e, int64_t now_ms, struct engine_result *ret) CONCLAVE_MUST_USE;
/* Leader: hands over to a voter; 0: to the most suitable one. Refuses submissions until that is done or an election
 * timeout has passed. */
int engine_transfer(struct engine *e, int64_t now_ms, uint64_t id,
                    struct engine_result *ret) CONCLAVE_MUST_USE;
/* Leader: begins to watch an observer or spare catch up, before it becomes a voter. */
int engine_catch_up(struct engine *e, int64_t now_ms, uint64_t id,
                    struct engine_result *ret) CONCLAVE_MUST_USE;
/* Leader: sends messages to members that do not know the current commit index. */
int engine_announce(struct engine *e, int64_t now_ms, struct engine_result *ret) CONCLAVE_MUST_USE;

/* Message i < result.messages of the last successful event; valid until the next. */
void engine_message(const struct engine *e, unsigned i, struct engine_message *ret);

/* The link to the leader broke: as a follower, waits only ms to twice ms from now before it becomes a candidate, until
 * a leader is heard or elected; each further round takes twice as long. */
void engine_hasten(struct engine *e, int64_t now_ms, unsigned ms);

/* State. */
uint64_t engine_term(const struct engine *e);
uint64_t engine_voted_for(const struct engine *e);
uint64_t engine_commit_index(const struct engine *e);
uint64_t engine_last_index(const struct engine *e);
uint64_t engine_stored(const struct engine *e); /* last index given to engine_persisted */
uint64_t engine_term_at(const struct engine *e, uint64_t index); /* 0: not in the trail */
bool engine_is_leader(const struct engine *e);
bool engine_is_candidate(const struct engine *e);
bool engine_transferring(const struct engine *e);
uint64_t engine_leader(const struct engine *e); /* of this term, or 0 */
bool engine_is_voter(const struct engine *e, uint64_t id);
int64_t engine_next_timeout_ms(const struct engine *e); /* on the clock of now_ms */
/* Whether appends may leave only after this server's own write of their entries is durable. */
bool engine_appends_wait(const struct engine *e);
/* The newest entry that the leader knows a member to have; 0 for others. */
uint64_t engine_match_index(const struct engine *e, uint64_t id);

enum engine_catch_up { CATCH_UP_NONE, CATCH_UP_RUNNING, CATCH_UP_ABORTED, CATCH_UP_FINISHED };
enum engine_catch_up engine_catch_up_status(const struct engine *e, uint64_t id);

/* Appends the current configuration, committed or not. 0 or CONCLAVE_ENOMEM. */
int engine_members(const struct engine *e, struct buf *out) CONCLAVE_MUST_USE;

/* Encodes a configuration of one voter. 0 or CONCLAVE_ENOMEM. */
int engine_encode_single(uint64_t server_id, struct buf *out) CONCLAVE_MUST_USE;

#endif
