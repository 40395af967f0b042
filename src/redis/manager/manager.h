/*
 * One manager of a Redis cluster: it probes the servers, reports what it sees, stands for election, and while it leads
 * carries out fail-overs (redis/manager/plan_driver.h). Everything runs in one libuv loop, the ZooKeeper client too; nothing blocks
 * it but the fencing methods, which have a thread.
 *
 *   monitor (probes) ──> report ──> store (znodes) <── reports of the others
 *                   \                                  /
 *                    '──> driver: verdicts, steps ────'──> commands by the monitor, records by the store
 *
 * A report goes out every period, and at once when this manager's view of a server changes.
 */
#ifndef REDIS_MANAGER_MANAGER_H
#define REDIS_MANAGER_MANAGER_H

#include "fencing/fence_methods.h"
#include "redis/manager/redis_connection.h"
#include "redis/records/records.h"

#include <conclave/recipes.h>

struct redis_manager;

struct redis_manager_settings {
    uv_loop_t *loop;
    /* runs in the loop; outlives the manager, as do the next three */
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    const struct redis_config *config;
    const struct redis_access *access;
    const char *root; /* znode, without "/" at its end */
    const char *id;
    const char *gem_root;               /* where the Ruby gem's clients look; NULL: nowhere */
    const struct fence_method *methods; /* outlive the manager */
    size_t method_count;
    bool dry_run; /* neither member nor candidate: says what it would do */

    void (*on_event)(void *ctx, const struct redis_event *event);
    /* Its report stands, and every server was probed once. Told once. */
    void (*on_ready)(void *ctx);
    void (*on_closed)(void *ctx); /* the end; the manager is gone */
    void *ctx;
};

/* 0, CONCLAVE_ENOMEM, CONCLAVE_EIO, CONCLAVE_EINVAL (path or id). On failure on_closed is still
 * told, from the loop, when *ret is not NULL. */
int redis_manager_open(const struct redis_manager_settings *settings,
                       struct redis_manager **ret) CONCLAVE_MUST_USE;

/* Leaves in order: resigns, takes its report away. Once. */
void redis_manager_close(struct redis_manager *manager);

#endif
