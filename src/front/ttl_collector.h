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

struct collector_options {
    int64_t interval_ms;   /* between looks: znode.container.checkIntervalMs */
    int64_t per_minute;    /* deletions: znode.container.maxPerMinute */
    int64_t never_used_ms; /* znode.container.maxNeverUsedIntervalMs; 0: such containers stay */
};

/* What Apache ZooKeeper does without keys. */
struct collector_options collector_options_default(void);

struct collector {
    struct collector_options options;
    int64_t look_at; /* when the next look begins, monotonic ms; INT64_MAX before collector_begin */
    int64_t propose_at; /* when the next deletions may be proposed */
    size_t left;        /* nodes that this look has not come to */
    struct buf found;   /* bodies of commands, each behind its length, not proposed yet */
    size_t found_at;    /* of them: where the next begins */
    uint64_t proposed;  /* deletions since the start */
};

void collector_init(struct collector *c, const struct collector_options *options);
void collector_finish(struct collector *c);

/* The first look comes one interval from now. */
void collector_begin(struct collector *c, int64_t now_ms);

/* Proposes one deletion: the body of a DELETE_CONTAINER command, borrowed. False when it could not: it is tried
 * again later. */
typedef bool (*collector_propose_fn)(void *ctx, struct slice body);

/* Does what is due. Harmless when nothing is. */
void collector_tick(struct collector *c, struct state *state, int64_t now_ms, int64_t wall_ms,
                    collector_propose_fn propose, void *ctx);

/* When collector_tick is due, monotonic ms. */
int64_t collector_deadline(const struct collector *c);

#endif
