#include "recipes/engine/mirror_nodes.h"

#include "base/slice.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void mirror_begin_change(struct mirror *m)
{
    if (m->readers != NULL) {
        (void)pthread_rwlock_wrlock(m->readers);
    }
}

void mirror_end_change(struct mirror *m)
{
    if (m->readers != NULL) {
        (void)pthread_rwlock_unlock(m->readers);
    }
}

/* --- items ----------------------------------------------------------------------- */

void mirror_item_unref(struct mirror_item *item)
{
    if (item != NULL && atomic_fetch_sub(&item->refs, 1) == 1) {
        free(item);
    }
}

static size_t item_bytes(const char *path, size_t data_len)
{
    return sizeof(struct mirror_item) + strlen(path) + 1 + data_len + 1;
}

const char *mirror_relative(const struct mirror *m, const char *path)
{
    size_t root = strcmp(m->path, "/") == 0 ? 0 : strlen(m->path);
    if (strncmp(path, m->path, root) != 0 || (path[root] != '/' && path[root] != '\0')) {
        return NULL;
    }
    return path[root] == '/' ? path + root + 1 : path + root;
}

/* The data of an answer that an item keeps. */
static struct slice kept_data(const struct mirror_node *n, const struct conclave_reply *reply)
{
    return n->mirror->stats_only ? SLICE_NULL : slice_make(reply->data, reply->data_len);
}

/* NULL without memory. */
static struct mirror_item *item_make(const struct mirror_node *n,
                                     const struct conclave_reply *reply)
{
    struct slice data = kept_data(n, reply);
    struct mirror_item *item = malloc(item_bytes(n->path, data.len));
    if (item == NULL) {
        return NULL;
    }
    char *bytes = (char *)(item + 1);
    char *path = bytes + data.len + 1;
    if (data.len > 0) {
        memcpy(bytes, data.data, data.len);
    }
    bytes[data.len] = '\0';
    memcpy(path, n->path, strlen(n->path) + 1);
    item->stat = reply->stat;
    item->node.path = path;
    item->node.data = data.data == NULL ? NULL : bytes;
    item->node.data_len = data.len;
    item->node.stat = &item->stat;
    item->path = path + (mirror_relative(n->mirror, n->path) - n->path);
    atomic_init(&item->refs, 1);
    return item;
}

/* --- nodes ----------------------------------------------------------------------- */

static bool path_equal(const struct map_node *node, const void *key)
{
    return strcmp(((const struct mirror_node *)(const void *)node)->path, key) == 0;
}

struct mirror_node *mirror_find(const struct mirror *m, const char *path)
{
    return (struct mirror_node *)(void *)map_find(&m->nodes, hash_bytes(path, strlen(path)),
                                                  path_equal, path);
}

/* What the node adds to mirror.bytes. */
static size_t node_bytes(const struct mirror_node *n)
{
    size_t bytes = sizeof *n + strlen(n->path) + 1;
    if (n->item != NULL) {
        bytes += item_bytes(n->path, n->item->node.data_len);
    }
    if (n->told != NULL && n->told != n->item) {
        bytes += item_bytes(n->path, n->told->node.data_len);
    }
    return bytes;
}

static bool has_room(const struct mirror *m, size_t bytes)
{
    return m->max_bytes == 0 || (bytes <= m->max_bytes && m->bytes <= m->max_bytes - bytes);
}

/* Takes the item, NULL: none, over; what the last event said stays. */
static void set_item(struct mirror_node *n, struct mirror_item *item_take)
{
    struct mirror *m = n->mirror;
    struct mirror_item *before = n->item;
    mirror_begin_change(m);
    m->bytes -= node_bytes(n);
    m->present -= before != NULL ? 1 : 0;
    n->item = item_take;
    m->present += n->item != NULL ? 1 : 0;
    m->bytes += node_bytes(n);
    mirror_end_change(m);
    m->changed = m->changed || before != item_take;
    mirror_item_unref(before);
    list_remove(&n->unheard);
    if (m->tracks && n->told != n->item) {
        list_push_back(&m->unheard, &n->unheard);
    }
}

