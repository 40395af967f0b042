/*
 * Proves that this server has applied all entries that were committed anywhere before a moment: for `sync` and for
 * linearizable reads.
 *
 * The leader notes its commit index and asks the voters whether its term is still theirs. When a majority agrees after
 * the request, no other server can have led before it, and a state with all entries up to that index is new enough.
 * Other members ask the leader for the index. Requests during a round share the next one; lost messages are repeated.
 */
#ifndef REPLICATION_READ_INDEX_H
#define REPLICATION_READ_INDEX_H

#include "replication/raft/log_messages.h"

#include <stdbool.h>
#include <stdint.h>

#define READ_WAITS_MAX 16

struct replication;

/* Tickets up to this one are confirmed when `index` is applied. */
struct read_wait {
    uint64_t ticket;
    uint64_t index;
};

/* A request of another member to the leader. */
struct read_ask {
    uint64_t from;
    uint64_t in_round; /* its number that the current round answers, or 0 */
    uint64_t next;     /* its number that the next round answers, or 0 */
};

struct read_index {
    uint64_t issued;    /* last issued ticket */
    uint64_t resolved;  /* tickets up to here are in `waits`, or confirmed */
    uint64_t confirmed; /* tickets up to here were confirmed to the owner */
    struct read_wait waits[READ_WAITS_MAX];
    unsigned n_waits;

    uint64_t asked;      /* last ticket that was requested from the leader */
    uint64_t asked_whom; /* the leader that was asked */
    int64_t asked_ms;    /* when it was asked */

    uint64_t round; /* number of the current or last round */
    bool running;
    uint64_t round_term;
    uint64_t round_index;
    uint64_t round_ticket; /* own tickets up to here share the round */
    int64_t round_ms;      /* when the voters were last asked */
    uint64_t *answered;    /* voters that agreed */
    size_t n_answered;
    size_t cap_answered;
    struct read_ask *asks;
    size_t n_asks;
    size_t cap_asks;
};

void read_index_init(struct replication *r);
void read_index_finish(struct replication *r);

/* Call it at the end of each turn: begins rounds, sends requests, and reports confirmed tickets. */
void read_index_turn(struct replication *r);

/* When a request must be repeated; INT64_MAX: never. */
int64_t read_index_deadline(const struct replication *r);

/* Handles one of the four kinds of messages. */
void read_index_receive(struct replication *r, uint64_t from, const struct log_message *m);

#endif
