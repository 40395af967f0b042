/*
 * Recipes with one fault at every single request of a client in turn: the link cut, the answer lost, the session killed
 * before and after, silence until it has expired. Every case has a server of its own and they run beside each other, as
 * nearly all of their time is waiting.
 */
#ifndef SUPPORT_SWEEP_H
#define SUPPORT_SWEEP_H

#include "support/candidate.h"

enum fault {
    FAULT_CUT,
    FAULT_LOSE,
    FAULT_EXPIRE,
    FAULT_EXPIRED,
    FAULT_STOP, /* nothing is answered any more until the session has expired */
    FAULTS
};

struct sweep_case {
    pthread_t thread;
    pthread_t healer;
    struct fake_zk *zk;
    enum fault fault;
    int scene;
    int endpoint; /* whose requests are met */
    int step;     /* which of them */
    bool reached; /* there was such a request */
    _Atomic bool over;
    const char *wrong; /* NULL: all was right */

    /* For the scenes. */
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    _Atomic int closed;
    _Atomic int after_end;
    _Atomic int64_t seen;
};

/* Each scene is played with the fault at each of the first `steps` requests of each endpoint. */
struct sweep_plan {
    const char *const *names; /* of scenes */
    int first_scene;
    int scenes;
    int endpoints;
    int steps;
    size_t beside;
    int least; /* faults that must have been met */
    const char *(*play)(struct sweep_case *s);
    const char *(*finish)(struct sweep_case *s); /* once the fault is over; may be NULL */
};

/* A test: fails when a case does, or when a node of a session is left. */
void sweep_run(const struct sweep_plan *plan, enum fault fault);

#endif
