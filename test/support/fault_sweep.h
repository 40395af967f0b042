/*
 * One fault at every single request of one or the other of two contenders in turn. Every case has a server of its own
 * and they run beside each other, as nearly all of their time is waiting.
 */
#ifndef SUPPORT_FAULT_SWEEP_H
#define SUPPORT_FAULT_SWEEP_H

#include "support/fake_zk.h"

#include <pthread.h>
#include <stdbool.h>

enum fault {
    FAULT_CUT,     /* the link is cut before the request arrives */
    FAULT_LOSE,    /* the request is carried out, its answer lost */
    FAULT_EXPIRE,  /* the session is killed by force before it */
    FAULT_EXPIRED, /* the session is killed by force after it */
    FAULT_STOP,    /* nothing is answered any more until the session has expired */
    FAULTS
};

struct fault_case {
    pthread_t thread;
    const struct fault_sweep *sweep;
    enum fault fault;
    int endpoint; /* whose requests */
    int step;
    struct fake_zk *zk;
    bool reached;      /* there was such a request */
    const char *wrong; /* NULL: all was right */
};

struct fault_sweep {
    /* Plays it: calls fault_set when the faulty requests may begin and fault_end after them. NULL, or what was wrong:
     * then what still runs may go on using its memory. */
    const char *(*scene)(struct fault_case *s);
    int variant;        /* the scene's own */
    int steps;          /* requests of each */
    int at_least;       /* the number of faults to meet */
    const char *parent; /* no child of it is left */
};

void fault_set(struct fault_case *s);
void fault_end(struct fault_case *s);

/* Another may hold it before the one whose session was killed by force knows. */
static inline bool fault_is_forced(const struct fault_case *s)
{
    return s->fault == FAULT_EXPIRE || s->fault == FAULT_EXPIRED;
}

/* Tests, their state a struct fault_sweep. */
void link_cut_before_every_request(void **state);
void answer_lost_of_every_request(void **state);
void session_killed_before_every_request(void **state);
void session_killed_after_every_request(void **state);
void silence_from_every_request_on(void **state);

#define FAULT_TESTS(sweep)                                                                         \
    cmocka_unit_test_prestate(link_cut_before_every_request, sweep),                               \
        cmocka_unit_test_prestate(answer_lost_of_every_request, sweep),                            \
        cmocka_unit_test_prestate(session_killed_before_every_request, sweep),                     \
        cmocka_unit_test_prestate(session_killed_after_every_request, sweep),                      \
        cmocka_unit_test_prestate(silence_from_every_request_on, sweep)

#endif
