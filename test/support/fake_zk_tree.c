#include "support/fake_zk_tree.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *must(void *p)
{
    if (p == NULL) {
        abort();
    }
    return p;
}

static bool node_is(const struct map_node *node, const void *key)
{
    const struct fake_node *n = (const struct fake_node *)(const void *)node;
    return slice_equal_str(*(const struct slice *)key, n->path);
}

struct fake_node *fake_tree_find(const struct fake_tree *t, struct slice path)
{
    return (struct fake_node *)(void *)map_find(&t->nodes, hash_bytes(path.data, path.len), node_is,
                                                &path);
}

struct fake_node *fake_tree_parent(const struct fake_tree *t, struct slice path)
{
    size_t len = path.len;
    while (len > 0 && path.data[len - 1] != '/') {
        len--;
    }
    return len == 0 ? NULL
                    : fake_tree_find(t, len == 1 ? slice_str("/") : slice_make(path.data, len - 1));
}

/* NULL stays NULL: a node whose data are null. */
static char *copy_bytes(const void *data, size_t len)
{
    if (data == NULL) {
        return NULL;
    }
    char *copy = must(malloc(len + 1));
    if (len > 0) {
        memcpy(copy, data, len);
    }
    copy[len] = '\0';
    return copy;
}

static struct fake_node *node_add(struct fake_tree *t, const char *path, struct slice data)
{
    struct fake_node *n = must(calloc(1, sizeof *n));
    n->path = copy_bytes(path, strlen(path));
    n->data = copy_bytes(data.data, data.len);
    n->data_len = data.len;
    if (map_insert(&t->nodes, &n->link, hash_bytes(path, strlen(path))) != 0) {
        abort();
    }
    return n;
}

static int64_t wall_ms(void)
{
    return (int64_t)time(NULL) * 1000;
}

void fake_tree_init(struct fake_tree *t)
{
    memset(t, 0, sizeof *t);
    map_init(&t->nodes);
    (void)node_add(t, "/", slice_make("", 0));
}

void fake_tree_finish(struct fake_tree *t)
{
    for (struct map_node *it = map_take_all(&t->nodes); it != NULL;) {
        struct fake_node *n = (struct fake_node *)(void *)it;
        it = it->next;
        free(n->path);
        free(n->data);
        free(n);
    }
    map_finish(&t->nodes);
}

void fake_tree_copy(struct fake_tree *to, const struct fake_tree *from)
{
    memset(to, 0, sizeof *to);
    map_init(&to->nodes);
    to->zxid = from->zxid;
    to->stick = from->stick;
    for (struct map_node *it = map_next(&from->nodes, NULL); it != NULL;
         it = map_next(&from->nodes, it)) {
        const struct fake_node *n = (struct fake_node *)(void *)it;
        struct fake_node *copy = node_add(to, n->path, slice_make(n->data, n->data_len));
        copy->stat = n->stat;
        copy->children = n->children;
        memcpy(copy->acl, n->acl, sizeof n->acl);
    }
}

int fake_tree_create(struct fake_tree *t, struct slice path, struct slice data, int32_t flags,
                     int64_t owner, struct fake_node **ret_node)
{
    struct fake_node *parent = fake_tree_parent(t, path);
    char name[512];
    if (parent == NULL) {
        return CONCLAVE_NO_NODE;
    }
    bool sequential =
        flags == WIRE_MODE_PERSISTENT_SEQUENTIAL || flags == WIRE_MODE_EPHEMERAL_SEQUENTIAL;
    bool ephemeral = flags == WIRE_MODE_EPHEMERAL || flags == WIRE_MODE_EPHEMERAL_SEQUENTIAL;
    (void)snprintf(name, sizeof name, "%.*s", SLICE_FMT(path));
    if (sequential) {
        size_t len = strlen(name);
        (void)snprintf(name + len, sizeof name - len, "%010" PRId32, parent->stat.cversion);
    }
    if (fake_tree_find(t, slice_str(name)) != NULL) {
        return CONCLAVE_NODE_EXISTS;
    }
    if (parent->stat.ephemeral_owner != 0) {
        return CONCLAVE_NO_CHILDREN_FOR_EPHEMERALS;
    }
    struct fake_node *n = node_add(t, name, data);
    n->stat.czxid = n->stat.mzxid = n->stat.pzxid = t->zxid;
    n->stat.ctime = n->stat.mtime = wall_ms();
    n->stat.ephemeral_owner = ephemeral ? owner : 0;
    if (!t->stick || parent->stat.cversion != INT32_MAX) {
        parent->stat.cversion = (int32_t)((uint32_t)parent->stat.cversion + 1);
    }
    parent->stat.pzxid = t->zxid;
    parent->children++;
    *ret_node = n;
    return 0;
}

int fake_tree_delete(struct fake_tree *t, struct slice path, int32_t version)
{
    struct fake_node *n = fake_tree_find(t, path);
    struct fake_node *parent = fake_tree_parent(t, path);
    if (n == NULL) {
        return CONCLAVE_NO_NODE;
    }
    if (version != -1 && version != n->stat.version) {
        return CONCLAVE_BAD_VERSION;
    }
    if (n->children > 0) {
        return CONCLAVE_NOT_EMPTY;
    }
    parent->children--;
    parent->stat.pzxid = t->zxid;
    map_remove(&t->nodes, &n->link);
    free(n->path);
    free(n->data);
    free(n);
    return 0;
}

int fake_tree_set(struct fake_tree *t, struct slice path, struct slice data, int32_t version,
                  struct fake_node **ret_node)
{
    struct fake_node *n = fake_tree_find(t, path);
    if (n == NULL) {
        return CONCLAVE_NO_NODE;
    }
    if (version != -1 && version != n->stat.version) {
        return CONCLAVE_BAD_VERSION;
    }
    free(n->data);
    n->data = copy_bytes(data.data, data.len);
    n->data_len = data.len;
    n->stat.version++;
    n->stat.mtime = wall_ms();
    n->stat.mzxid = t->zxid;
    *ret_node = n;
    return 0;
}

int fake_tree_check(struct fake_tree *t, struct slice path, int32_t version)
{
    struct fake_node *n = fake_tree_find(t, path);
    if (n == NULL) {
        return CONCLAVE_NO_NODE;
    }
    return version != -1 && version != n->stat.version ? CONCLAVE_BAD_VERSION : 0;
}

struct wire_stat fake_node_stat(const struct fake_node *node)
{
    struct wire_stat stat = node->stat;
    stat.cversion = (int32_t)((uint32_t)stat.cversion * 2 - (uint32_t)node->children);
    stat.data_length = (int32_t)node->data_len;
    stat.num_children = node->children;
    return stat;
}

const char *fake_node_child_of(const struct fake_node *node, const char *parent)
{
    size_t len = strcmp(parent, "/") == 0 ? 0 : strlen(parent);
    if (strcmp(node->path, "/") == 0 || strncmp(node->path, parent, len) != 0 ||
        node->path[len] != '/') {
        return NULL;
    }
    const char *name = node->path + len + 1;
    return strchr(name, '/') == NULL ? name : NULL;
}
