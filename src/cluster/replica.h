/*
 * The part of a server that its clients do not see: the log, the links to the other members, and the server's part in
 * its ensemble. Owns all of them, on a libuv loop.
 *
 *   (empty folder, several members configured) → FOUNDING ──found or join──> RUNNING
 *   (everything else) ───────────────────────────────────────────────────────^ │ ^ ^
 *                                       the log failed, others continue ───────v │ │ joins, empty
 *                                                                       ASIDE ───┘ │
 *     damage, in the folder or of the state: waits for the others ────> DAMAGED ───┘
 *
 * A standalone server whose log fails cannot continue and reports it (`failed`). A member of an ensemble steps aside:
 * it disconnects its clients, gives up the lead, and opens its folder again after a while, because the disk decides,
 * not the memory. The other members repair damaged data (repair.h).
 */
#ifndef CLUSTER_REPLICA_H
#define CLUSTER_REPLICA_H

#include "cluster/ensemble.h"
#include "cluster/links/peer.h"
#include "cluster/server_options.h"
#include "cluster/snapshot_schedule.h"

struct import_source;
struct replica;

enum replica_stage { NODE_FOUNDING, NODE_RUNNING, NODE_ASIDE, NODE_DAMAGED };

struct replica_callbacks {
    void *ctx;

    /* The server can accept clients: called once, from the loop. */
    void (*serve)(void *ctx);

    /* This server cannot continue (called once). */
    void (*failed)(void *ctx, int error, const char *text);
};

/* Borrows options and service until it is closed. NULL: out of memory. */
struct replica *replica_create(uv_loop_t *loop, const struct server_options *options,
                               struct service *service, const struct replica_callbacks *callbacks);

/* The folder has files of an Apache ZooKeeper, with which the ensemble may begin. Call it before replica_open; borrowed until
 * the replica is closed. */
void replica_set_import(struct replica *n, const struct import_source *source);

/* The sink for the service's batches; valid from replica_create on. */
struct pipeline_sink replica_sink(struct replica *n);

/* Call it when the service is ready: recovers the folder, opens the peer port, starts. Errors are those of
 * replication_open and peers_open, with *ret_text (free it). Call replica_close after an error, too. */
int replica_open(struct replica *n, char **ret_text) CONCLAVE_MUST_USE;

/* The end of a turn: gives what was gathered to the disk and to the others. */
void replica_turn(struct replica *n);

/* Regular work: due at the deadline (monotonic ms), harmless earlier. */
void replica_tick(struct replica *n);
int64_t replica_deadline(const struct replica *n);

/* Hands the lead over, if this server leads and another can take over. False: there is nothing to wait for. */
bool replica_resign(struct replica *n);

/* Whether this server still leads others. */
bool replica_leads_others(const struct replica *n);

/* Closes the log and the links, then calls cb; n is freed by then. */
void replica_close(struct replica *n, void (*cb)(void *ctx), void *ctx);

/* Reads the certificate files of the peer links again. 0, CONCLAVE_EUNSUPPORTED: there are none; or an error with *ret_text
 * (free it). */
int replica_reload(struct replica *n, char **ret_text) CONCLAVE_MUST_USE;

/* Other secrets for new peer links, as in ensemble_options, with a log line. Errors as replica_reload. */
int replica_set_secrets(struct replica *n, struct slice secret, struct slice other,
                        char **ret_text) CONCLAVE_MUST_USE;

/* The applied members, or the configured ones until then; borrowed until the loop runs. */
size_t replica_members(const struct replica *n, const struct configuration_member **ret);

/* The mode as Apache ZooKeeper names it: "standalone", "leader", "follower", "observer" or "read-only". */
const char *replica_mode(const struct replica *n);

/* NULL while the server can answer writes; otherwise the reason, as a fixed text. */
const char *replica_why_not_ready(const struct replica *n);

/* For status and metrics. The log is NULL while it is not open. */
enum replica_stage replica_stage(const struct replica *n);
bool replica_is_damaged(const struct replica *n); /* until the repair is complete */
struct replication *replica_log(const struct replica *n);
struct ensemble *replica_ensemble(struct replica *n);
const struct peers *replica_peers(const struct replica *n);
struct snapshot_schedule *replica_snapshots(struct replica *n);

#endif
