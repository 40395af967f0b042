/*
 * When snapshots of the state are taken, and what stands in the newest: between the service, which has
 * the state, and the log, which writes it out in steps.
 */
#ifndef CLUSTER_SNAPSHOT_SCHEDULE_H
#define CLUSTER_SNAPSHOT_SCHEDULE_H

#include "front/service.h"
#include "replication/replication.h"

/* A durable snapshot. */
struct server_snapshot {
    uint64_t index; /* in its file's name; 0: there is none */
    int64_t zxid;
};

struct snapshots {
    struct service *service;
    struct replication *log;      /* NULL until it is open */
    uint64_t writes;              /* between two of them, at random from half of it up */
    uint64_t at;                  /* of service.stats.applied */
    struct server_snapshot begun; /* the latest that was begun, or restored */
    struct server_snapshot done;  /* the one before it, which may be the newest durable one */
    uint64_t generation;          /* of the state that is being written out */
};

void snapshots_init(struct snapshots *s, struct service *service, uint64_t writes);

/* The log is open, after a restore or none. */
void snapshots_opened(struct snapshots *s, struct replication *log);

/* Something was applied; `generation` is the service's before it. */
void snapshots_applied(struct snapshots *s, uint64_t generation);

/* The state was replaced by a snapshot. */
void snapshots_restored(struct snapshots *s);

/* No more are begun. */
void snapshots_end(struct snapshots *s);

/* The log's callbacks. */
int snapshots_begin(struct snapshots *s) CONCLAVE_MUST_USE;
int snapshots_step(struct snapshots *s, size_t max_bytes, struct buf *out) CONCLAVE_MUST_USE;
void snapshots_abort(struct snapshots *s);

/* The newest that is durable. */
void snapshots_newest(const struct snapshots *s, struct server_snapshot *ret);

#endif
