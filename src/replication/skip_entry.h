/*
 * The way past an entry that ends every server that applies it. Two halves that need nothing of each other.
 *
 * Suspects. After a run that did not end cleanly, the file `applying` in the data folder holds the index of the entry
 * that is being applied, until all that the log held at the start is applied; a run that ends in between leaves it there.
 * The next start names that entry. It costs a write without a sync for each entry that such a start applies, and nothing
 * later.
 *
 * Skipping. An operator names an entry to a majority of the voters (options.skip). They do not apply it but wait before it,
 * and tell their leader its index, term and checksum. When a majority of the voters waits before the same entry, the
 * leader puts the decision into the log: a barrier with a payload. Every member that knows a decision waits before the
 * entry until the decision is committed, and then passes it over; who joins or comes back later finds it in the log as
 * well. Members tell the decisions that they have to everyone they are linked with, before anything else, since the
 * log may bring them the entry before the decision.
 *
 *   before the entry: a decision is committed ──> passed over
 *                     a decision is known, or options.skip names the entry ──> waits
 *                     else ──> applied
 *
 * A member that could apply the entry before it knew has another state than the others. The comparison of digests
 * (agreement.h) finds that, and it reads its folder again, with the decision.
 */
#ifndef REPLICATION_SKIP_ENTRY_H
#define REPLICATION_SKIP_ENTRY_H

#include "base/slice.h"
#include "replication/disk/configuration.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct journal_contents;
struct log_message;
struct error_text;
struct replication;

/* Which entry. */
struct skip_entry {
    uint64_t index;
    uint64_t term;
    uint32_t hash; /* entry_table_hash of its payload */
};

enum { SKIP_DECISIONS = 64 };

struct entry_skip {
    bool any;        /* there is something to look at before an entry is applied */
    uint64_t wanted; /* the index that the operator named, 0: none */
    bool waits;      /* applying has come to `held` */
    struct skip_entry held;
    int64_t next_ms; /* when skip_entry_turn votes or decides next */
    struct {
        struct skip_entry entry;
        uint64_t at; /* index of the decision */
    } decided[SKIP_DECISIONS];
    size_t n_decided;
    struct {
        uint64_t index; /* of the entry */
        uint64_t at;    /* of the decision, in the log of the member that told it */
    } told[SKIP_DECISIONS];
    size_t n_told;
    struct {
        uint64_t member;
        struct skip_entry entry;
        int64_t heard_ms;
    } votes[MEMBERS_MAX];
    size_t n_votes;

    bool watching;        /* `applying` is written */
    uint64_t watch_until; /* index of the log's last entry at the start */
    uint64_t suspect;     /* index that the last run ended at, 0: none */
    uint32_t deaths;      /* how many runs in a row did */
    int marker;           /* the open file, -1: none */
};

/* Reads the decisions of a log that was recovered, and what the last run left; tells both. clean: that one ended cleanly. */
int skip_entry_recover(struct replication *r, const struct journal_contents *c,
                       bool clean) CONCLAVE_MUST_USE;
void skip_entry_finish(struct replication *r);

/* A barrier with a payload was appended; entries from index on are gone. */
void skip_entry_noted(struct replication *r, uint64_t at, struct slice payload);
void skip_entry_truncated(struct replication *r, uint64_t index);

enum skip_entry_verdict { SKIP_APPLY, SKIP_WAIT, SKIP_PASS };

/* How to treat a log entry that holds a command. */
enum skip_entry_verdict skip_entry_judge(const struct replication *r,
                                         const struct skip_entry *entry);

/* Applying waits before this entry. */
void skip_entry_wait(struct replication *r, const struct skip_entry *entry);

/* An entry is about to be applied; it was. */
void skip_entry_watch(struct replication *r, uint64_t index);
void skip_entry_applied(struct replication *r);

/* A link came up; a note of another member came. */
void skip_entry_link(struct replication *r, uint64_t peer);
void skip_entry_receive(struct replication *r, uint64_t from, const struct log_message *m);

/* Tells the leader, or decides. */
void skip_entry_turn(struct replication *r);
int64_t skip_entry_deadline(const struct replication *r);

#endif
