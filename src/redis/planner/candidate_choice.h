/*
 * Chooses the server that becomes master. Pure.
 *
 * Never chosen: a server that does not answer, is loading, has priority 0, has data of another history than the old
 * master's, was tried already, or is the old master and still says that it is a master. Held back (unless loss is
 * allowed): one that is further behind than max_lag_bytes, or whose link was down max_link_down_ms before the master
 * was. Order of the rest: lowest priority, most data (or, by option, least latency first), fewest failures, latency, run
 * id. Priorities decide first, as with Sentinel: give all servers the same one if data should decide.
 */
#ifndef REDIS_PLANNER_CANDIDATE_CHOICE_H
#define REDIS_PLANNER_CANDIDATE_CHOICE_H

#include "redis/planner/down_vote.h"

/* The facts that candidates are compared with. */
struct redis_choice_case {
    /* old master, its history, tried servers; plan->force lifts all limits but the history */
    const struct redis_plan *plan;
    int64_t fresh_ms; /* facts that were asked for earlier do not count */
    int64_t down_ms;  /* when the old master was last known to be well (own clock); -1: now */
    int only;         /* no other than this node, or REDIS_NONE */
};

struct redis_choice {
    int node;                  /* REDIS_NONE: no server */
    bool held;                 /* there is a candidate, but its loss is beyond the limits */
    int64_t lag_bytes;         /* missing bytes of the old master's known data; -1 unknown */
    char why[REDIS_TEXT_SIZE]; /* one line: which server and why, or why none */
    char reasons[REDIS_NODES_MAX][96]; /* per node: why it was not chosen; "" for the chosen one */
};

void redis_choose(const struct redis_config *config, const struct redis_node *nodes,
                  const struct redis_choice_case *what, struct redis_choice *ret);

#endif
