/*
 * The nodes of a mirror (tree_mirror.h): what is known of each, views of them, and the changes that were not reported yet.
 *
 * Lock of the client held for all functions, unless said otherwise. With mirror.readers other threads look at the nodes
 * without that lock, but with this one.
 */
#ifndef RECIPES_ENGINE_MIRROR_NODES_H
#define RECIPES_ENGINE_MIRROR_NODES_H

#include "recipes/engine/tree_mirror.h"

struct mirror_node {
    struct map_node map; /* first */
    struct mirror *mirror;
    struct mirror_node *parent; /* NULL: the root */
    struct list sibling;
    struct list children;
    struct list queued;  /* in mirror.wanted */
    struct list unheard; /* in mirror.unheard: told is not item */
    char *path;
    int depth;
    struct mirror_item *item; /* NULL: not read, or not there */
    struct mirror_item *told; /* with mirror.tracks: as the last event left it */
    struct step step;
    struct watch_slot data;  /* where there are no persistent watches */
    struct watch_slot names; /* the children's */
    bool want_data;
    bool want_children;
    bool missing; /* the root is not there: to be watched for by exists */
    bool hidden;  /* may not be read */
    bool listed;  /* named by the list that is being gone through */
    bool dead;    /* out of the mirror; freed when it is answered and reported */
};

/* Around changes that readers must not see half done. */
void mirror_begin_change(struct mirror *m);
void mirror_end_change(struct mirror *m);

/* NULL: there is none. With mirror.readers held that is enough. */
struct mirror_node *mirror_find(const struct mirror *m, const char *path);

/* The part of a path below the mirror's node, "" for that itself; NULL: elsewhere. No lock needed. */
const char *mirror_relative(const struct mirror *m, const char *path);

/* Adds a node without an item. 0, CONCLAVE_ENOMEM, CONCLAVE_ENOBUFS (mirror.max_bytes). */
int mirror_node_add(struct mirror *m, struct mirror_node *parent, const char *path,
                    struct mirror_node **ret) CONCLAVE_MUST_USE;

/* Takes the answer over as the node's item. Errors as above. */
int mirror_node_fill(struct mirror_node *n, const struct conclave_reply *reply) CONCLAVE_MUST_USE;

/* The node is not there, or may not be read: no item. */
void mirror_node_empty(struct mirror_node *n, bool hidden);

/* The same data, other numbers: taken over if nobody reads the item. */
void mirror_node_restat(struct mirror_node *n, const struct conclave_stat *stat);

/* Takes a node and all below it, or only those, out of the mirror. */
void mirror_node_drop(struct mirror_node *n);
void mirror_children_drop(struct mirror_node *n);

/* A dead node: frees it once nothing is due. */
void mirror_node_settle(struct mirror_node *n);

#endif
