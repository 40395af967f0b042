/*
 * The collector of nodes that delete themselves: once per interval it searches all containers and nodes with a TTL, and
 * proposes the deletion of spent ones, at a limited rate so that a wave of deletions does not become a wave of events.
 * Only the leader runs it.
 *
 * Limits: a search runs in steps, so that many nodes stall no client; found nodes wait in about a megabyte at most.
 */
#ifndef FRONT_LIMITS_TTL_COLLECTOR_H
#define FRONT_LIMITS_TTL_COLLECTOR_H

#include "base/buf.h"
#include "state/state.h"

struct ttl_collector_options {
    int64_t interval_ms;   /* between searches: znode.container.checkIntervalMs */
    int64_t per_minute;    /* limit of deletions: znode.container.maxPerMinute */
    int64_t never_used_ms; /* znode.container.maxNeverUsedIntervalMs; 0: they stay */
};

/* The defaults of Apache ZooKeeper. */
struct ttl_collector_options ttl_collector_options_default(void);

struct ttl_collector {
    struct ttl_collector_options options;
    /* when the next search begins, monotonic ms; INT64_MAX: never */
    int64_t look_at;
    int64_t propose_at; /* when the next deletions may be proposed */
    size_t left;        /* nodes that this search has not reached */
    struct buf found;   /* bodies of commands that are not proposed yet, each after its length */
    size_t found_at;    /* offset of the next one */
    uint64_t proposed;  /* deletions since the start */
};

void ttl_collector_init(struct ttl_collector *c, const struct ttl_collector_options *options);

/* Proposes one deletion: the body of a DELETE_CONTAINER command, borrowed. False: it failed and is tried again
 * later. */
typedef bool (*ttl_collector_propose_fn)(void *ctx, struct slice body);

/* Does the work that is due, if any. */
void ttl_collector_tick(struct ttl_collector *c, struct state *state, int64_t now_ms,
                        int64_t wall_ms, ttl_collector_propose_fn propose, void *ctx);

/* When ttl_collector_tick is due, monotonic ms. */
int64_t ttl_collector_deadline(const struct ttl_collector *c);

#endif
