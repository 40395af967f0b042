/* Ways through the tree along a path, and the order of paths, without a path in memory. */
#ifndef TREE_WALK_H
#define TREE_WALK_H

#include "tree/tree.h"

/* A walk from the root along a path, a node at a time, which hashes each byte once: for questions about the nodes above
 * a path. */
struct tree_walk {
    const struct tree *tree;
    struct znode *node; /* where it is */
    struct hash_stream hash;
};

void tree_walk_begin(struct tree_walk *w, const struct tree *t);

/* Goes on to the child of that name. False, and stays, when no child has it. */
bool tree_walk_down(struct tree_walk *w, struct slice name);

/* The child of that name, or NULL; stays. */
struct znode *tree_walk_child(const struct tree_walk *w, struct slice name);

/* Cuts the next name off a path that begins with '/' or is empty. False at its end. */
bool tree_path_next(struct slice *path, struct slice *ret_name);

static inline uint64_t znode_below_bytes(const struct znode *node)
{
    const struct znode_dir *dir = znode_dir(node);
    return dir != NULL ? dir->below_bytes : 0;
}

/* Below, at or above 0, as the paths of two nodes compare by their bytes. */
int znode_compare_paths(const struct znode *a, const struct znode *b);

#endif
