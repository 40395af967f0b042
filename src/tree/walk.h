/* Walks through the tree along a path, and compares paths, without building a path in memory. */
#ifndef TREE_WALK_H
#define TREE_WALK_H

#include "tree/tree.h"

/* A walk from the root along a path, node by node, which hashes each byte once: for facts about the nodes above a
 * path. */
struct tree_walk {
    const struct tree *tree;
    struct znode *node; /* current node */
    struct hash_stream hash;
};

void tree_walk_begin(struct tree_walk *w, const struct tree *t);

/* Goes to the child with that name. False: there is none, and the walk stays. */
bool tree_walk_down(struct tree_walk *w, struct slice name);

/* The child with that name, or NULL; the walk stays. */
struct znode *tree_walk_child(const struct tree_walk *w, struct slice name);

/* Takes the next name off a path that begins with '/' or is empty. False: the end. */
bool tree_path_next(struct slice *path, struct slice *ret_name);

static inline uint64_t znode_below_bytes(const struct znode *node)
{
    const struct znode_dir *dir = znode_dir(node);
    return dir != NULL ? dir->below_bytes : 0;
}

/* Compares the paths of two nodes by their bytes: below, equal to or above 0. */
int znode_compare_paths(const struct znode *a, const struct znode *b);

#endif
