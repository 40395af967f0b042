/*
 * Probes each server of a cluster every period and sends it commands on demand. Runs in a libuv loop and never blocks.
 *
 * It has two connections to each server. One carries INFO every period, and the commands. The other is in SUBSCRIBE, so
 * that the end of the server's process is noticed at once and without a write: FIN or RST on either counts as one
 * failure, which a new connection confirms at once. If a server refuses SUBSCRIBE, its idle probe connection shows the
 * end.
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
    /* A probe of this node was counted; changed: its state has changed. text: the failure, or "". */
    void (*on_probed)(void *ctx, int node, bool changed, const char *text);
    void *ctx;
};

/* Starts to probe. 0 or CONCLAVE_ENOMEM, CONCLAVE_EINVAL. */
int redis_monitor_create(const struct redis_monitor_settings *settings,
                         struct redis_monitor **ret) CONCLAVE_MUST_USE;

/* config->node_count of them; they change with every probe. */
const struct redis_node *redis_monitor_nodes(const struct redis_monitor *monitor);

/* Replaces host by this machine's address on a connection to a server, unless one still has the old one. False: there is no
 * ready connection. */
bool redis_monitor_local(const struct redis_monitor *monitor, char host[NET_HOST_MAX]);

/* INFO of these nodes now, all at once. done is called when each has ended, not before this returns. 0 or
 * CONCLAVE_ENOMEM: done is never called. */
int redis_monitor_refresh(struct redis_monitor *monitor, uint32_t nodes, void (*done)(void *ctx),
                          void *ctx) CONCLAVE_MUST_USE;

/* Commands for one node. */
struct redis_orders {
    int node;
    const char *run_id;   /* of the process that gets them; "": any, in any role */
    enum redis_role role; /* which it must still have */
    const struct redis_command *list;
    size_t count;
    bool (*may_act)(void *ctx); /* asked before each command that follows an answer */
    void (*done)(void *ctx, const struct redis_outcome *outcome);
    void *ctx;
};

/* Sends the commands in order, up to the first error of one that is not optional or until may_act says no; then INFO. A
 * process that has been restarted or changed its role gets none (outcome.failed 0). orders is copied. done as above;
 * outcome is valid until it returns. */
int redis_monitor_command(struct redis_monitor *monitor,
                          const struct redis_orders *orders) CONCLAVE_MUST_USE;

/* Ends everything; running commands are not reported. closed (may be NULL) is called from the loop. */
void redis_monitor_close(struct redis_monitor *monitor, void (*closed)(void *ctx), void *ctx);

#endif
