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

struct replica;

enum replica_stage { NODE_FOUNDING, NODE_RUNNING, NODE_ASIDE, NODE_DAMAGED };

struct replica_callbacks {
    void *ctx;

    /* Clients can be let in: from the loop, once. */
    void (*serve)(void *ctx);

    /* This server cannot go on (told once). */
    void (*failed)(void *ctx, int error, const char *text);
};

/* Borrows options and service until it is closed. NULL when memory is out. */
struct replica *replica_create(uv_loop_t *loop, const struct server_options *options,
                               struct service *service, const struct replica_callbacks *callbacks);

/* Where the service's batches go; good from replica_create on. */
struct pipeline_sink replica_sink(struct replica *n);

/* The service is there: recovers the folder, opens the peer port, starts. Errors as of
 * replication_open and peers_open, with *ret_text (free it). After an error too replica_close is due. */
int replica_open(struct replica *n, char **ret_text) CONCLAVE_MUST_USE;

/* The end of a turn: what was gathered goes to the disk and to the others. */
void replica_turn(struct replica *n);

/* Due at the deadline (monotonic ms), harmless earlier. */
void replica_tick(struct replica *n);
int64_t replica_deadline(const struct replica *n);

/* Hands the lead over, if this server has it and somebody can take it. False when there is nothing
 * to wait for. */
bool replica_resign(struct replica *n);

/* Whether it still leads others. */
bool replica_leads_others(const struct replica *n);

/* Closes the log and the links, then calls cb; n is gone then. */
void replica_close(struct replica *n, void (*cb)(void *ctx), void *ctx);

/* Reads the certificate files of the peer links again. False when there are none. */
bool replica_reload(struct replica *n);

/* The members as applied, or as configured until then; borrowed until the loop runs. */
size_t replica_members(const struct replica *n, const struct configuration_member **ret);

/* As Apache ZooKeeper names it: "standalone", "leader", "follower", "observer" or "read-only". */
const char *replica_mode(const struct replica *n);

/* NULL when writes can be answered; otherwise why not, as a fixed text. */
const char *replica_why_not_ready(const struct replica *n);

/* For status and metrics. The log is NULL while it is not open. */
enum replica_stage replica_stage(const struct replica *n);
bool replica_is_damaged(const struct replica *n); /* until it is healed */
struct replication *replica_log(const struct replica *n);
struct ensemble *replica_ensemble(struct replica *n);
const struct peers *replica_peers(const struct replica *n);
struct snapshot_schedule *replica_snapshots(struct replica *n);

#endif
