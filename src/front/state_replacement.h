/*
 * Replaces the whole state by a snapshot while the server runs. The snapshot goes through the log in pieces, so it is
 * durable before it counts, a crash leaves the old state or the new one, and later entries apply to the new one, at every
 * start and on every server. The servers keep the pieces in memory until the last one; until then the log takes no snapshot,
 * so that the pieces stay in it.
 *
 * The zxid never goes back: fencing tokens stay higher than all earlier ones. Sessions are those of the snapshot:
 * connected clients are disconnected and learn that their session has expired; sessions of the snapshot have their full
 * timeout to come back. The state of a mirror's source is taken as it is (state/mirror.h).
 */
#ifndef FRONT_STATE_REPLACEMENT_H
#define FRONT_STATE_REPLACEMENT_H

#include "state/entry/replacement.h"

struct service;
struct state;

enum { REPLACEMENT_PIECE_BYTES = 1 << 20, REPLACEMENT_IN_FLIGHT = 2 };

/* What this server is sending; and what has come so far, from whomever. */
struct state_replacement {
    struct replacement_pieces pieces;
    struct state *sending; /* own; written in steps; NULL: none */
    struct buf rest;       /* bytes that are not proposed yet */
    int64_t id;
    uint8_t flags; /* enum replacement_flags of the pieces */
    int32_t next;  /* number of the next piece */
    int32_t in_flight;
    bool written;     /* all of `sending` is in rest */
    int64_t given_up; /* id of the pieces that this leader told all to forget */
};
void state_replacement_init(struct state_replacement *r);
void state_replacement_finish(struct state_replacement *r);

/*
 * Begins to propose the state, which it takes over unless it returns an error; the turns go on with it. id: random, or that of the
 * mirror. 0: complete when s->replaced_by has the id, given up when state_replacement_is_sent is false before;
 * CONCLAVE_EBUSY: another one is under way; CONCLAVE_ENOMEM.
 */
int state_replacement_send(struct service *s, struct state *state_take, int64_t id,
                           uint8_t flags) CONCLAVE_MUST_USE;

/* Whether pieces are still on their way from this server. */
bool state_replacement_is_sent(const struct service *s);

/* Proposes the next pieces. Call it in each turn. */
void state_replacement_turn(struct service *s);

/* Applies the entry. Errors as service_apply. */
int state_replacement_begin(struct service *s, struct slice entry) CONCLAVE_MUST_USE;

/* Continues with another state, which it always takes over. Disconnects all clients; the sessions of the new state have
 * their full timeout to come back. 0 or CONCLAVE_ENOMEM. */
int state_replacement_adopt(struct service *s, struct state *state_take) CONCLAVE_MUST_USE;

#endif
