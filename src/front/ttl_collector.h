/*
 * The collector of nodes that go by themselves: looks at all containers and nodes with a TTL once per
 * interval and proposes the deletion of those that are spent, no more than so many a minute, so that a
 * wave of deletions does not become a wave of events. Only the server that leads has one at work.
 *
 * Limits: a look goes on in steps, so that many nodes do not stall anybody; what it found waits in at
 * most about a megabyte.
 */
#ifndef FRONT_TTL_COLLECTOR_H
#define FRONT_TTL_COLLECTOR_H

#include "base/buf.h"
#include "state/state.h"

struct ttl_collector_options {
    int64_t interval_ms;   /* between looks: znode.container.checkIntervalMs */
    int64_t per_minute;    /* deletions: znode.container.maxPerMinute */
    int64_t never_used_ms; /* znode.container.maxNeverUsedIntervalMs; 0: such containers stay */
};

/* What Apache ZooKeeper does without keys. */
struct ttl_collector_options ttl_collector_options_default(void);

struct ttl_collector {
    struct ttl_collector_options options;
    /* when the next look begins, monotonic ms; INT64_MAX before ttl_collector_begin */
    int64_t look_at;
    int64_t propose_at; /* when the next deletions may be proposed */
    size_t left;        /* nodes that this look has not come to */
    struct buf found;   /* bodies of commands, each behind its length, not proposed yet */
    size_t found_at;    /* of them: where the next begins */
    uint64_t proposed;  /* deletions since the start */
};

void ttl_collector_init(struct ttl_collector *c, const struct ttl_collector_options *options);
void ttl_collector_finish(struct ttl_collector *c);

/* The first look comes one interval from now. */
void ttl_collector_begin(struct ttl_collector *c, int64_t now_ms);

/* Proposes one deletion: the body of a DELETE_CONTAINER command, borrowed. False when it could not: it is tried
 * again later. */
typedef bool (*ttl_collector_propose_fn)(void *ctx, struct slice body);

/* Does what is due. Harmless when nothing is. */
void ttl_collector_tick(struct ttl_collector *c, struct state *state, int64_t now_ms,
                        int64_t wall_ms, ttl_collector_propose_fn propose, void *ctx);

/* When ttl_collector_tick is due, monotonic ms. */
int64_t ttl_collector_deadline(const struct ttl_collector *c);

#endif
