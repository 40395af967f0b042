/*
 * Recipes with one fault at every single request of each client in turn. Every case has a server of its own, and they
 * run beside each other, as nearly all of their time is waiting.
 */
#ifndef SUPPORT_SWEEP_H
#define SUPPORT_SWEEP_H

#include "support/candidate.h"

enum fault {
    FAULT_CUT,     /* the link is cut before the request arrives */
    FAULT_LOSE,    /* the request is carried out, its answer lost */
    FAULT_EXPIRE,  /* the session is killed by force before it */
    FAULT_EXPIRED, /* the session is killed by force after it */
    FAULT_STOP,    /* nothing is answered any more until the session has expired */
    FAULTS
};

struct sweep_plan;

struct sweep_case {
    const struct sweep_plan *plan;
    struct fake_zk *zk;
    enum fault fault;
    int scene;
    int endpoint;      /* whose requests are met */
    int step;          /* which of them */
    bool reached;      /* there was such a request */
    const char *wrong; /* NULL: all was right */

    pthread_t healer; /* ends a silence, unless the scene does */
    _Atomic bool over;

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
    int least;          /* faults that must have been met */
    const char *parent; /* a node that has no child in the end; may be NULL */
    bool sets_fault;    /* play calls sweep_set_fault and sweep_end_fault, and ends a silence */

    /* NULL, or what was wrong: the threads that still run may go on using the case's memory then. */
    const char *(*play)(struct sweep_case *s);
    const char *(*finish)(struct sweep_case *s); /* once the fault is over; may be NULL */
};

void sweep_set_fault(struct sweep_case *s);
void sweep_end_fault(struct sweep_case *s);

/* Another may hold it before the client whose session was killed by force knows. */
static inline bool fault_is_forced(const struct sweep_case *s)
{
    return s->fault == FAULT_EXPIRE || s->fault == FAULT_EXPIRED;
}

/* Runs the cases of an array on threads, `beside` at once. */
void sweep_beside(void *(*run)(void *), void *cases, size_t size, size_t count, size_t beside);

/* Tests, their state a struct sweep_plan. Each fails when a case does, or when a node of a session is left. */
void link_cut_before_every_request(void **state);
void answer_lost_of_every_request(void **state);
void session_killed_before_every_request(void **state);
void session_killed_after_every_request(void **state);
void silence_from_every_request_on(void **state);

#define SWEEP_TESTS(plan)                                                                          \
    cmocka_unit_test_prestate(link_cut_before_every_request, plan),                                \
        cmocka_unit_test_prestate(answer_lost_of_every_request, plan),                             \
        cmocka_unit_test_prestate(session_killed_before_every_request, plan),                      \
        cmocka_unit_test_prestate(session_killed_after_every_request, plan),                       \
        cmocka_unit_test_prestate(silence_from_every_request_on, plan)

#endif
