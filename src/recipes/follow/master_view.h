/*
 * What a record about a set of Redis servers says, as a view that is one block of memory; and what a
 * server says of itself. Pure: bytes in, facts out.
 */
#ifndef REDIS_FOLLOW_MASTER_VIEW_H
#define REDIS_FOLLOW_MASTER_VIEW_H

#include "base/slice.h"

#include <conclave/redis.h>

/* Reads the record's node. What is no record gives a view in state UNREADABLE, with the reason. In the
 * gem's layout, which has no epoch, that is 0. *ret is to be freed with conclave_redis_view_free.
 * 0 or CONCLAVE_ENOMEM. */
int redis_view_read(enum conclave_redis_layout layout, const void *data, size_t len,
                    struct conclave_redis_view **ret) CONCLAVE_MUST_USE;

/* The view of a node that is not there. NULL without memory. */
struct conclave_redis_view *redis_view_none(void);

/* NULL without memory. */
struct conclave_redis_view *redis_view_copy(const struct conclave_redis_view *view);

/* Whether writes go on in this state. */
bool redis_state_serves(enum conclave_redis_state state);

/* What a server has answered to INFO or ROLE. Slices of the answer; empty: not said. */
struct info_answer {
    struct slice role; /* "master", "slave", "sentinel" */
    struct slice run_id;
};

/* False: this is no such answer. */
bool redis_answer_read(const void *answer, size_t len, struct info_answer *ret) CONCLAVE_MUST_USE;

#endif
