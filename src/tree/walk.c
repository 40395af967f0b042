#include "tree/walk.h"

void tree_walk_begin(struct tree_walk *w, const struct tree *t)
{
    w->tree = t;
    w->node = t->root;
    hash_stream_begin(&w->hash, &t->key);
}

struct child_key {
    const struct znode *parent;
    struct slice name;
};

static bool znode_is_child(const struct map_node *map_node, const void *key)
{
    const struct znode *node = CONTAINER_OF(map_node, struct znode, map);
    const struct child_key *wanted = key;
    return node->parent == wanted->parent && slice_equal(znode_name(node), wanted->name);
}

static struct znode *walk_find(const struct tree_walk *w, struct hash_stream *hash,
                               struct slice name)
{
    struct child_key key = {w->node, name};
    hash_stream_add(hash, "/", 1);
    hash_stream_add(hash, name.data, name.len);
    struct map_node *n = map_find(&w->tree->nodes, hash_stream_value(hash), znode_is_child, &key);
    return n != NULL ? CONTAINER_OF(n, struct znode, map) : NULL;
}

struct znode *tree_walk_child(const struct tree_walk *w, struct slice name)
{
    struct hash_stream hash = w->hash;
    return znode_children(w->node) > 0 ? walk_find(w, &hash, name) : NULL;
}

bool tree_walk_down(struct tree_walk *w, struct slice name)
{
    struct hash_stream hash = w->hash;
    struct znode *child = znode_children(w->node) > 0 ? walk_find(w, &hash, name) : NULL;
    if (child == NULL) {
        return false;
    }
    w->node = child;
    w->hash = hash;
    return true;
}

bool tree_path_next(struct slice *path, struct slice *ret_name)
{
    if (path->len < 2) {
        return false;
    }
    const uint8_t *start = path->data + 1;
    const uint8_t *end = memchr(start, '/', path->len - 1);
    size_t len = end != NULL ? (size_t)(end - start) : path->len - 1;
    *ret_name = slice_make(start, len);
    *path = slice_make(start + len, path->len - 1 - len);
    return true;
}

/* The number of nodes above it. */
static size_t znode_depth(const struct znode *node)
{
    size_t depth = 0;
    for (; node->parent != NULL; node = node->parent) {
        depth++;
    }
    return depth;
}

/* Compares names of siblings; if more path follows the shorter one, its next byte is '/'. */
static int walk_compare_names(const struct znode *a, bool more_a, const struct znode *b,
                              bool more_b)
{
    struct slice x = znode_name(a);
    struct slice y = znode_name(b);
    size_t shared = x.len < y.len ? x.len : y.len;
    int order = shared > 0 ? memcmp(x.data, y.data, shared) : 0;
    if (order != 0 || x.len == y.len) {
        return order;
    }
    bool x_shorter = x.len < y.len;
    uint8_t next = x_shorter ? y.data[shared] : x.data[shared];
    int longer = (x_shorter ? more_a : more_b) ? (int)next - '/' : 1;
    return x_shorter ? -longer : longer;
}

int znode_compare_paths(const struct znode *a, const struct znode *b)
{
    size_t depth_a = znode_depth(a);
    size_t depth_b = znode_depth(b);
    bool more_a = depth_a > depth_b;
    bool more_b = depth_b > depth_a;
    for (; depth_a > depth_b; depth_a--) {
        a = a->parent;
    }
    for (; depth_b > depth_a; depth_b--) {
        b = b->parent;
    }
    if (a == b) {
        return (int)more_a - (int)more_b;
    }
    for (; a->parent != b->parent; a = a->parent, b = b->parent) {
        more_a = more_b = true;
    }
    return walk_compare_names(a, more_a, b, more_b);
}
