/*
 * Who asked to be told of what: watches on paths, held by watchers (connections). Knows nothing of
 * the tree. Kinds stand beside each other: a watcher may have one of each at a path. Limits:
 * 2^32 - 2 watches in a table; a path that several watch is there once, and charged to each; the memory of a watch is used again for the next one and goes back
 * to the heap when the table holds no watch any more.
 */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

#include "base/account.h"
#include "base/hash.h"
#include "base/slice.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum watch_kind {
    WATCH_DATA,       /* set by exists and getData; goes when it is told of something */
    WATCH_CHILD,      /* set by getChildren; likewise */
    WATCH_PERSISTENT, /* stays; told of everything at its path */
    WATCH_RECURSIVE,  /* stays; told of its path and all below, but never of children changed */
    WATCH_KINDS,      /* how many kinds there are */
};

/* Event types have the numbers of the wire (Watcher.Event.EventType). */
enum watch_event {
    WATCH_NODE_CREATED = 1,
    WATCH_NODE_DELETED = 2,
    WATCH_NODE_DATA_CHANGED = 3,
    WATCH_NODE_CHILDREN_CHANGED = 4,
};

struct watch_table;

/* Embedded by value in whoever watches; belongs to one table while it has watches. */
struct watcher {
    size_t count; /* how many watches it has */
    size_t child; /* of them, those of WATCH_CHILD */
    struct account
        *account;   /* charged with each watch and the bytes of its path; NULL: nobody counts */
    uint64_t told;  /* number of the last trigger that told it: it is told once per trigger */
    uint32_t first; /* its first watch, by number in the table; 0: none */
};

/* The key is random, so that clients cannot choose paths that meet in the table. NULL when memory is
 * out. */
struct watch_table *watch_table_create(const struct hash_key *key);
void watch_table_destroy(struct watch_table *t); /* watchers must have been finished */

void watcher_init(struct watcher *w);
/* Removes all its watches, at a cost that depends on their number only. */
void watcher_finish(struct watch_table *t, struct watcher *w);

/* Sets a watch; setting it twice is one watch, in its first place. Copies path. 0 or
 * CONCLAVE_ENOMEM. */
int watch_add(struct watch_table *t, struct watcher *w, enum watch_kind kind,
              struct slice path) CONCLAVE_MUST_USE;

/* Whether the watch is set. */
bool watch_has(const struct watch_table *t, const struct watcher *w, enum watch_kind kind,
               struct slice path);

/* Takes a watch back; false when there is none. */
bool watch_remove(struct watch_table *t, struct watcher *w, enum watch_kind kind,
                  struct slice path);

typedef void (*watch_fn)(void *ctx, struct watcher *w, enum watch_event event, struct slice path);

/*
 * Calls fn once for each watcher that has a watch which the event fires, and removes those watches
 * that do not stay. Created, deleted, data changed fire data watches; deleted and children changed
 * fire child watches. Watchers come in the order in which their watches at the path were set, then
 * those with recursive ones above it, from "/" down. fn is given the caller's own path, and must not add or remove
 * watches. Returns how many were told.
 */
size_t watch_trigger(struct watch_table *t, enum watch_event event, struct slice path, watch_fn fn,
                     void *ctx);

/* Calls fn once for each watcher at each path that has a watch there of another kind than WATCH_CHILD, path by path, until
 * it returns false: what Apache ZooKeeper's dataWatches hold. fn must not change the table. */
void watch_each_data(const struct watch_table *t,
                     bool (*fn)(void *ctx, struct slice path, struct watcher *w), void *ctx);

struct watch_stats {
    size_t watches;
    size_t paths;
    size_t watchers;      /* with at least one watch */
    size_t recursive;     /* watches of that kind */
    size_t memory;        /* bytes asked of the heap */
    size_t data_watches;  /* those of other kinds than WATCH_CHILD, */
    size_t data_paths;    /* their paths, */
    size_t data_watchers; /* and whose they are */
};
void watch_stats(const struct watch_table *t, struct watch_stats *ret);

#endif
