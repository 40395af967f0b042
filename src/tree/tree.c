#include "tree/tree.h"

#include "base/endian.h"
#include "tree/memory.h"
#include "tree/path.h"

#include <assert.h>
#include <stdlib.h>

static_assert(offsetof(struct znode, name) + 15 <= 104, "a block without slack holds usual names");
static_assert(sizeof(struct znode_owner) % _Alignof(struct znode) == 0, "znode stays aligned");

/* --- memory ----------------------------------------------------------------------------------- */

static struct znode *znode_alloc(struct slice name, bool owned)
{
    size_t before = owned ? sizeof(struct znode_owner) : 0;
    size_t size = offsetof(struct znode, name) + name.len;
    char *block = malloc(before + (size < sizeof(struct znode) ? sizeof(struct znode) : size));
    if (block == NULL) {
        return NULL;
    }
    struct znode *node = (struct znode *)(void *)(block + before);
    memset(node, 0, offsetof(struct znode, name));
    node->flags = owned ? ZNODE_OWNED : 0;
    node->map.key_len = (uint32_t)name.len;
    if (name.len > 0) {
        memcpy(node->name, name.data, name.len);
    }
    if (owned) {
        znode_owner_of(node)->owner = 0;
        list_init(&znode_owner_of(node)->link);
    }
    return node;
}

/* The place of the node's data pointer. */
static struct znode_data **znode_data_at(struct znode *node)
{
    struct znode_dir *dir = znode_dir(node);
    return dir != NULL ? &dir->data : &node->body.data;
}

/* Frees it as it was allocated, with or without an owner. */
static void znode_free_as(struct znode *node, bool owned)
{
    free(*znode_data_at(node));
    free(znode_dir(node));
    free((char *)node - (owned ? sizeof(struct znode_owner) : 0));
}

static void znode_free(struct znode *node)
{
    znode_free_as(node, (node->flags & ZNODE_OWNED) != 0);
}

void znode_destroy(struct tree *t, struct znode *node)
{
    assert(znode_children(node) == 0);
    assert((node->flags & ZNODE_OWNED) == 0 || list_empty(&znode_owner_of(node)->link));
    acl_unref(&t->acls, node->acl);
    znode_free(node);
}

bool znode_data_make(struct slice data, struct znode_data **ret)
{
    if (slice_is_null(data)) {
        *ret = NULL;
        return true;
    }
    struct znode_data *block = malloc(sizeof *block + data.len);
    if (block == NULL) {
        return false;
    }
    block->len = (uint32_t)data.len;
    memcpy(block->bytes, data.data, data.len);
    *ret = block;
    return true;
}

/* Most nodes have no children, so the fields for children are allocated on demand. */
struct znode_dir *znode_dir_need(struct znode *node)
{
    struct znode_dir *dir = znode_dir(node);
    if (dir == NULL) {
        dir = calloc(1, sizeof *dir);
        if (dir != NULL) {
            dir->data = node->body.data;
            dir->pzxid = node->czxid;
            node->body.dir = dir;
            node->flags |= ZNODE_DIR;
        }
    }
    return dir;
}

int tree_init(struct tree *t, const struct hash_key *key)
{
    *t = (struct tree){.key = *key};
    map_init(&t->nodes);
    list_init(&t->extended);
    if (acl_table_init(&t->acls, key) != 0) {
        return CONCLAVE_ENOMEM;
    }
    t->root = znode_alloc(slice_make("", 0), false);
    if (t->root == NULL || !znode_data_make(slice_make("", 0), &t->root->body.data)) {
        tree_finish(t);
        return CONCLAVE_ENOMEM;
    }
    acl_ref(&t->acls, ACL_OPEN);
    t->root->acl = ACL_OPEN;
    t->bytes = 1; /* the path of the root */
    return 0;
}

void tree_finish(struct tree *t)
{
    struct map_node *next;
    for (struct map_node *n = map_take_all(&t->nodes); n != NULL; n = next) {
        next = n->next;
        znode_free(CONTAINER_OF(n, struct znode, map));
    }
    if (t->root != NULL) {
        znode_free(t->root);
        t->root = NULL;
    }
    acl_table_finish(&t->acls);
}

/* --- finding ---------------------------------------------------------------------------------- */

/* Compares from the end, name by name up to the root: exact, and without an allocation. */
static bool znode_has_path(const struct map_node *map_node, const void *key)
{
    const struct znode *node = CONTAINER_OF(map_node, struct znode, map);
    const struct slice *path = key;
    size_t left = path->len;
    for (; node->parent != NULL; node = node->parent) {
        size_t n = node->map.key_len;
        if (left <= n || path->data[left - n - 1] != '/' ||
            memcmp(path->data + left - n, node->name, n) != 0) {
            return false;
        }
        left -= n + 1;
    }
    return left == 0;
}

