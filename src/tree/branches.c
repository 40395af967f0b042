#include "tree/branches.h"

#include "tree/walk.h"

static bool larger(const struct branch *a, const struct branch *b)
{
    if (a->bytes != b->bytes) {
        return a->bytes > b->bytes;
    }
    return a->nodes != b->nodes ? a->nodes > b->nodes : znode_compare_paths(a->node, b->node) < 0;
}

/* Puts the branch in its place among the largest so far. */
static void rank(const struct branch *branch, struct branch *list, size_t count, size_t max)
{
    size_t at = count < max ? count : max;
    while (at > 0 && larger(branch, &list[at - 1])) {
        if (at < max) {
            list[at] = list[at - 1];
        }
        at--;
    }
    if (at < max) {
        list[at] = *branch;
    }
}

/* The node behind a branch in preorder, without entering it. */
static const struct znode *behind(const struct znode *node, unsigned *depth)
{
    while (node != NULL && node->next == NULL) {
        node = node->parent;
        --*depth;
    }
    return node != NULL ? node->next : NULL;
}

size_t tree_branches(const struct tree *t, unsigned depth, struct branch *ret, size_t max)
{
    size_t count = 0;
    unsigned at = 1;
    const struct znode *node = znode_first_child(t->root);
    while (node != NULL && at > 0) {
        if (at < depth && znode_first_child(node) != NULL) {
            node = znode_first_child(node);
            at++;
            continue;
        }
        if (at == depth) {
            struct branch branch = {node, 1 + (size_t)znode_below(node),
                                    znode_data(node).len + znode_below_bytes(node)};
            rank(&branch, ret, count, max);
            count++;
        }
        node = behind(node, &at);
    }
    return count;
}
