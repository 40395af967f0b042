/*
 * The eyes and hands of a manager: each server of a cluster probed every period, commands sent to it on demand. Runs
 * in a libuv loop and never blocks.
 *
 * Two connections a server. One carries INFO every period (and the commands). The other stands in SUBSCRIBE, so that
 * the end of the server's process is noticed at that moment and without a write: FIN or RST on either counts as one
 * failure and is confirmed by connecting anew at once. A server that refuses the SUBSCRIBE is watched by the idle
 * connection.
 */
#ifndef REDIS_MANAGER_MONITOR_H
#define REDIS_MANAGER_MONITOR_H

#include "redis/manager/redis_connection.h"
#include "redis/planner/planner.h"

struct redis_monitor;

struct redis_monitor_settings {
    uv_loop_t *loop;
    struct stream_buffer *read_buffer;
    const struct redis_config *config; /* outlives the monitor, as does access */
    const struct redis_access *access;
    /* A probe of this node was counted; changed: its state is another one. text: what failed, or "". */
    void (*on_probed)(void *ctx, int node, bool changed, const char *text);
    void *ctx;
};

/* Begins to probe. 0 or CONCLAVE_ENOMEM, CONCLAVE_EINVAL. */
int redis_monitor_create(const struct redis_monitor_settings *settings,
                         struct redis_monitor **ret) CONCLAVE_MUST_USE;

/* config->node_count of them; they change with every probe. */
const struct redis_node *redis_monitor_nodes(const struct redis_monitor *monitor);

/* INFO of these nodes now, all at once; done is called, never from inside this, when each has ended. 0 or
 * CONCLAVE_ENOMEM: done is never called. */
int redis_monitor_refresh(struct redis_monitor *monitor, uint32_t nodes, void (*done)(void *ctx),
                          void *ctx) CONCLAVE_MUST_USE;

/* Commands for one node. */
struct redis_orders {
    int node;
    const char *run_id;   /* of the process that they are meant for; "": any, in any role */
    enum redis_role role; /* that it must still have */
    const struct redis_command *list;
    size_t count;
    bool (*may_act)(void *ctx); /* asked before each command that follows an answer */
    void (*done)(void *ctx, const struct redis_outcome *outcome);
    void *ctx;
};

/* In order, stopping at the first error that is not optional, or when may_act says no; then INFO. A process that is
 * another one or has another role by now gets none (outcome.failed 0). All of orders is copied. done as above; outcome
 * lives until it returns. */
int redis_monitor_command(struct redis_monitor *monitor,
                          const struct redis_orders *orders) CONCLAVE_MUST_USE;

/* Ends all; what is under way is never told. closed (may be NULL) is called from the loop. */
void redis_monitor_close(struct redis_monitor *monitor, void (*closed)(void *ctx), void *ctx);

#endif
