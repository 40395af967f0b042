/*
 * Skips an entry that ends every server that applies it. It has two independent halves.
 *
 * Suspects. After a run that did not end cleanly, the file `applying` in the data folder holds the index of the entry
 * that is being applied, until everything that the log held at the start is applied. If the run ends before, the file
 * stays, and the next start names that entry. This costs one write without a sync for each entry that such a start
 * applies, and nothing later.
 *
 * Skipping. An operator names an entry to a majority of the voters (options.skip). They do not apply it, but wait
 * before it and tell their leader its index, term and checksum. When a majority of the voters waits before the same
 * entry, the leader puts the decision into the log: a barrier with a payload. Every member that knows a decision waits
 * before the entry until the decision is committed, and then skips it; a member that joins or returns later finds the
 * decision in the log, too. When a link comes up, members first tell each other their decisions, because the log may
 * bring the entry before the decision.
 *
 *   before the entry: a decision is committed ──────────────────────────> skipped
 *                     a decision is known, or options.skip names the entry ──> waits
 *                     otherwise ──> applied
 *
 * A member that could apply the entry before it knew the decision has another state than the others. The comparison of
 * digests (cluster/digest_check.h) finds that, and the member reads its folder again, with the decision.
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

/* Identifies an entry. */
struct skip_entry {
    uint64_t index;
    uint64_t term;
    uint32_t hash; /* entry_table_hash of its payload */
};

enum { SKIP_DECISIONS = 64 };

struct entry_skip {
    bool any;        /* decisions or wanted entries exist, so each entry must be checked */
    uint64_t wanted; /* the index that the operator named, 0: none */
    bool waits;      /* apply waits before `held` */
    struct skip_entry held;
    int64_t next_ms; /* when skip_entry_turn votes or decides next */
    struct {
        struct skip_entry entry;
        uint64_t at; /* index of the decision */
    } decided[SKIP_DECISIONS];
    size_t n_decided;
    struct {
        uint64_t index; /* index of the entry */
        uint64_t at;    /* index of the decision in the other member's log */
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
    uint64_t suspect;     /* index at which the last run ended, 0: none */
    uint32_t deaths;      /* number of runs in a row that ended there */
    int marker;           /* the open file, -1: none */
};

/* Reads the decisions in a recovered log, and the marker of the last run; reports both. clean: the last run ended
 * cleanly. */
int skip_entry_recover(struct replication *r, const struct journal_contents *c,
                       bool clean) CONCLAVE_MUST_USE;
void skip_entry_finish(struct replication *r);

/* noted: a barrier with a payload was appended. truncated: the entries from index on were removed. */
void skip_entry_noted(struct replication *r, uint64_t at, struct slice payload);
void skip_entry_truncated(struct replication *r, uint64_t index);

enum skip_entry_verdict { SKIP_APPLY, SKIP_WAIT, SKIP_PASS };

/* Decides about a log entry that holds a command. */
enum skip_entry_verdict skip_entry_judge(const struct replication *r,
                                         const struct skip_entry *entry);

/* apply waits before this entry. */
void skip_entry_wait(struct replication *r, const struct skip_entry *entry);

/* watch: an entry is about to be applied. applied: it was. */
void skip_entry_watch(struct replication *r, uint64_t index);
void skip_entry_applied(struct replication *r);

/* link: a link came up. receive: a message from another member. */
void skip_entry_link(struct replication *r, uint64_t peer);
void skip_entry_receive(struct replication *r, uint64_t from, const struct log_message *m);

/* Regular work while apply waits: votes, or decides as leader. */
void skip_entry_turn(struct replication *r);
int64_t skip_entry_deadline(const struct replication *r);

#endif
