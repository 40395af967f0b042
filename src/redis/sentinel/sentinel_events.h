/*
 * Derives Sentinel's events from the differences between two looks at the facts. Pure.
 *
 *   +sdown -sdown                    this manager finds a server down, or up again
 *   +odown -odown                    the managers begin to replace a master that is down, or stop doing so
 *   +new-epoch +try-failover +selected-slave +failover-end   the steps of a plan
 *   +switch-master                   the record names another master, which takes writes
 *   +slave                           the record lists a new replica
 *   +sentinel                        another manager serves this protocol
 *   +tilt -tilt                      this manager loses its contact to the ensemble, or gets it back
 *
 * If the master changes while there is no contact, the event follows when there is contact again.
 */
#ifndef REDIS_SENTINEL_SENTINEL_EVENTS_H
#define REDIS_SENTINEL_SENTINEL_EVENTS_H

#include "redis/sentinel/sentinel_facts.h"

/* The last look. All zero: none yet. */
struct sentinel_seen {
    bool begun;
    bool in_contact;
    bool o_down;
    uint32_t s_down;                 /* bit i: config->nodes[i] */
    uint32_t replicas;               /* the same: listed by the record */
    char master[REDIS_ADDRESS_SIZE]; /* the last one that was named; "" */
    char plan[REDIS_NAME_SIZE];      /* id of the plan; "" */
    char target[REDIS_ADDRESS_SIZE]; /* of the plan; "" */
    size_t peer_count;
    char peers[REDIS_MANAGERS_MAX][REDIS_ADDRESS_SIZE];
};

typedef void (*sentinel_event_fn)(void *ctx, const char *channel, const char *message);

/* Reports what has changed since the last look, in this order, and keeps the facts for the next one. The first look reports
 * nothing. */
void sentinel_events_look(struct sentinel_seen *seen, const struct sentinel_facts *facts,
                          sentinel_event_fn fn, void *ctx);

#endif
