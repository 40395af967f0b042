/*
 * The knowledge of a manager as Sentinel's protocol shows it, and the rule which master may be named. Pure.
 *
 * A master is named only if the ensemble confirmed within --sentinel-stale that the record names it. A manager without contact to
 * the ensemble names none: it could have been replaced. While the named master must not be written to (it is being replaced,
 * or nobody knows), it has the flags of a master that is down, as a sentinel would show it.
 */
#ifndef REDIS_SENTINEL_SENTINEL_FACTS_H
#define REDIS_SENTINEL_SENTINEL_FACTS_H

#include "redis/planner/down_vote.h"

enum { SENTINEL_ID_SIZE = 41 };

/* Borrowed pointers, good for one call. */
struct sentinel_facts {
    const char *name; /* of the cluster: Sentinel's name of the master */
    const char *id;   /* of this manager */
    int port;         /* of Sentinel's protocol */
    const struct redis_config *config;
    const struct redis_node *nodes;        /* own view of config->nodes */
    const struct redis_current *current;   /* NULL: no record, or not read yet */
    const struct redis_plan *plan;         /* NULL: none */
    const struct redis_managers *managers; /* the others */
    bool in_contact;                       /* the ensemble has answered lately */
    bool proved;                           /* ... and confirmed the epoch of `current` */
    bool writable;                         /* ... and clients may write to its master */
    int64_t now_ms;                        /* of the clock of nodes and managers */
};

/* The place of the record's master in config->nodes, or REDIS_NONE. */
int sentinel_master(const struct sentinel_facts *facts);

/* The master of a record that is proved, or NULL. */
const char *sentinel_named_master(const struct sentinel_facts *facts);

/* Whether this manager sees the server as down. */
bool sentinel_s_down(const struct sentinel_facts *facts, int node);

/* Whether enough managers see the master as down: it is being replaced without a request, or cannot be. */
bool sentinel_o_down(const struct sentinel_facts *facts);

/* Whether the record lists the server as a replica. */
bool sentinel_is_replica(const struct sentinel_facts *facts, int node);

/* Where the manager of a report serves this protocol. False: nowhere, or the text is no address. */
bool sentinel_peer(const struct redis_report *report, struct redis_node_config *ret);

/* A stable id of 40 hex digits for a manager. */
void sentinel_id_of(const char *cluster, const char *manager, char ret[SENTINEL_ID_SIZE]);

#endif
