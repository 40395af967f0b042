/*
 * The side of a server that its clients do not see: the log, the links to the other members, the part
 * that it has in its ensemble. Owns all of them, on a libuv loop.
 *
 *   (empty folder, several members configured) → FOUNDING ──found or join──> RUNNING
 *   (everything else) ───────────────────────────────────────────────────────^ │ ^ ^
 *                                              the log failed, others go on ───v │ │ joins, empty
 *                                                                       ASIDE ───┘ │
 *     damage, in the folder or of the state: the others are awaited ──> DAMAGED ───┘
 *
 * A standalone server whose log fails cannot go on and says so (`failed`). A member of an ensemble
 * steps aside: it lets its clients go to others, gives up the lead, and opens its folder again after a
 * while: what the disk really has decides, not what was in memory. What is damaged there is healed from the others
 * (repair.h).
 */
#ifndef CLUSTER_REPLICA_H
#define CLUSTER_REPLICA_H

#include "cluster/ensemble.h"
#include "cluster/links/peer.h"
#include "cluster/server_options.h"
#include "cluster/snapshot_schedule.h"

struct node;

enum node_stage { NODE_FOUNDING, NODE_RUNNING, NODE_ASIDE, NODE_DAMAGED };

struct node_callbacks {
    void *ctx;

    /* Clients can be let in: from the loop, once. */
    void (*serve)(void *ctx);

    /* This server cannot go on (told once). */
    void (*failed)(void *ctx, int error, const char *text);
};

/* Borrows options and service until it is closed. NULL when memory is out. */
struct node *node_create(uv_loop_t *loop, const struct server_options *options,
                         struct service *service, const struct node_callbacks *callbacks);

/* Where the service's batches go; good from node_create on. */
struct pipeline_sink node_sink(struct node *n);

/* The service is there: recovers the folder, opens the peer port, starts. Errors as of
 * replication_open and peers_open, with *ret_text (free it). After an error too node_close is due. */
int node_open(struct node *n, char **ret_text) CONCLAVE_MUST_USE;

/* The end of a turn: what was gathered goes to the disk and to the others. */
void node_turn(struct node *n);

/* Due at the deadline (monotonic ms), harmless earlier. */
void node_tick(struct node *n);
int64_t node_deadline(const struct node *n);

/* Hands the lead over, if this server has it and somebody can take it. False when there is nothing
 * to wait for. */
bool node_resign(struct node *n);

/* Whether it still leads others. */
bool node_leads_others(const struct node *n);

/* Closes the log and the links, then calls cb; n is gone then. */
void node_close(struct node *n, void (*cb)(void *ctx), void *ctx);

/* Reads the certificate files of the peer links again. False when there are none. */
bool node_reload(struct node *n);

/* The members as applied, or as configured until then; borrowed until the loop runs. */
size_t node_members(const struct node *n, const struct member **ret);

/* As Apache ZooKeeper names it: "standalone", "leader", "follower", "observer" or "read-only". */
const char *node_mode(const struct node *n);

/* NULL when writes can be answered; otherwise why not, as a fixed text. */
const char *node_why_not_ready(const struct node *n);

/* For status and metrics. The log is NULL while it is not open. */
enum node_stage node_stage(const struct node *n);
bool node_is_damaged(const struct node *n); /* until it is healed */
struct replication *node_log(const struct node *n);
struct ensemble *node_ensemble(struct node *n);
const struct peers *node_peers(const struct node *n);
struct snapshots *node_snapshots(struct node *n);

#endif
