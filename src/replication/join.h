/*
 * Servers that may have forgotten their promises: new ones, and those whose folder is empty again. In an earlier life
 * such a server may have acknowledged entries and given votes, and another server may still count on them. So it stays
 * silent until none can:
 *
 *   SILENT: hears a leader → JOIN to it → the leader proposes an entry, and when that is committed
 *           (which needs no vote of the silent server) → JOIN_OK(index)
 *   → takes part, without a vote, until it has all entries up to index → may vote, durably
 *
 * A candidate that still counts on the earlier life lacks that entry, and the majority that has it does not vote for
 * the candidate. Earlier entries are on that majority, too. A restart in between starts again. Limit: in an ensemble of
 * two nothing is committed without the other server.
 */
#ifndef REPLICATION_JOIN_H
#define REPLICATION_JOIN_H

#include "replication/raft/log_messages.h"

#include <stdbool.h>
#include <stdint.h>

struct replication;

/* A server that asked this leader. */
struct join_ask {
    uint64_t from;
    uint64_t number; /* number of the asking server's life */
    uint64_t index;  /* index of the entry that was proposed for it */
};

/* SILENT → CATCHING_UP → WRITING → VOTING: this server's own part. */
enum join_state {
    JOIN_VOTING, /* the server knows its promises */
    JOIN_SILENT,
    JOIN_CATCHING_UP, /* takes part without a vote, up to `index` */
    JOIN_WRITING,     /* the permission to vote is being written */
};

struct join {
    enum join_state state;
    uint64_t number; /* number of this life */
    uint64_t index;  /* this server must have all entries up to it before it votes */
    uint64_t term;   /* the term in which the asks came */
    struct join_ask *asks;
    size_t n_asks;
    size_t cap_asks;
};

/* Call it after recovery. joins: this server may have forgotten its promises. */
void join_init(struct replication *r, bool joins);
void join_finish(struct replication *r);

/* Whether the message must be ignored. If its sender may be a leader, asks it. */
bool join_silences(struct replication *r, uint64_t from, const struct log_message *m);

/* MESSAGE_JOIN, MESSAGE_JOIN_OK. */
void join_receive(struct replication *r, uint64_t from, const struct log_message *m);

/* At the end of each turn. */
void join_turn(struct replication *r);

/* Whether this server may vote: it knows its promises. */
bool join_votes(const struct replication *r);

/* The permission to vote is durable. */
void join_written(struct replication *r);

#endif
