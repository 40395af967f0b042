/*
 * The functions of a struct hold_kind that only hand on what a handle of the library does. They are the same for an
 * election, a lock and a semaphore, but for the type of the handle.
 */
#ifndef CLI_RECIPES_HOLD_FUNCTIONS_H
#define CLI_RECIPES_HOLD_FUNCTIONS_H

#include "cli/run/hold_command.h"

/* Defines them for struct conclave_<noun>: noun_hold_lost and noun_hold_closed are callbacks of the handle. */
#define HOLD_FUNCTIONS(noun)                                                                       \
    static void noun##_hold_lost(struct conclave_##noun *handle, int why, int64_t stop_within_ms,  \
                                 void *ctx)                                                        \
    {                                                                                              \
        hold_revoked(ctx, why, stop_within_ms);                                                    \
    }                                                                                              \
    static void noun##_hold_closed(struct conclave_##noun *handle, int why, void *ctx)             \
    {                                                                                              \
        hold_closed(ctx, why);                                                                     \
    }                                                                                              \
    static void noun##_hold_close(void *holding)                                                   \
    {                                                                                              \
        conclave_##noun##_close(holding);                                                          \
    }                                                                                              \
    static void noun##_hold_destroy(void *holding)                                                 \
    {                                                                                              \
        conclave_##noun##_destroy(holding);                                                        \
    }                                                                                              \
    static int64_t noun##_hold_lease_until_ns(const void *holding)                                 \
    {                                                                                              \
        return conclave_##noun##_lease_until_ns(holding);                                          \
    }                                                                                              \
    static void noun##_hold_node(const void *holding, char *buf, size_t len)                       \
    {                                                                                              \
        conclave_##noun##_node(holding, buf, len);                                                 \
    }

/* The members of struct hold_kind that they are. */
#define HOLD_FUNCTIONS_OF(noun)                                                                    \
    .close = noun##_hold_close, .destroy = noun##_hold_destroy,                                    \
    .lease_until_ns = noun##_hold_lease_until_ns, .node = noun##_hold_node

#endif
