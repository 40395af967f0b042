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
#ifndef FRONT_LEADERSHIP_H
#define FRONT_LEADERSHIP_H

#include "base/buf.h"
#include "base/list.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct service;
struct connection;

/* A time of no contact. */
#define CONTACT_NEVER (INT64_MIN / 4)

struct leadership {
    bool leads;         /* sessions expire here, spent nodes are collected here */
    bool sole;          /* the only voter: its applied state is the newest */
    int64_t contact_at; /* a leader with a quorum had this server's report then, monotonic ms */
    bool leaving;       /* a reconfig removed this server: its clients go to the others */
    bool readable;      /* the state is one that the ensemble once had */
    bool read_only;     /* no quorum for three ticks: clients that accept old data may read */
    int64_t lost_ms;   /* since when there is no quorum, as far as is known here; 0: there is one */
    bool linearizable; /* every read is confirmed, not only sync */
    uint64_t group;    /* the one that reads of this turn belong to, from 1 */
    bool group_used;   /* some read belongs to it */
    uint64_t asked;    /* group that a ticket was taken for; 0: none is open */
    uint64_t ticket;   /* that ticket */
    uint64_t confirmed;     /* reads of groups up to here may be answered */
    struct list confirming; /* connections with reads that wait, by connection.confirming */
    struct list waiting;    /* others who wait, by confirmation.link; oldest first */
    struct list held;       /* connections whose output waits for contact, by connection.held */
    struct buf own;         /* batch of the server's own commands being gathered */
    int32_t own_count;      /* commands in it */
    bool own_first;         /* it was begun before the clients' batch of this turn */
};

/* A standalone server's. */
void leadership_init(struct leadership *s);
void leadership_finish(struct leadership *s);

/* Every session has its full timeout from now, and the collector begins anew. 0 or CONCLAVE_ENOMEM. */
int leadership_full_timeouts(struct service *s, int64_t now_ms) CONCLAVE_MUST_USE;

/* This server leads from now on, or no longer. A new leader gives every session a full timeout. 0 or
 * CONCLAVE_ENOMEM. */
int leadership_set(struct service *s, bool leads) CONCLAVE_MUST_USE;

/* A leader with a quorum had this server's report of its sessions at this time (monotonic ms), or leads
 * itself and had a quorum. For a tick from then on this server may answer its clients; two ticks after
 * it they are dropped: another server may serve them. From then on those are let in that may read old data, if
 * this server is configured so, until there is a quorum again. An earlier time than is known changes nothing. */
void leadership_contact(struct service *s, int64_t at_ms);

/* It has none any more. */
void leadership_lose_contact(struct service *s);

/* Whether this server may answer its clients, by the time that the service knows. */
bool leadership_in_contact(const struct service *s);

/* A beat: drops the clients when there was no contact for two ticks. */
void leadership_look_at_contact(struct service *s);

/* Cuts everybody off who has a session. */
void leadership_drop_clients(struct service *s, const char *reason);

/* Notes whether a reconfig removed this server. If so it refuses new sessions and sends each client away after
 * answering its requests. */
void leadership_set_leaving(struct service *s, bool leaving);

/* The group that a read of this connection must wait for; 0: it may be answered at once. */
uint64_t leadership_confirm_group(struct service *s, struct connection *c);

/* All tickets up to this one are confirmed: answers what waited for them. */
void leadership_confirmed(struct service *s, uint64_t ticket);

/* The end of a turn: hands over the clients' batch and the server's own commands in the order in which
 * they were begun, and asks for a ticket when one is wanted. */
void leadership_turn(struct service *s);

/* Whether leadership_turn would do something now. */
bool leadership_has_work(const struct service *s);

/* A command of the leader's own, for which nobody waits: lost when this server stops leading, and
 * then the next leader's business. 0 or CONCLAVE_ENOMEM. */
int leadership_propose(struct service *s, int64_t session_id, int32_t type,
                       struct slice body) CONCLAVE_MUST_USE;

/* Hands the leader's own commands over before the end of the turn. */
void leadership_submit_own(struct service *s);

/* A connection's session gave a sign of life, or is being answered: the session lives on from now, here
 * or through the next report to the leader. */
void leadership_touch(struct service *s, struct connection *c);

/* Whether the session of a connection cannot have ended by the leader's judgement. Otherwise the
 * connection is dropped: its client takes the session up again through the log, which knows. */
bool leadership_may_answer(struct service *s, struct connection *c);

/* Whether a connection's output may leave now. No answer leaves for a session that the leader may have
 * ended: without contact it waits, and when the session was silent for its whole timeout the connection
 * is dropped. What leaves is a sign of life. */
bool leadership_may_send(struct service *s, struct connection *c);

/* The sessions whose requests wait here: their silence is ours. Called with each report. */
void leadership_touch_waiting(struct service *s);

#endif
