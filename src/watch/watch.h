/*
 * Who asked to be told of what: one-shot watches on paths, held by watchers (connections). Knows
 * nothing of the tree. Kinds stand beside each other, so that persistent and recursive ones are rows more.
 */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

#include "base/list.h"
#include "base/slice.h"

#include <conclave/error.h>

#include <stddef.h>

enum watch_kind {
    WATCH_DATA,  /* set by exists and getData */
    WATCH_CHILD, /* set by getChildren */
};

/* Event types have the numbers of the wire (Watcher.Event.EventType). */
enum watch_event {
    WATCH_NODE_CREATED = 1,
    WATCH_NODE_DELETED = 2,
    WATCH_NODE_DATA_CHANGED = 3,
    WATCH_NODE_CHILDREN_CHANGED = 4,
};

struct watch_table;

/* Embedded by value in whoever watches. */
struct watcher {
    struct list watches; /* its watches, for removal when it goes */
    size_t count;        /* how many */
};

struct watch_table *watch_table_create(void);
void watch_table_destroy(struct watch_table *t); /* watchers must have been finished */

void watcher_init(struct watcher *w);
/* Removes all its watches. */
void watcher_finish(struct watch_table *t, struct watcher *w);

/* Sets a watch; setting it twice is one watch. Copies path. 0 or CONCLAVE_ENOMEM. */
int watch_add(struct watch_table *t, struct watcher *w, enum watch_kind kind,
              struct slice path) CONCLAVE_MUST_USE;

typedef void (*watch_fn)(void *ctx, struct watcher *w, enum watch_event event, struct slice path);

/*
 * Removes the watches that the event fires and calls fn once per watcher, in the order in which they were set.
 * Created, deleted, data changed fire data watches; deleted and children changed fire child watches; a
 * watcher with both kinds hears of a deletion once. fn must not add or remove watches. Returns how many were told.
 */
size_t watch_trigger(struct watch_table *t, enum watch_event event, struct slice path, watch_fn fn,
                     void *ctx);

struct watch_stats {
    size_t watches;
    size_t paths;
    size_t watchers; /* with at least one watch */
};
void watch_stats(const struct watch_table *t, struct watch_stats *ret);

#endif