static void set_hidden(struct mirror_node *n, bool hidden)
{
    mirror_begin_change(n->mirror);
    n->mirror->unreadable += (hidden ? 1 : 0) - (n->hidden ? 1 : 0);
    n->hidden = hidden;
    mirror_end_change(n->mirror);
}

int mirror_node_add(struct mirror *m, struct mirror_node *parent, const char *path,
                    struct mirror_node **ret)
{
    if (!has_room(m, sizeof(struct mirror_node) + strlen(path) + 1)) {
        return CONCLAVE_ENOBUFS;
    }
    struct mirror_node *n = calloc(1, sizeof *n);
    if (n == NULL || (n->path = strdup(path)) == NULL) {
        free(n);
        return CONCLAVE_ENOMEM;
    }
    n->mirror = m;
    n->parent = parent;
    n->depth = parent == NULL ? 0 : parent->depth + 1;
    list_init(&n->children);
    list_init(&n->queued);
    list_init(&n->sibling);
    list_init(&n->unheard);
    mirror_begin_change(m);
    int error = map_insert(&m->nodes, &n->map, hash_bytes(path, strlen(path)));
    if (error == 0) {
        m->bytes += node_bytes(n);
        if (parent != NULL) {
            list_push_back(&parent->children, &n->sibling);
        }
    }
    mirror_end_change(m);
    if (error != 0) {
        free(n->path);
        free(n);
        return error;
    }
    *ret = n;
    return 0;
}

int mirror_node_fill(struct mirror_node *n, const struct conclave_reply *reply)
{
    if (!has_room(n->mirror, item_bytes(n->path, kept_data(n, reply).len))) {
        return CONCLAVE_ENOBUFS;
    }
    struct mirror_item *item = item_make(n, reply);
    if (item == NULL) {
        return CONCLAVE_ENOMEM;
    }
    set_item(n, item);
    set_hidden(n, false);
    return 0;
}

void mirror_node_empty(struct mirror_node *n, bool hidden)
{
    set_item(n, NULL);
    set_hidden(n, hidden);
}

void mirror_node_restat(struct mirror_node *n, const struct conclave_stat *stat)
{
    mirror_begin_change(n->mirror);
    /* Readers take their references under the lock: nobody can come to have one now. */
    if (atomic_load(&n->item->refs) == (n->told == n->item ? 2 : 1)) {
        n->item->stat = *stat;
    }
    mirror_end_change(n->mirror);
}

void mirror_node_settle(struct mirror_node *n)
{
    assert(n->dead);
    if (n->step.busy || !list_empty(&n->unheard)) {
        return;
    }
    assert(n->item == NULL);
    watch_slot_clear(&n->data);
    watch_slot_clear(&n->names);
    n->mirror->bytes -= node_bytes(n);
    mirror_item_unref(n->told);
    free(n->path);
    free(n);
}

void mirror_node_drop(struct mirror_node *n)
{
    struct mirror *m = n->mirror;
    mirror_children_drop(n);
    mirror_node_empty(n, false);
    mirror_begin_change(m);
    list_remove(&n->sibling);
    map_remove(&m->nodes, &n->map);
    mirror_end_change(m);
    list_remove(&n->queued);
    n->dead = true;
    mirror_node_settle(n);
}

void mirror_children_drop(struct mirror_node *n)
{
    LIST_FOREACH (it, &n->children) {
        mirror_node_drop(CONTAINER_OF(it, struct mirror_node, sibling));
    }
}

/* --- changes ---------------------------------------------------------------------- */

static void tell_node(struct mirror_node *n, struct mirror_item *told_take)
{
    n->mirror->bytes -= node_bytes(n);
    n->told = told_take;
    n->mirror->bytes += node_bytes(n);
    list_remove(&n->unheard);
    if (n->dead) {
        mirror_node_settle(n);
    }
}

