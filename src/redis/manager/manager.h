/*
 * One manager of a Redis cluster: it probes the servers, reports what it sees, takes part in the election, and carries
 * out fail-overs while it leads (redis/manager/plan_driver.h). Everything runs in one libuv loop, the ZooKeeper client
 * too; only the fencing methods have a thread.
 *
 *   monitor (probes) ──> report ──> store (znodes) <── reports of the others
 *                   \                                  /
 *                    '──> driver: verdicts, steps ────'──> commands by the monitor, records by the store
 *
 * A report goes out every period, four times a second while this manager leads, and at once when its view of a server
 * changes.
 */
#ifndef REDIS_MANAGER_MANAGER_H
#define REDIS_MANAGER_MANAGER_H

#include "fencing/fence_methods.h"
#include "redis/manager/redis_connection.h"
#include "redis/manager/sentinel_port.h"
#include "redis/records/records.h"

#include <conclave/recipes.h>

struct redis_manager;

struct redis_manager_settings {
    uv_loop_t *loop;
    /* runs in the loop; the client and the next three outlive the manager */
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    const struct redis_config *config;
    const struct redis_access *access;
    const char *root; /* znode, without "/" at its end */
    const char *id;
    const char *gem_root;               /* where the Ruby gem's clients look; NULL: nowhere */
    const struct fence_method *methods; /* outlive the manager */
    size_t method_count;
    struct sentinel_options sentinel; /* its port for Sentinel's protocol, if it is on */
    bool dry_run;                     /* neither member nor candidate: reports what it would do */

    void (*on_event)(void *ctx, const struct redis_event *event);
    /* Its report is written, and every server was probed once. Called once. */
    void (*on_ready)(void *ctx);
    void (*on_closed)(void *ctx); /* called last; the manager is freed */
    void *ctx;
};

/* 0, CONCLAVE_ENOMEM, CONCLAVE_EIO, CONCLAVE_EINVAL (path or id). If *ret is set on
 * failure, on_closed is still called from the loop. */
int redis_manager_open(const struct redis_manager_settings *settings,
                       struct redis_manager **ret) CONCLAVE_MUST_USE;

/* Resigns and removes the report. Call it once. */
void redis_manager_close(struct redis_manager *manager);

#endif
