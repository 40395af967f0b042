/*
 * Servers that may have forgotten what they promised: new ones, and those whose folder is empty
 * again. Such a one may have acknowledged entries and given votes in an earlier life, and somebody may
 * still count on them. So it keeps silent, until nobody can:
 *
 *   SILENT: hears a leader → JOIN to it → the leader proposes an entry, and when that is committed,
 *           which it is without the silent one → JOIN_OK(index)
 *   → takes part, without a vote, until it has everything up to index → may vote, durably
 *
 * Whoever still counts on the earlier life lacks that entry, and a majority that has it does not vote
 * for him; entries from before are on that majority, too. A restart in between begins anew. Limit: in
 * an ensemble of two nothing is committed without the other.
 */
#ifndef REPLICATION_JOIN_H
#define REPLICATION_JOIN_H

#include "replication/raft/log_messages.h"

#include <stdbool.h>
#include <stdint.h>

struct replication;

/* Somebody who asked this leader. */
struct join_ask {
    uint64_t from;
    uint64_t number; /* of the asking server's life */
    uint64_t index;  /* of the entry that was proposed for it */
};

struct join {
    bool silent;
    uint64_t number; /* of this life */
    uint64_t index;  /* what this server must have before it votes */
    bool writing;    /* that it may vote is on its way to the disk */
    uint64_t term;   /* of the asks */
    struct join_ask *asks;
    size_t n_asks;
    size_t cap_asks;
};

/* After recovery: r->voting says how it is. */
void join_init(struct replication *r);
void join_finish(struct replication *r);

/* Whether the message must be ignored. Asks its sender when that may be a leader. */
bool join_silences(struct replication *r, uint64_t from, const struct log_message *m);

/* MESSAGE_JOIN, MESSAGE_JOIN_OK. */
void join_receive(struct replication *r, uint64_t from, const struct log_message *m);

/* At the end of each turn. */
void join_turn(struct replication *r);

/* That this server may vote is durable. */
void join_written(struct replication *r);

#endif
