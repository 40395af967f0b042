/* How much is below which node: the largest branches of a tree, for whoever asks what fills it. */
#ifndef TREE_BRANCHES_H
#define TREE_BRANCHES_H

#include "tree/tree.h"

/* A node with all that is below it. */
struct branch {
    const struct znode *node;
    size_t nodes;   /* itself included */
    uint64_t bytes; /* of data, its own included */
};

/* The branches whose roots are `depth` names deep (1: the children of "/"), the largest by bytes first, then by nodes, then
 * by path: at most max of them into ret. Returns how many there are. */
size_t tree_branches(const struct tree *t, unsigned depth, struct branch *ret, size_t max);

#endif
