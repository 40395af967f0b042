/*
 * Permits in the layouts of other libraries: a folder whose children are the permits that are held, and a lock (the
 * gate) whose holder alone may add some. Curator's InterProcessSemaphoreV2 has PATH/leases and PATH/locks; kazoo's
 * Semaphore has PATH itself and PATH-__lock__, and N in the data of PATH.
 *
 *   IDLE --> (LIMIT) --> GATE --gate held--> COUNT --room--> CREATE --made--> IDLE, with the nodes
 *    ^                           ^  |              |  ^
 *    |                      left |  | no room      |  '-- FIND: which ones are ours, after a lost answer
 *    |                           |  v              v
 *    '------ leaves, or the      WAIT            FIND --none--> COUNT
 *            gate was lost
 *
 * N may have changed: COUNT or CREATE -> LIMIT -> COUNT, with the gate.
 *
 * One transaction checks the gate's node and creates all nodes: so a gate that was lost adds none, and an acquire of
 * several permits gets all or none. It waits for room at the gate, before which all others wait: so two that want
 * several do not wait for each other.
 *
 * Lock of the client held for all functions but pool_create and pool_discard.
 */
#ifndef RECIPES_HOLD_LEASE_POOL_H
#define RECIPES_HOLD_LEASE_POOL_H

#include "recipes/hold/lock.h"

enum pool_phase {
    POOL_IDLE,
    POOL_LIMIT,  /* compares N, before the gate; again when it may have changed */
    POOL_GATE,   /* waits for the gate */
    POOL_COUNT,  /* counts the permits that are held */
    POOL_WAIT,   /* watches them: there is no room */
    POOL_CREATE, /* creates its own */
    POOL_FIND,   /* they may have been created */
};

struct lease_pool {
    struct conclave_lock *lock; /* the semaphore; NULL: it is being opened, or could not be */
    struct conclave_recipes *rt;
    struct conclave_lock *gate; /* NULL: it has closed */
    bool discarded;             /* the semaphore could not be opened: it ends with the gate */
    enum conclave_naming naming;
    int32_t take; /* permits of each acquire */
    char *leases; /* their folder */
    enum pool_phase phase;
    bool has_gate;    /* was let in, and has not left: not even if it lost the gate */
    bool limit_known; /* kazoo's layout: N was compared */
    int32_t limit_version;
    struct lock_request *request; /* for the gate, until its answer was delivered */
    struct step step;
    struct watch_slot watch; /* on the folder */
    struct ensure_path ensure;
    char prefix[NAME_PREFIX_MAX]; /* of the nodes of this attempt */
    int64_t session_id;           /* of their creation */
    int64_t sent_ns;
    char **nodes; /* paths; the first one becomes the contender's node */
    size_t nodes_count;
};

/* Opens the gate. 0, CONCLAVE_EINVAL, CONCLAVE_ENOMEM or why not. The options are a semaphore's, valid. */
int pool_create(struct conclave_recipes *rt, const struct conclave_lock_options *options,
                int32_t take, struct lease_pool **ret) CONCLAVE_MUST_USE;

/* The semaphore was opened; or could not be: the pool frees itself (no lock held). The gate may have closed before. */
void pool_attach(struct lease_pool *pool, struct conclave_lock *lock);
void pool_discard(struct lease_pool *pool);

/* In JOINING: does what is next; enters WAITING with the node, or OUT. */
void pool_run(struct lease_pool *pool);

/* Nothing is under way that another attempt would have to wait for. */
bool pool_is_quiet(const struct lease_pool *pool);

/* Ends the gate. Whether it has closed. */
bool pool_close(struct lease_pool *pool);

/* In LEAVING: deletes the nodes beside the contender's. False: no memory, try again. */
bool pool_leave(struct lease_pool *pool) CONCLAVE_MUST_USE;

void pool_free(struct lease_pool *pool);

#endif
