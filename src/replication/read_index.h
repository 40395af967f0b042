/*
 * Proof that this server has applied all that was committed anywhere before a moment: for `sync` and
 * for linearizable reads.
 *
 * The leader notes its commit index and asks the voters whether their term is still its own. When a
 * majority says so after it was asked, nobody else can have led before, and what is applied up to
 * that index is enough. Other members ask the leader for the index. Whatever is asked while a round
 * is under way shares the next one; what gets lost is asked again.
 */
#ifndef REPLICATION_READ_INDEX_H
#define REPLICATION_READ_INDEX_H

#include "replication/raft/log_messages.h"

#include <stdbool.h>
#include <stdint.h>

#define READ_WAITS_MAX 16

struct replication;

/* Tickets up to this one are good once `index` is applied. */
struct read_wait {
    uint64_t ticket;
    uint64_t index;
};

/* What another member asks the leader. */
struct read_ask {
    uint64_t from;
    uint64_t in_round; /* its number of what the present round answers, or 0 */
    uint64_t next;     /* of what the next round answers, or 0 */
};

struct read_index {
    uint64_t issued;    /* last ticket given out */
    uint64_t resolved;  /* tickets up to here are in `waits`, or confirmed */
    uint64_t confirmed; /* tickets up to here were told */
    struct read_wait waits[READ_WAITS_MAX];
    unsigned n_waits;

    uint64_t asked;      /* last ticket that the leader was asked for */
    uint64_t asked_whom; /* the leader */
    int64_t asked_ms;    /* when */

    uint64_t round; /* number of the present or last one */
    bool running;
    uint64_t round_term;
    uint64_t round_index;
    uint64_t round_ticket; /* own tickets up to here share it */
    int64_t round_ms;      /* the voters were asked last */
    uint64_t *answered;    /* voters that said yes */
    size_t n_answered;
    size_t cap_answered;
    struct read_ask *asks;
    size_t n_asks;
    size_t cap_asks;
};

void read_index_init(struct replication *r);
void read_index_finish(struct replication *r);

/* At the end of each turn: begins rounds, asks, and tells of confirmed tickets. */
void read_index_turn(struct replication *r);

/* When there is something to ask again; INT64_MAX: nothing. */
int64_t read_index_deadline(const struct replication *r);

/* One of the four kinds of messages. */
void read_index_receive(struct replication *r, uint64_t from, const struct log_message *m);

#endif
