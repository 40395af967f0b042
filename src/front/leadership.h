/*
 * The role of a server in its ensemble, as it matters to clients: whether the server leads, and so decides which
 * sessions are alive; whether it has contact to a leader with a quorum, and so may answer at all; which reads wait
 * until a quorum has proved that they are not stale. A standalone server leads, is always in contact, and confirms at
 * once.
 *
 *   read → group of this turn → (turn ends) one ticket for the group → confirmed → answered
 *
 * One group is asked for at a time; reads that come meanwhile share the next round.
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

/* A value for "no contact". */
#define CONTACT_NEVER (INT64_MIN / 4)

struct leadership {
    bool leads; /* this server expires sessions and collects spent nodes */
    bool sole;  /* the only member: its applied state is the newest */
    int64_t
        contact_at; /* when the newest report was sent that a leader with a quorum acknowledged */
    bool leaving;   /* a reconfig removed this server: it sends its clients away */
    bool
        gathering; /* the ensemble began with imported data, and waits for a majority of its members */
    bool drained;       /* an operator empties this server: it takes no sessions (daemon/drain.h) */
    bool readable;      /* the state is one that the ensemble had at some time */
    bool read_only;     /* no quorum for three ticks: clients that accept old data may read */
    int64_t lost_ms;    /* when this server noticed that there is no quorum; 0: there is one */
    bool linearizable;  /* every read needs a proof, not only sync */
    uint64_t group;     /* the group of the reads of this turn, from 1 */
    bool group_used;    /* a read belongs to it */
    uint64_t asked;     /* the group that waits for a ticket; 0: none */
    uint64_t ticket;    /* that ticket */
    uint64_t confirmed; /* reads of groups up to this one may be answered */
    struct list confirming; /* connections with waiting reads, by connection.confirming */
    struct list waiting;    /* other waiting callers, by confirmation.link; oldest first */
    struct list held;       /* connections whose output waits for contact, by connection.held */
    struct buf own;         /* batch of the server's own commands */
    int32_t own_count;      /* commands in it */
    bool own_first;         /* it began before the clients' batch of this turn */
};

/* Begins as a standalone server. */
void leadership_init(struct leadership *s);

/* Gives every session its full timeout from now, and restarts the collector. 0 or CONCLAVE_ENOMEM. */
int leadership_full_timeouts(struct service *s, int64_t now_ms) CONCLAVE_MUST_USE;

/* This server became leader, or stopped leading. A new leader gives every session a full timeout. 0 or
 * CONCLAVE_ENOMEM. */
int leadership_set(struct service *s, bool leads) CONCLAVE_MUST_USE;

/* A leader with a quorum acknowledged the report that this server sent at this time (monotonic ms), or this server
 * leads and had a quorum. For one tick after that time the server may answer its clients. After two ticks it drops
 * them, because another server may serve them. Then, if so configured, it accepts clients that may read old data, until
 * there is a quorum again. An earlier time than the known one changes nothing. */
void leadership_contact(struct service *s, int64_t at_ms);

/* Ends the contact at once. */
void leadership_lose_contact(struct service *s);

/* Whether this server may answer its clients, at the service's time. */
bool leadership_in_contact(const struct service *s);

/* Regular work: drops the clients after two ticks without contact. */
void leadership_look_at_contact(struct service *s);

/* Ends all read-only connections and sessions. */
void leadership_end_read_only(struct service *s, const char *reason);

/* Disconnects every client that has a session. */
void leadership_drop_clients(struct service *s, const char *reason);

/* Records whether a reconfig removed this server. If so, it refuses new sessions and sends each client away after its
 * requests are answered. */
void leadership_set_leaving(struct service *s, bool leaving);

/* The group that a read of this connection must wait for; 0: it may be answered at once. */
uint64_t leadership_confirm_group(struct service *s, struct connection *c);

/* All tickets up to this one are confirmed: answers the reads that waited for them. */
void leadership_confirmed(struct service *s, uint64_t ticket);

/* The end of a turn: submits the clients' batch and the server's own commands, in the order in which they began, and
 * asks for a ticket if reads wait for one. */
void leadership_turn(struct service *s);

/* Whether leadership_turn would do something now. */
bool leadership_has_work(const struct service *s);

/* Proposes a command of the leader itself, which has no reply. It is lost if this server stops leading; then the next
 * leader proposes it. 0 or CONCLAVE_ENOMEM. */
int leadership_propose(struct service *s, int64_t session_id, int32_t type,
                       struct slice body) CONCLAVE_MUST_USE;

/* Submits the leader's own commands before the end of the turn. */
void leadership_submit_own(struct service *s);

/* A session gave a sign of life or is being answered: extends it, here or by the next report to the leader. */
void leadership_touch(struct service *s, struct connection *c);

/* Whether the leader cannot have ended the session of a connection yet. Otherwise drops the connection: the client
 * resumes the session through the log, which knows its state. */
bool leadership_may_answer(struct service *s, struct connection *c);

/* Whether a connection's output may leave now. No answer leaves for a session that the leader may have ended: without
 * contact the output waits, and if the session was silent for its whole timeout, the connection is dropped. Output that
 * leaves is a sign of life. */
bool leadership_may_send(struct service *s, struct connection *c);

/* Sends signs of life for sessions whose requests wait here, because the server causes their silence. Called for each
 * report. */
void leadership_touch_waiting(struct service *s);

#endif
