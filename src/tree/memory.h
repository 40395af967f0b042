/*
 * The memory of nodes, which is charged to the tree's account while they are in the tree. It is an estimate: allocator,
 * table and owner count as a constant; the extra block of a parent counts while it has children.
 */
#ifndef TREE_MEMORY_H
#define TREE_MEMORY_H

#include "tree/tree.h"

/* Sets the account to charge, also for lists of permissions. Call it before the first node is added. */
void tree_set_account(struct tree *t, struct account *account);

/* Memory of a node with a name and data of these lengths. */
size_t tree_node_memory(size_t name_len, size_t data_len);

/* A node was added to the tree, or is about to leave it. `dir`: of the parent that gained or lost it; NULL: neither. */
void tree_memory_charge(struct tree *t, const struct znode *node, const struct znode_dir *dir);
void tree_memory_credit(struct tree *t, const struct znode *node, const struct znode_dir *dir);

#endif
