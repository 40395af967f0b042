/*
 * A cache: a mirror that other threads look into (cache_lookup.c), and a handle that reports its changes (cache.c).
 */
#ifndef RECIPES_CACHE_CACHE_H
#define RECIPES_CACHE_CACHE_H

#include "recipes/cache/path_patterns.h"
#include "recipes/engine/handle_calls.h"
#include "recipes/engine/tree_mirror.h"

struct conclave_cache {
    struct host host; /* first */
    struct mirror mirror;
    struct conclave_cache_callbacks callbacks;
    void *ctx;
    struct path_patterns patterns;

    /* Guards nodes, zxid and fresh of the mirror, and the next three. Taken with or without the client's lock, which is
     * never taken inside. Writers go first: readers in a loop cannot keep the client's thread away. */
    pthread_rwlock_t readers;
    bool has_readers; /* it was initialised */
    bool loaded;
    bool ended;
    int error; /* why it has stopped following; 0: it has not */

    int64_t stale_since_ns; /* while not fresh */
    bool due;               /* something may be to be reported */
    bool told_loaded;       /* the rest is the dispatcher's: what was reported */
    bool told_fresh;
    int told_error;
    struct client_timer again; /* there was no memory to report */
};

#endif
