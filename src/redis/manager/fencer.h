/*
 * Runs fencing methods in a thread of libuv's pool, beside the loop: makes sure that one server at a time is dead.
 */
#ifndef REDIS_MANAGER_FENCER_H
#define REDIS_MANAGER_FENCER_H

#include "fencing/fence_methods.h"
#include "redis/planner/planner.h"

#include <uv.h>

struct redis_fencer;

/* methods: borrowed, outlive the fencer. 0 or CONCLAVE_ENOMEM, CONCLAVE_EIO (no descriptor). */
int redis_fencer_create(uv_loop_t *loop, const struct fence_method *methods, size_t count,
                        struct redis_fencer **ret) CONCLAVE_MUST_USE;

/* Whether a method confirmed that the server is dead. Called from the loop; not after redis_fencer_cancel. */
typedef void (*redis_fenced_fn)(void *ctx, int node, bool confirmed, const char *text);

/* Runs the methods against a node. 0; CONCLAVE_EBUSY: a run of this term or an earlier one has not ended;
 * CONCLAVE_ENOMEM. */
int redis_fencer_run(struct redis_fencer *fencer, int node, const struct redis_node_config *target,
                     int64_t old_token, int64_t new_token, redis_fenced_fn fn,
                     void *ctx) CONCLAVE_MUST_USE;

/* Ends the methods that run; their result is not reported. */
void redis_fencer_cancel(struct redis_fencer *fencer);

/* Cancels; the fencer frees itself when the thread has ended. Takes NULL. */
void redis_fencer_destroy(struct redis_fencer *fencer);

#endif
