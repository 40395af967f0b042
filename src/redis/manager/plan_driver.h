/*
 * Carries out what redis/planner/planner.h decides, one action at a time, while this manager leads. Before every action the lease
 * is looked at; every record is written in a transaction that checks the leader's node. What became of an action is
 * noted, the records are read anew where they may have changed, and it is asked again: nothing is kept that a
 * successor would need.
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
    struct redis_managers *managers; /* the other ones' reports */
    struct conclave_election *election;
    struct redis_journal *journal;
    struct redis_fencer *fencer; /* NULL: no methods */
    bool dry_run;                /* say what would be done, and do nothing */
    /* bytes: -1 none; public: to be kept below ROOT/events, too */
    void (*on_event)(void *ctx, const char *name, int node, int64_t bytes, bool public,
                     const char *text);
    void *ctx;
};

/* Does nothing before it leads. 0, CONCLAVE_ENOMEM. */
int redis_driver_create(const struct redis_driver_settings *settings,
                        struct redis_driver **ret) CONCLAVE_MUST_USE;

/* A term begins, or ends. */
void redis_driver_lead(struct redis_driver *driver, int64_t token);
void redis_driver_stop(struct redis_driver *driver);

/* Something is new: it looks again, soon. */
void redis_driver_wake(struct redis_driver *driver);

/* Stops; what is under way must have ended (monitor and store closed) before done is told, from the loop. */
void redis_driver_close(struct redis_driver *driver, void (*done)(void *ctx), void *ctx);

#endif
