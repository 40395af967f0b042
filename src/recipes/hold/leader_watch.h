/*
 * The present leader: watches <path>.leader/current, which the leader writes when it is ready.
 * While it does not exist, the first candidate is reported as leader that has not acknowledged.
 * Reports go to the handle's on_leader, latest only, and never back to a leader with a smaller
 * token.
 *
 * All observers are woken by a change of leader: that is their purpose. Candidates are not
 * (they watch the one before).
 */
#ifndef RECIPES_HOLD_LEADER_WATCH_H
#define RECIPES_HOLD_LEADER_WATCH_H

#include "recipes/engine/machine.h"

struct conclave_election;

/* A leader as it was seen, on the heap. */
struct leader_news {
    bool present;
    bool acked;
    bool in_use; /* on_leader runs with it */
    char *node;
    char *text;       /* candidate's data, split: the id is its start */
    const char *data; /* into text */
    size_t data_len;
    int64_t session_id;
    int32_t sequence;
    int64_t czxid;
};

struct observer {
    struct conclave_election *election;
    struct machine machine;
    struct step step;
    struct watch_slot current; /* on <path>.leader/current, there or not */
    struct watch_slot first;   /* on the first candidate, or on the parent when there is none */
    char *candidate;           /* name of the candidate that is being read */
    bool active;
    bool synced;              /* since the last link came */
    bool has_current;         /* it exists, as far as `current` knows */
    bool empty;               /* no candidate: watch the parent itself */
    bool due;                 /* `seen` was not reported yet */
    struct leader_news *seen; /* latest; NULL: none yet */
    int64_t max_czxid;        /* of all leaders seen */
};

void observer_init(struct observer *o, struct conclave_election *e);

/* Starts looking; client's lock held, as for all of these. */
void observer_start(struct observer *o);
void observer_stop(struct observer *o);
void observer_on_state(struct observer *o, enum conclave_state state);
void observer_run(struct observer *o);

/* In the dispatcher, with the lock held: tells the user if there is something to tell. */
bool observer_tell(struct observer *o);

void observer_finish(struct observer *o);

#endif
