/* The tree of the fake ZooKeeper: nodes, sequence numbers, transactions by copying the tree. See
 * fake_zk.h. */
#ifndef SUPPORT_FAKE_ZK_TREE_H
#define SUPPORT_FAKE_ZK_TREE_H

#include "base/map.h"
#include "wire/ops.h"

struct fake_node {
    struct map_node link;
    char *path;
    char *data;
    size_t data_len;
    struct wire_stat stat; /* cversion holds the number of the next sequential child */
    int32_t children;
    char acl[128]; /* first entry, "scheme:id:perms" */
};

struct fake_tree {
    struct map nodes;
    int64_t zxid;
    bool stick; /* sequence numbers stay at INT32_MAX */
};

void fake_tree_init(struct fake_tree *t);
void fake_tree_finish(struct fake_tree *t);
void fake_tree_copy(struct fake_tree *to, const struct fake_tree *from);
struct fake_node *fake_tree_find(const struct fake_tree *t, struct slice path);
struct fake_node *fake_tree_parent(const struct fake_tree *t, struct slice path);

/* 0 or a wire error. path: the requested one; ret_node: the new node. */
int fake_tree_create(struct fake_tree *t, struct slice path, struct slice data, int32_t flags,
                     int64_t owner, struct fake_node **ret_node);
int fake_tree_delete(struct fake_tree *t, struct slice path, int32_t version);
int fake_tree_set(struct fake_tree *t, struct slice path, struct slice data, int32_t version,
                  struct fake_node **ret_node);
int fake_tree_check(struct fake_tree *t, struct slice path, int32_t version);

/* As on the wire. */
struct wire_stat fake_node_stat(const struct fake_node *node);

/* Name of the node if it is a child of parent, else NULL. */
const char *fake_node_child_of(const struct fake_node *node, const char *parent);

#endif
