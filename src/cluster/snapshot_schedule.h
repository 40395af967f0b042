/*
 * When to take snapshots of the state, and what the newest one contains. It sits between the service, which has the
 * state, and the log, which writes it in steps.
 */
#ifndef CLUSTER_SNAPSHOT_SCHEDULE_H
#define CLUSTER_SNAPSHOT_SCHEDULE_H

#include "front/service.h"
#include "replication/replication.h"

/* A durable snapshot. */
struct server_snapshot {
    uint64_t index; /* as in the name of its file; 0: none */
    int64_t zxid;
};

struct snapshot_schedule {
    struct service *service;
    struct replication *log;      /* NULL until it is open */
    uint64_t writes;              /* writes between two snapshots, at random from half of it up */
    uint64_t at;                  /* value of service.stats.applied for the next one */
    struct server_snapshot begun; /* the last that was begun or restored */
    struct server_snapshot done;  /* the one before it, which may be the newest durable one */
    uint64_t generation;          /* of the state that is being written */
};

void snapshot_schedule_init(struct snapshot_schedule *s, struct service *service, uint64_t writes);

/* The log is open, with or without a restore before. */
void snapshot_schedule_opened(struct snapshot_schedule *s, struct replication *log);

/* An entry was applied; `generation` is the service's value before it. */
void snapshot_schedule_applied(struct snapshot_schedule *s, uint64_t generation);

/* The log's callbacks. */
int snapshot_schedule_begin(struct snapshot_schedule *s) CONCLAVE_MUST_USE;
int snapshot_schedule_step(struct snapshot_schedule *s, size_t max_bytes,
                           struct buf *out) CONCLAVE_MUST_USE;
void snapshot_schedule_abort(struct snapshot_schedule *s);

/* The newest durable snapshot. */
void snapshot_schedule_newest(const struct snapshot_schedule *s, struct server_snapshot *ret);

#endif
