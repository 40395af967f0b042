/*
 * A mirror of a node, of a node with its children, or of a whole branch, kept up to date. The
 * group's view, the watched value and tree and the registry's cache use it.
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

/* For mirror.depth: 0 is the node alone. */
enum { MIRROR_WHOLE = 1 << 20 };

/* A node as it was read; never changes. */
struct mirror_item {
    unsigned refs;
    const char *path; /* below the root, without the first slash; "" is the root */
    const void *data; /* NULL: the null value */
    size_t data_len;
    struct conclave_stat stat;
};

/* All that was there, ordered by path. */
struct mirror_view {
    struct mirror_item **items;
    size_t count;
    int64_t zxid; /* the state of the tree that it shows, or a later one; never goes back */
};

struct mirror {
    struct machine machine;
    char *path; /* absolute */
    int depth;
    int64_t debounce_ms;            /* wait that long for more changes before reporting one */
    void (*told)(struct mirror *m); /* mirror_view gives something new, or `fresh` changed */
    void (*failed)(struct mirror *m, int error); /* it will not get better */

    struct map nodes;   /* by path */
    struct list wanted; /* nodes to be read */
    unsigned in_flight; /* reads of nodes */
    struct step step;   /* sync and watch */
    struct client_timer telling;
    unsigned refused; /* times that a link ended upon asking for a persistent watch */
    bool active;
    bool once;         /* to be looked at once: without watches */
    bool one_shot;     /* the server has no persistent watches */
    bool watching;     /* the persistent watch is set */
    bool resuming;     /* it is about to be set again on a new link */
    bool synced;       /* since the last link came */
    bool refresh;      /* all is to be read again */
    bool fresh;        /* all was read since the last link came, and the link is up */
    bool changed;      /* since the last report */
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

/* The present nodes. 0 or CONCLAVE_ENOMEM. */
int mirror_view(const struct mirror *m, struct mirror_view *ret) CONCLAVE_MUST_USE;

/* Takes out of a view the items that `keep` refuses. */
void mirror_view_keep(struct mirror_view *view, bool (*keep)(const struct mirror_item *item));

/* Frees what a view holds and empties it. */
void mirror_view_clear(struct mirror_view *view);

/* In the handle's free. Zeroed memory is all right. */
void mirror_finish(struct mirror *m);

#endif
