/*
 * How much memory nodes take: charged to the tree's account while they are in the tree. About: what the allocator,
 * the table and an owner take is a constant, and a parent's own block counts while it has children.
 */
#ifndef TREE_MEMORY_H
#define TREE_MEMORY_H

#include "tree/tree.h"

/* From now on this account is charged, also with lists of permissions. Before the first node is added. */
void tree_set_account(struct tree *t, struct account *account);

/* Of a node with a name and data of these lengths. */
size_t tree_node_memory(size_t name_len, size_t data_len);

/* A node is in the tree now, or is about to leave it. `dir`: of the parent that gained or lost it; NULL: neither. */
void tree_memory_charge(struct tree *t, const struct znode *node, const struct znode_dir *dir);
void tree_memory_credit(struct tree *t, const struct znode *node, const struct znode_dir *dir);

#endif
