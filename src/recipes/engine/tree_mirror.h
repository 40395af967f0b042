/*
 * A mirror of a node, of a node with its children, or of a whole branch, kept up to date. The
 * group's view, the watched value and tree, the registry and conclave_cache use it.
 *
 * Level-triggered: an event says where to look, only the node's state there counts. On servers that
 * know persistent watches one of them serves the branch; elsewhere each node has its one-shot
 * watches. After every new link all is read again, behind a sync, with or without events. A node
 * that was deleted and made again is a new one (czxid), even if no read found it missing.
 *
 * The mirror reports a change when it has read all changed nodes (so a burst costs one report).
 * While changes do not end, it reports from time to time. Without a link it stays as it is, and is
 * called stale.
 *
 * Lock of the client held for all functions.
 */
#ifndef RECIPES_ENGINE_TREE_MIRROR_H
#define RECIPES_ENGINE_TREE_MIRROR_H

#include "base/map.h"
#include "recipes/engine/machine.h"

#include <conclave/cache.h>

#include <pthread.h>
#include <stdatomic.h>

/* For mirror.depth: 0 is the node alone. */
enum { MIRROR_WHOLE = 1 << 20 };

/* A node as it was read. It does not change while anybody besides the mirror refers to it. */
struct mirror_item {
    struct conclave_cache_node node; /* first: as conclave_cache hands it out */
    struct conclave_stat stat;
    const char *path; /* below the root, without the first slash; "" is the root */
    _Atomic unsigned refs;
};

/* All that was there, ordered by path. */
struct mirror_view {
    struct mirror_item **items;
    size_t count;
    int64_t zxid; /* the state of the tree that it shows, or a later one; never goes back */
};

/* before NULL: created; after NULL: deleted. */
struct mirror_change {
    struct mirror_item *before;
    struct mirror_item *after;
};

struct mirror {
    struct machine machine;
    char *path; /* absolute */
    int depth;
    int64_t debounce_ms;            /* wait that long for more changes before reporting one */
    void (*told)(struct mirror *m); /* mirror_view gives something new, or `fresh` changed */
    void (*failed)(struct mirror *m, int error); /* it will not get better */

    /* Set between init and start; zero: as the comments say. */
    pthread_rwlock_t *readers; /* held for writing while nodes, zxid or fresh change; NULL: nobody
                                  reads without the client's lock */
    bool (*takes)(const struct mirror *m, const char *relative); /* NULL: all nodes */
    size_t max_bytes;                                            /* 0: no limit */
    bool stats_only; /* keeps no data; reads none where there are persistent watches */
    bool tracks;     /* changes are kept for mirror_take_changes */

    struct map nodes;    /* by path */
    struct list unheard; /* nodes whose changes were not taken */
    size_t bytes;        /* memory of nodes and items */
    size_t present;      /* nodes with an item */
    size_t unreadable;   /* nodes that may not be read */
    struct list wanted;  /* nodes to be read */
    unsigned in_flight;  /* reads of nodes */
    struct step step;    /* sync and watch */
    struct client_timer telling;
    unsigned refused; /* times that a link ended upon asking for a persistent watch */
    bool active;
    bool once;         /* to be looked at once: without watches */
    bool one_shot;     /* the server has no persistent watches */
    bool watching;     /* the persistent watch is set */
    bool resuming;     /* it is about to be set again on a new link */
    bool synced;       /* since the last link came */
    bool sync_again;   /* after the one that is under way */
    bool refresh;      /* all is to be read again */
    bool fresh;        /* all was read since the last link came, and the link is up */
    bool changed;      /* since the last report */
    bool unsettled;    /* set by the owner after a report: report again when it is settled */
    int64_t read_zxid; /* newest of the answers */
    int64_t zxid;      /* up to there the mirror is complete */
};

/* 0 or CONCLAVE_ENOMEM; path is copied. `told` and `failed` are called later, never from within
 * a function here but mirror_on_state. */
int mirror_init(struct mirror *m, struct handle *owner, const char *path, int depth,
                void (*told)(struct mirror *m),
                void (*failed)(struct mirror *m, int error)) CONCLAVE_MUST_USE;

void mirror_start(struct mirror *m);

/* Forgets everything; reports nothing any more. */
void mirror_stop(struct mirror *m);

void mirror_on_state(struct mirror *m, enum conclave_state state);

/* Reads and watches nothing more, but keeps what is known. */
void mirror_halt(struct mirror *m);

/* Whether it shows exactly the tree as of `zxid`. */
bool mirror_is_settled(const struct mirror *m);

/* Brings `zxid` up to the present, though nothing may have changed here. */
void mirror_catch_up(struct mirror *m);

/* What changed since the last call, in the order that conclave/cache.h promises. 0 or
 * CONCLAVE_ENOMEM. mirror_changes_free needs no lock. */
int mirror_take_changes(struct mirror *m, struct mirror_change **ret,
                        size_t *ret_count) CONCLAVE_MUST_USE;
void mirror_changes_free(struct mirror_change *list, size_t count);

/* From now on no changes are kept. */
void mirror_forget_changes(struct mirror *m);

/* No lock needed. */
void mirror_item_unref(struct mirror_item *item);
void mirror_items_sort(struct mirror_item **items, size_t count);

/* The present nodes. 0 or CONCLAVE_ENOMEM. */
int mirror_view(const struct mirror *m, struct mirror_view *ret) CONCLAVE_MUST_USE;

/* Takes out of a view the items that `keep` refuses. */
void mirror_view_keep(struct mirror_view *view, bool (*keep)(const struct mirror_item *item));

/* Frees what a view holds and empties it. */
void mirror_view_clear(struct mirror_view *view);

/* In the handle's free. Zeroed memory is all right. */
void mirror_finish(struct mirror *m);

#endif
