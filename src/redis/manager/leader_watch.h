/*
 * Takes the lead from a manager that died together with the master, before its session ends.
 *
 * A leading manager reports often, and does nothing once its last report that the ensemble has confirmed is older than
 * REDIS_LEAD_MS. So a leader that stopped reporting for longer than that does nothing any more, even if it still lives:
 * the others may remove the node by which it leads. They do this only if the master is down by their votes.
 *
 *   leader:   made ──> confirmed ─────────── REDIS_LEAD_MS after `made`: it waits
 *   another:               seen ────────────────────── 5/4 of that after `seen`: it removes the node
 *
 * `seen` is later than `made`, and the removal is a transaction that fails if there is a newer report. So a slow link
 * does not let two managers act. The clocks must run at about the same speed, also in a paused virtual machine.
 *
 * A process that is stopped between leader_watch_may_act and the write of a Redis command still sends that command when
 * it goes on. Only the records are safe from this: their transactions check the leader's node.
 */
#ifndef REDIS_MANAGER_LEADER_WATCH_H
#define REDIS_MANAGER_LEADER_WATCH_H

#include "redis/manager/cluster_znodes.h"

#include <uv.h>

struct leader_watch;

struct leader_watch_settings {
    uv_loop_t *loop;
    const struct redis_config *config;
    const struct redis_node *nodes; /* own view of the servers */
    struct redis_store *store;
    const struct redis_managers *managers;
    void (*on_removed)(void *ctx, const char *id); /* this manager ended the lead of that one */
    void *ctx;
};

/* 0 or CONCLAVE_ENOMEM. */
int leader_watch_create(const struct leader_watch_settings *settings,
                        struct leader_watch **ret) CONCLAVE_MUST_USE;

/* Stops; done is called from the loop when no request is under way. */
void leader_watch_close(struct leader_watch *watch, void (*done)(void *ctx), void *ctx);

/* A report of this manager with this number is about to be written; a report with this number was read back. */
void leader_watch_reports(struct leader_watch *watch, uint64_t seq);
void leader_watch_confirms(struct leader_watch *watch, uint64_t seq);

/* Whether this manager may act, if it leads. */
bool leader_watch_may_act(const struct leader_watch *watch);

/* Another manager leads, by this node of the election; id "": none, or this manager itself. Copied. */
void leader_watch_follow(struct leader_watch *watch, const char *id, const char *node);

/* Reports or servers may have changed. */
void leader_watch_look(struct leader_watch *watch);

#endif
