/*
 * Carries out what the planner (redis/planner/planner.h) decides, one action at a time, while this manager leads. It
 * checks the lease before every action and writes every record in a transaction that checks the leader's node. After an
 * action it notes the result, reads the records again if they may have changed, and asks the planner again. It keeps
 * nothing that a successor would need.
 */
#ifndef REDIS_MANAGER_PLAN_DRIVER_H
#define REDIS_MANAGER_PLAN_DRIVER_H

#include "redis/manager/fencer.h"
#include "redis/manager/monitor.h"
#include "redis/manager/operator_nodes.h"

struct redis_driver;

struct redis_driver_settings {
    uv_loop_t *loop;
    const struct redis_config *config;
    struct redis_monitor *monitor;
    struct redis_store *store;
    struct redis_managers *managers; /* reports of the other managers */
    struct conclave_election *election;
    struct redis_journal *journal;
    struct redis_fencer *fencer; /* NULL: no methods */
    bool dry_run;                /* report what it would do, and do nothing */
    /* bytes: -1 none; public: keep it below ROOT/events, too */
    void (*on_event)(void *ctx, const char *name, int node, int64_t bytes, bool public,
                     const char *text);
    /* Whether this manager may act, beside the lease: see redis/manager/leader_watch.h. */
    bool (*may_act)(void *ctx);
    void *ctx;
};

/* It does nothing before redis_driver_lead. 0, CONCLAVE_ENOMEM. */
int redis_driver_create(const struct redis_driver_settings *settings,
                        struct redis_driver **ret) CONCLAVE_MUST_USE;

/* A term begins, or ends. A term that did not end is ended by the next one. */
void redis_driver_lead(struct redis_driver *driver, int64_t token);
void redis_driver_stop(struct redis_driver *driver);

/* Something has changed: the driver asks the planner again soon. If this manager may no longer act, running fencing
 * methods are stopped. */
void redis_driver_wake(struct redis_driver *driver);

/* Stops. The monitor and the store must be closed already, so nothing is under way. Calls done from the loop. */
void redis_driver_close(struct redis_driver *driver, void (*done)(void *ctx), void *ctx);

#endif