static uint64_t path_hash(const struct tree *t, struct slice path)
{
    return hash_keyed(&t->key, path.data, path.len);
}

struct znode *tree_find(const struct tree *t, struct slice path)
{
    if (path.len == 0 || (path.len == 1 && path.data[0] == '/')) {
        return t->root;
    }
    struct map_node *n = map_find(&t->nodes, path_hash(t, path), znode_has_path, &path);
    return n != NULL ? CONTAINER_OF(n, struct znode, map) : NULL;
}

struct znode *tree_next(const struct znode *node)
{
    struct znode *child = znode_first_child(node);
    if (child != NULL) {
        return child;
    }
    while (node->parent != NULL && node->next == NULL) {
        node = node->parent;
    }
    return node->next;
}

size_t tree_count(const struct tree *t)
{
    /* As in ZooKeeper, the root counts twice, as "" and as "/". */
    return map_count(&t->nodes) + 2;
}

/* --- changing --------------------------------------------------------------------------------- */

static void link_owner(struct tree *t, struct znode *node, struct list *owned)
{
    struct znode_owner *o = znode_owner_of(node);
    if (o == NULL || o->owner == 0) {
        return;
    }
    bool session = tree_owner_kind(o->owner) == TREE_OWNER_SESSION;
    assert(list_empty(&o->link) && (!session || owned != NULL));
    list_push_back(session ? owned : &t->extended, &o->link);
    *(session ? &t->ephemerals : &t->extended_count) += 1;
}

static void unlink_owner(struct tree *t, struct znode *node)
{
    struct znode_owner *o = znode_owner_of(node);
    if (o != NULL && o->owner != 0) {
        list_remove(&o->link);
        bool session = tree_owner_kind(o->owner) == TREE_OWNER_SESSION;
        assert((session ? t->ephemerals : t->extended_count) > 0);
        *(session ? &t->ephemerals : &t->extended_count) -= 1;
    }
}

/* Characters of the path, as ZooKeeper measures its size. */
static size_t znode_path_chars(const struct znode *node)
{
    size_t n = 0;
    for (; node->parent != NULL; node = node->parent) {
        n += 1 + path_chars(znode_name(node));
    }
    return n > 0 ? n : 1;
}

/* Adds nodes and bytes of data to the counts of all nodes above; negative if they were removed. */
static void count_below(struct znode *parent, int nodes, int64_t bytes)
{
    for (; parent != NULL; parent = parent->parent) {
        struct znode_dir *dir = parent->body.dir;
        assert((parent->flags & ZNODE_DIR) != 0);
        assert((nodes >= 0 || dir->below > 0) &&
               (bytes >= 0 || dir->below_bytes >= (uint64_t)-bytes));
        dir->below += (uint32_t)nodes;
        dir->below_bytes += (uint64_t)bytes;
    }
}

struct znode *tree_add(struct tree *t, struct znode *parent, const struct znode_spec *spec)
{
    size_t slash = path_last_slash(spec->path);
    struct slice name = slice_make(spec->path.data + slash + 1, spec->path.len - slash - 1);
    struct znode_dir *dir = znode_dir_need(parent);
    struct znode *node = dir != NULL ? znode_alloc(name, spec->owner != 0) : NULL;
    if (node == NULL) {
        return NULL;
    }
    node->parent = parent;
    node->acl = spec->acl;
    node->czxid = node->mzxid = spec->zxid;
    node->ctime = node->mtime = spec->time_ms;
    node->flags |= t->mark;
    if (!znode_data_make(spec->data, &node->body.data) ||
        map_insert(&t->nodes, &node->map, path_hash(t, spec->path)) != 0) {
        znode_free_as(node, spec->owner != 0);
        return NULL;
    }
    if (spec->owner != 0) {
        znode_owner_of(node)->owner = spec->owner;
        link_owner(t, node, spec->owned);
    }
    assert((dir->first == NULL) == (dir->count == 0) && (dir->last == NULL) == (dir->count == 0));
    node->prev = dir->last;
    *(dir->last != NULL ? &dir->last->next : &dir->first) = node;
    dir->last = node;
    dir->count++;
    dir->cversion = (int32_t)((uint32_t)dir->cversion + 1);
    dir->pzxid = spec->zxid;
    count_below(parent, 1, (int64_t)spec->data.len);
    t->bytes += path_chars(spec->path) + spec->data.len;
    tree_memory_charge(t, node, dir);
    return node;
}

