/*
 * Takes the lead from a manager that died together with the master, before its session ends.
 *
 * A leading manager reports often, and does nothing once the time that its last confirmed report states is over
 * (redis/planner/lead_proof.h). So a leader whose reports have stopped for longer than that does nothing any more, even if
 * it still lives: the others may remove the node by which it leads. They do this only if the master is down by their votes.
 *
 *   leader:   made ──> confirmed ─────────── lead_ms of the report after `made`: it waits
 *   another:               seen ────────────────────── 5/4 of that after `seen`: it removes the node
 *
 * `seen` is later than `made`, and the removal is a transaction that fails if there is a newer report. So a slow link
 * does not let two managers act. The clocks must run at about the same speed, also in a paused virtual machine.
 *
 * A report is confirmed when it was read back AND, in a later state of the ensemble, this manager's node in the election
 * was found. The report alone proves nothing: it may have been on its way when the node was removed, and the news of the
 * removal may come after it. A node never comes back, so the one that was found was also there when the report was
 * written, and a removal after that has seen this report or a newer one. A manager that has no node then gets a later one.
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
    const char *incarnation; /* in this manager's reports; not copied */
    /* For the operator: the lead of another one was removed, or cannot be; the own one is not confirmed in time. */
    void (*on_event)(void *ctx, const char *name, const char *text);
    void (*on_proved)(void *ctx); /* this manager may act again, if it leads */
    void *ctx;
};

/* 0 or CONCLAVE_ENOMEM. */
int leader_watch_create(const struct leader_watch_settings *settings,
                        struct leader_watch **ret) CONCLAVE_MUST_USE;

/* Stops; done is called from the loop when no request is under way. */
void leader_watch_close(struct leader_watch *watch, void (*done)(void *ctx), void *ctx);

/* --- this manager */

/* A report with this number is about to be written. Returns its lead_ms. session_timeout_ms: negotiated; 0 not known. */
int64_t leader_watch_report(struct leader_watch *watch, uint64_t seq, int64_t session_timeout_ms);

/* A report was read back from the ensemble. One of another incarnation, such as an earlier life, is ignored. */
void leader_watch_read_back(struct leader_watch *watch, const struct redis_report *report);

/* This manager begins to lead, or no longer leads. */
void leader_watch_lead(struct leader_watch *watch, bool leads);

/* Whether this manager may act, if it leads; and for how many milliseconds, if no further report is confirmed. */
bool leader_watch_may_act(const struct leader_watch *watch);
int64_t leader_watch_left_ms(const struct leader_watch *watch);

/* --- another manager */

/* It leads, by this node of the election; id "": none, or this manager itself. Copied. */
void leader_watch_follow(struct leader_watch *watch, const char *id, const char *node);

/* --- both */

/* Time has passed, or reports or servers may have changed. */
void leader_watch_look(struct leader_watch *watch);

#endif
