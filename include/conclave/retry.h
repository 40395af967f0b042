/*
 * Repeating requests that failed for a reason that may pass.
 *
 * A policy is given to a client (conclave_client_options.retry), for all requests of the program,
 * or to one request (conclave_op.retry). Without one a request is sent once. The request's timeout
 * is the deadline of all tries together; its answer is then CONCLAVE_OPERATION_TIMEOUT. Requests
 * that recipes make follow their own rules.
 *
 * A request is repeated only where this cannot do harm:
 *
 * - Every request that a server refused without carrying it out: CONCLAVE_THROTTLED,
 *   CONCLAVE_SESSION_MOVED, CONCLAVE_NOT_READ_ONLY, CONCLAVE_NEW_CONFIG_NO_QUORUM,
 *   CONCLAVE_RECONFIG_IN_PROGRESS.
 * - After CONCLAVE_CONNECTION_LOSS: reads, CONCLAVE_OP_SYNC and CONCLAVE_OP_ADD_WATCH; and a
 *   CONCLAVE_OP_SET of an expected version (not -1), which the version keeps from changing the same
 *   node twice.
 * - After CONCLAVE_SESSION_EXPIRED, if the client begins a new session: the same, without SET.
 *
 * A SET that was repeated succeeds only if a server accepted a repetition. If it then fails, for
 * example with CONCLAVE_BAD_VERSION because the first try was carried out after all, the answer is
 * CONCLAVE_CONNECTION_LOSS: the outcome is unknown, and only the program can find out whose data
 * the node has. The version does not tell a node from one that was created anew at its path and has
 * the same version; a repetition may change that one.
 *
 * Everything else is not repeated after a lost link: a CREATE would meet its own node, a DELETE
 * could remove the node of somebody else that came after its own, a SET of any version could
 * replace newer data. Use exactly_once for these (struct conclave_client_options): the client then
 * sends them again itself, and servers carry them out once. If a server then
 * answers CONCLAVE_SESSION_MOVED, the first try may have been carried out all the same: the client
 * asks the next server, with the same number.
 *
 * A repeated request may be carried out after requests that were made later.
 */
#ifndef CONCLAVE_RETRY_H
#define CONCLAVE_RETRY_H

#include <conclave/error.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Begin with CONCLAVE_RETRY_OPTIONS_INIT, then set what differs. */
struct conclave_retry_options {
    size_t size;          /* sizeof of this struct, so that it may grow */
    uint32_t max_repeats; /* repetitions of one request; 0: none */
    /* The pause before the first repetition; each further one is twice as long, up to pause_max_ms.
     * A random part of up to one half is taken off, so that clients that failed together do not
     * come back together. */
    int64_t pause_min_ms;
    int64_t pause_max_ms;
};
#define CONCLAVE_RETRY_OPTIONS_INIT                                                                \
    CONCLAVE_INIT_WITH(conclave_retry_options,                                                     \
                       CONCLAVE_SET(max_repeats, 10) CONCLAVE_SET(pause_min_ms, 50)                \
                           CONCLAVE_SET(pause_max_ms, 2000))

#ifdef __cplusplus
}
#endif
#endif