void tree_take_out(struct tree *t, struct znode *node, int64_t zxid)
{
    struct znode_dir *dir = node->parent->body.dir;
    assert(znode_children(node) == 0 && dir->count > 0);
    assert((node->prev != NULL ? node->prev->next : dir->first) == node);
    assert((node->next != NULL ? node->next->prev : dir->last) == node);
    *(node->prev != NULL ? &node->prev->next : &dir->first) = node->next;
    *(node->next != NULL ? &node->next->prev : &dir->last) = node->prev;
    dir->count--;
    dir->pzxid = zxid;
    count_below(node->parent, -1, -(int64_t)znode_data(node).len);
    map_remove(&t->nodes, &node->map);
    unlink_owner(t, node);
    size_t bytes = znode_path_chars(node) + znode_data(node).len;
    assert(t->bytes >= bytes);
    t->bytes -= bytes;
    tree_memory_credit(t, node, dir);
}

void tree_put_back(struct tree *t, struct znode *node, int64_t pzxid, struct list *owned)
{
    struct znode_dir *dir = node->parent->body.dir;
    /* The neighbours are as at the removal, because all later changes were undone. */
    assert((node->prev != NULL ? node->prev->next : dir->first) == node->next);
    assert((node->next != NULL ? node->next->prev : dir->last) == node->prev);
    *(node->prev != NULL ? &node->prev->next : &dir->first) = node;
    *(node->next != NULL ? &node->next->prev : &dir->last) = node;
    dir->count++;
    dir->pzxid = pzxid;
    count_below(node->parent, 1, (int64_t)znode_data(node).len);
    int rc = map_insert(&t->nodes, &node->map, node->map.hash);
    assert(rc == 0); /* cannot fail: the node was in this map before */
    (void)rc;
    link_owner(t, node, owned);
    t->bytes += znode_path_chars(node) + znode_data(node).len;
    tree_memory_charge(t, node, dir);
}

struct znode_data *tree_swap_data(struct tree *t, struct znode *node, struct znode_data *data)
{
    struct znode_data **at = znode_data_at(node);
    struct znode_data *old = *at;
    tree_memory_credit(t, node, NULL);
    int64_t grown = (int64_t)(data != NULL ? data->len : 0) - (int64_t)(old != NULL ? old->len : 0);
    if (grown != 0) {
        assert(grown > 0 || t->bytes >= (size_t)-grown);
        t->bytes += (size_t)grown;
        count_below(node->parent, 0, grown);
    }
    *at = data;
    tree_memory_charge(t, node, NULL);
    return old;
}

/* --- one node --------------------------------------------------------------------------------- */

size_t znode_path_len(const struct znode *node)
{
    size_t n = 0;
    for (; node->parent != NULL; node = node->parent) {
        n += 1 + node->map.key_len;
    }
    return n > 0 ? n : 1;
}

void znode_path(const struct znode *node, char *out, size_t len)
{
    if (node->parent == NULL) {
        out[0] = '/';
        return;
    }
    for (; node->parent != NULL; node = node->parent) {
        len -= node->map.key_len;
        memcpy(out + len, node->name, node->map.key_len);
        out[--len] = '/';
    }
    assert(len == 0);
}

void znode_append_path(const struct znode *node, struct buf *out)
{
    size_t len = znode_path_len(node);
    if (buf_reserve(out, len) == 0) {
        znode_path(node, (char *)out->data + out->len, len);
        out->len += len;
    }
}

void znode_append_stat(const struct znode *node, struct buf *out)
{
    enum { STAT_LEN = 68 };
    if (buf_reserve(out, STAT_LEN) != 0) {
        return;
    }
    uint8_t *p = out->data + out->len;
    uint32_t children = znode_children(node);
    put_be64(p, (uint64_t)node->czxid);
    put_be64(p + 8, (uint64_t)node->mzxid);
    put_be64(p + 16, (uint64_t)node->ctime);
    put_be64(p + 24, (uint64_t)node->mtime);
    put_be32(p + 32, (uint32_t)node->version);
    put_be32(p + 36, (uint32_t)znode_cversion(node) * 2 - children);
    put_be32(p + 40, (uint32_t)znode_aversion(node));
    put_be64(p + 44, (uint64_t)(znode_is_ephemeral(node) ? znode_owner(node) : 0));
    put_be32(p + 52, (uint32_t)znode_data(node).len);
    put_be32(p + 56, children);
    put_be64(p + 60, (uint64_t)znode_pzxid(node));
    out->len += STAT_LEN;
}
