/* Two states, node for node: data, ACL and every field of the stat, and session for session: id, timeout and password. */
#ifndef STATE_ADOPT_COMPARE_H
#define STATE_ADOPT_COMPARE_H

#include "state/state.h"

struct state_difference {
    const char *what;  /* the field, or "only in the first", "only in the second" */
    struct slice path; /* of the node; null: a session */
    int64_t session_id;
    int64_t first; /* the values of a field that is a number */
    int64_t second;
    bool numbers;
};

struct state_comparison {
    size_t nodes; /* of the first */
    size_t sessions;
    size_t differences;
};

/* Calls fn for each difference. 0 or CONCLAVE_ENOMEM. */
int state_compare(const struct state *first, const struct state *second,
                  void (*fn)(void *ctx, const struct state_difference *d), void *ctx,
                  struct state_comparison *ret) CONCLAVE_MUST_USE;

#endif
