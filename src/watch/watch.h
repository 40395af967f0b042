/*
 * Watches on paths, held by watchers (connections). This room does not know the tree. A watcher may have one watch of
 * each kind at a path. Limits: 2^32 - 2 watches in a table. A path with several watches is stored once, but charged for
 * each. The memory of a watch is reused for the next one, and freed when the table has no watches left.
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
    WATCH_DATA,       /* set by exists and getData; removed by its first event */
    WATCH_CHILD,      /* set by getChildren; removed by its first event */
    WATCH_PERSISTENT, /* stays; gets all events at its path */
    WATCH_RECURSIVE,  /* stays; gets events at its path and below, except children changed */
    WATCH_KINDS,      /* number of kinds */
};

/* Event types have the numbers of the wire (Watcher.Event.EventType). */
enum watch_event {
    WATCH_NODE_CREATED = 1,
    WATCH_NODE_DELETED = 2,
    WATCH_NODE_DATA_CHANGED = 3,
    WATCH_NODE_CHILDREN_CHANGED = 4,
};

struct watch_table;

/* Embedded by value in the watching object; belongs to one table while it has watches. */
struct watcher {
    size_t count;            /* number of its watches */
    size_t child;            /* those of kind WATCH_CHILD */
    struct account *account; /* charged with each watch and the bytes of its path; NULL: none */
    uint64_t told;           /* number of the last trigger that reported to it: once per trigger */
    uint32_t first;          /* its first watch, as a number in the table; 0: none */
};

/* The key is random, so that clients cannot choose paths that share a bucket. NULL: out of memory. */
struct watch_table *watch_table_create(const struct hash_key *key);
void watch_table_destroy(struct watch_table *t); /* watchers must have been finished */

void watcher_init(struct watcher *w);
/* Removes all its watches; the cost depends only on their number. */
void watcher_finish(struct watch_table *t, struct watcher *w);

/* Sets a watch; setting it again has no effect. Copies path. 0 or CONCLAVE_ENOMEM. */
int watch_add(struct watch_table *t, struct watcher *w, enum watch_kind kind,
              struct slice path) CONCLAVE_MUST_USE;

/* Whether the watch is set. */
bool watch_has(const struct watch_table *t, const struct watcher *w, enum watch_kind kind,
               struct slice path);

/* Removes a watch; false: there is none. */
bool watch_remove(struct watch_table *t, struct watcher *w, enum watch_kind kind,
                  struct slice path);

/* How many watches of each kind are set at exactly this path, looking at `most` of each. */
void watch_count(const struct watch_table *t, struct slice path, size_t most,
                 size_t ret_counts[WATCH_KINDS]);

typedef void (*watch_fn)(void *ctx, struct watcher *w, enum watch_event event, struct slice path);

/*
 * Calls fn once for each watcher with a watch that the event fires, and removes those watches that do not stay.
 * Created, deleted and data changed fire data watches; deleted and children changed fire child watches. Watchers are
 * called in the order in which their watches at the path were set, then those with recursive watches above it, from "/"
 * down. fn gets the caller's own path, and must not add or remove watches. Returns the number of calls.
 */
size_t watch_trigger(struct watch_table *t, enum watch_event event, struct slice path, watch_fn fn,
                     void *ctx);

/* Calls fn once for each watcher at each path with a watch of another kind than WATCH_CHILD, path by path, until it
 * returns false: these are Apache ZooKeeper's dataWatches. fn must not change the table. */
void watch_each_data(const struct watch_table *t,
                     bool (*fn)(void *ctx, struct slice path, struct watcher *w), void *ctx);

struct watch_stats {
    size_t watches;
    size_t paths;
    size_t watchers;      /* watchers with at least one watch */
    size_t recursive;     /* watches of that kind */
    size_t memory;        /* bytes of heap memory */
    size_t data_watches;  /* watches of other kinds than WATCH_CHILD */
    size_t data_paths;    /* their paths */
    size_t data_watchers; /* their watchers */
};
void watch_stats(const struct watch_table *t, struct watch_stats *ret);

#endif
