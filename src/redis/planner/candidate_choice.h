/*
 * Who becomes master. Pure.
 *
 * Never: who does not answer, is loading, has priority 0, has data of another history than the old master's, was
 * tried already, or is the old master itself while it says that it is one. Held back (unless loss is allowed): who is
 * further behind than max_lag_bytes, or whose link was down max_link_down_ms before the master was. Among the rest:
 * lowest priority, most data (or, by option, least latency first), fewest failures, latency, run id. Priorities
 * decide first, as Sentinel's do: give all the same one if data are to decide.
 */
#ifndef REDIS_PLANNER_CANDIDATE_CHOICE_H
#define REDIS_PLANNER_CANDIDATE_CHOICE_H

#include "redis/planner/down_vote.h"

/* What the candidates are measured against. */
struct redis_choice_case {
    /* old master, its history, tried ones; plan->force lets all limits go but lineage */
    const struct redis_plan *plan;
    int64_t fresh_ms; /* facts that were asked for earlier do not count */
    int64_t down_ms;  /* when the old master was last known to be well (own clock); -1 now */
    int only;         /* no other than this node, or REDIS_NONE */
};

struct redis_choice {
    int node;                  /* REDIS_NONE: nobody */
    bool held;                 /* there is one, but only with loss beyond the limits */
    int64_t lag_bytes;         /* what it lacks of the old master's known data; -1 unknown */
    char why[REDIS_TEXT_SIZE]; /* one line: who and why, or why nobody */
    char reasons[REDIS_NODES_MAX][96]; /* per node: why it was not taken; "" for the one that was */
};

void redis_choose(const struct redis_config *config, const struct redis_node *nodes,
                  const struct redis_choice_case *what, struct redis_choice *ret);

#endif
