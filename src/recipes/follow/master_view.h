/*
 * Reads the record about a set of Redis servers into a view, which is one block of memory; and reads a server's answer
 * to INFO or ROLE. Pure.
 */
#ifndef REDIS_FOLLOW_MASTER_VIEW_H
#define REDIS_FOLLOW_MASTER_VIEW_H

#include "base/slice.h"

#include <conclave/redis.h>

/* Reads the record's node. If it is no record, the view has the state UNREADABLE and the reason. The gem's layout has no
 * epoch: it is 0. Free *ret with conclave_redis_view_free. 0 or CONCLAVE_ENOMEM. */
int redis_view_read(enum conclave_redis_layout layout, const void *data, size_t len,
                    struct conclave_redis_view **ret) CONCLAVE_MUST_USE;

struct json_t;

/* json_loadb: 0, CONCLAVE_ENOMEM, or CONCLAVE_ECORRUPT; *ret is NULL on failure. */
int redis_json_read(const void *data, size_t len, size_t flags, struct json_t **ret);

/* Splits "host:port" or "[host]:port"; the host without brackets goes to buf. */
enum { REDIS_VIEW_HOST_MAX = 255 };
bool redis_view_address(const char *address, char buf[REDIS_VIEW_HOST_MAX + 1], int *ret_port);

/* The view of a missing node. NULL: out of memory. */
struct conclave_redis_view *redis_view_none(void);

/* NULL: out of memory. */
struct conclave_redis_view *redis_view_copy(const struct conclave_redis_view *view);

/* Whether writes are allowed in this state. */
bool redis_state_serves(enum conclave_redis_state state);

/* A server's answer to INFO or ROLE: slices of it; empty if it does not say. */
struct info_answer {
    struct slice role; /* "master", "slave", "sentinel" */
    struct slice run_id;
};

/* False: the answer has another form. */
bool redis_answer_read(const void *answer, size_t len, struct info_answer *ret) CONCLAVE_MUST_USE;

#endif