void mirror_forget_changes(struct mirror *m)
{
    m->tracks = false;
    for (struct list *it; (it = list_pop_front(&m->unheard)) != NULL;) {
        struct mirror_node *n = CONTAINER_OF(it, struct mirror_node, unheard);
        struct mirror_item *told = n->told;
        tell_node(n, NULL);
        mirror_item_unref(told);
    }
}

static struct mirror_item *item_ref(struct mirror_item *item)
{
    if (item != NULL) {
        (void)atomic_fetch_add(&item->refs, 1);
    }
    return item;
}

static int64_t change_zxid(const struct mirror_change *c)
{
    return c->before == NULL ? c->after->stat.czxid : c->after->stat.mzxid;
}

/* Deletions first, children before parents; then by zxid, and of one transaction by path. */
static int in_order(const void *x, const void *y)
{
    const struct mirror_change *a = x;
    const struct mirror_change *b = y;
    if (a->after == NULL || b->after == NULL) {
        return a->after != NULL   ? 1
               : b->after != NULL ? -1
                                  : strcmp(b->before->path, a->before->path);
    }
    int64_t a_zxid = change_zxid(a);
    int64_t b_zxid = change_zxid(b);
    return a_zxid != b_zxid ? (a_zxid < b_zxid ? -1 : 1) : strcmp(a->after->path, b->after->path);
}

int mirror_take_changes(struct mirror *m, struct mirror_change **ret, size_t *ret_count)
{
    size_t count = 0;
    LIST_FOREACH (it, &m->unheard) {
        count += 2; /* a node that was made again is two changes */
    }
    struct mirror_change *list = malloc((count + 1) * sizeof *list);
    if (list == NULL) {
        return CONCLAVE_ENOMEM;
    }
    count = 0;
    while (!list_empty(&m->unheard)) {
        struct mirror_node *n = CONTAINER_OF(m->unheard.next, struct mirror_node, unheard);
        struct mirror_item *before = n->told;
        struct mirror_item *after = item_ref(n->item);
        assert(before != after);
        tell_node(n, item_ref(after));
        bool again = before != NULL && after != NULL && before->stat.czxid != after->stat.czxid;
        if (again) {
            list[count++] = (struct mirror_change){before, NULL};
        }
        list[count++] = (struct mirror_change){again ? NULL : before, after};
    }
    qsort(list, count, sizeof *list, in_order);
    *ret = list;
    *ret_count = count;
    return 0;
}

void mirror_changes_free(struct mirror_change *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mirror_item_unref(list[i].before);
        mirror_item_unref(list[i].after);
    }
    free(list);
}

/* --- views ------------------------------------------------------------------------ */

static int by_path(const void *a, const void *b)
{
    return strcmp((*(struct mirror_item *const *)a)->path, (*(struct mirror_item *const *)b)->path);
}

void mirror_items_sort(struct mirror_item **items, size_t count)
{
    qsort(items, count, sizeof(struct mirror_item *), by_path);
}

int mirror_view(const struct mirror *m, struct mirror_view *ret)
{
    size_t count = 0;
    struct mirror_item **items = malloc((map_count(&m->nodes) + 1) * sizeof(struct mirror_item *));
    if (items == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (struct map_node *it = map_next(&m->nodes, NULL); it != NULL;
         it = map_next(&m->nodes, it)) {
        struct mirror_node *n = (struct mirror_node *)(void *)it;
        if (n->item != NULL) {
            items[count++] = item_ref(n->item);
        }
    }
    mirror_items_sort(items, count);
    *ret = (struct mirror_view){items, count, m->zxid};
    return 0;
}

void mirror_view_keep(struct mirror_view *view, bool (*keep)(const struct mirror_item *item))
{
    size_t kept = 0;
    for (size_t i = 0; i < view->count; i++) {
        if (keep(view->items[i])) {
            view->items[kept++] = view->items[i];
        } else {
            mirror_item_unref(view->items[i]);
        }
    }
    view->count = kept;
}

void mirror_view_clear(struct mirror_view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        mirror_item_unref(view->items[i]);
    }
    free(view->items);
    memset(view, 0, sizeof *view);
}
