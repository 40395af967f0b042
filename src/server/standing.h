/*
 * What a server's place in its ensemble means for its clients: whether it leads, and so judges who
 * is alive; whether it knows of a leader with a quorum, and so may answer at all; which reads wait
 * until a quorum has proved that they will not be stale. A standalone server leads, is always in
 * contact, and confirms at once.
 *
 *   read → group of this turn → (turn ends) one ticket for the group → confirmed → answered
 *
 * One group is asked for at a time: what comes meanwhile shares the next round.
 */
#ifndef SERVER_STANDING_H
#define SERVER_STANDING_H

#include "base/buf.h"
#include "base/list.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct service;
struct connection;

struct standing {
    bool leads;        /* sessions expire here, spent nodes are collected here */
    bool sole;         /* the only voter: what is applied here is the newest there is */
    bool in_contact;   /* a leader with a quorum was heard of within a tick */
    bool leaving;      /* a reconfig removed this server: its clients go to the others */
    bool readable;     /* the state is one that the ensemble once had */
    bool read_only;    /* no quorum for three ticks: clients that accept old data may read */
    int64_t lost_ms;   /* since when there is no quorum, as far as is known here; 0: there is one */
    bool linearizable; /* every read is confirmed, not only sync */
    uint64_t group;    /* the one that reads of this turn belong to, from 1 */
    bool group_used;   /* some read belongs to it */
    uint64_t asked;    /* group that a ticket was taken for; 0: none is open */
    uint64_t ticket;   /* that ticket */
    uint64_t confirmed;     /* reads of groups up to here may be answered */
    struct list confirming; /* connections with reads that wait, by connection.confirming */
    struct list waiting;    /* others who wait, by confirmation.link; oldest first */
    struct list touched;    /* connections heard from since standing_take_touches */
    struct buf own;         /* batch of the server's own commands being gathered */
    int32_t own_count;      /* commands in it */
    bool own_first;         /* it was begun before the clients' batch of this turn */
};

/* A standalone server's. */
void standing_init(struct standing *s);
void standing_finish(struct standing *s);

/* Every session has its full timeout from now, and the collector begins anew. 0 or CONCLAVE_ENOMEM. */
int service_full_timeouts(struct service *s, int64_t now_ms) CONCLAVE_MUST_USE;

/* This server leads from now on, or no longer. A new leader gives every session a full timeout. 0 or
 * CONCLAVE_ENOMEM. */
int service_lead(struct service *s, bool leads) CONCLAVE_MUST_USE;

/* How long ago a leader with a quorum was known. Beyond a tick nothing is read from clients, beyond
 * two they are dropped: another server may serve them. From then on those are let in that may read old data, if this
 * server is configured so, until there is a quorum again. */
void service_set_contact(struct service *s, int64_t contact_ms);

/* Cuts everybody off who has a session. */
void service_drop_clients(struct service *s, const char *reason);

/* Notes whether a reconfig removed this server. If so it refuses new sessions and sends each client away after
 * answering its requests. */
void service_set_leaving(struct service *s, bool leaving);

/* The group that a read of this connection must wait for; 0: it may be answered at once. */
uint64_t service_confirm_group(struct service *s, struct connection *c);

/* All tickets up to this one are confirmed: answers what waited for them. */
void service_confirmed(struct service *s, uint64_t ticket);

/* The end of a turn: hands over the clients' batch and the server's own commands in the order in which
 * they were begun, and asks for a ticket when one is wanted. */
void service_standing_turn(struct service *s);

/* A command of the leader's own, for which nobody waits: lost when this server stops leading, and
 * then the next leader's business. 0 or CONCLAVE_ENOMEM. */
int service_propose(struct service *s, int64_t session_id, int32_t type,
                    struct slice body) CONCLAVE_MUST_USE;

/* Notes that a connection's session gave a sign of life, for the leader. */
void service_note_touch(struct service *s, struct connection *c);

/* Appends the ids (i64 each) of the sessions heard from since the last call; returns how many. */
size_t service_take_touches(struct service *s, struct buf *out);

#endif
