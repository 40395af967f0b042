/* Lookups: any thread, under the cache's own lock, so they wait for no I/O and for no other handle. */
#include "recipes/cache/cache.h"

#include "client/core/path.h"
#include "recipes/engine/mirror_nodes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The public view and its items in one block. */
struct cache_view {
    struct conclave_cache_view view; /* first */
    size_t count;
    struct mirror_item *items[];
};

/* Whether the cache can have children of this path, or only the node. */
static bool in_scope(const struct conclave_cache *c, const char *path, int below)
{
    const char *relative = path_is_valid(path, false) ? mirror_relative(&c->mirror, path) : NULL;
    return relative != NULL && path_depth_within(relative, c->mirror.depth - below) &&
           path_patterns_take(&c->patterns, relative);
}

/* Why there is no node. */
static int why_absent(const struct conclave_cache *c, const struct mirror_node *n)
{
    if (n != NULL && n->hidden) {
        return CONCLAVE_NO_AUTH;
    }
    return c->error != 0 ? c->error : c->loaded ? CONCLAVE_NO_NODE : CONCLAVE_EDISCONNECTED;
}

/* 0: the lock is held and *ret has an item. */
static int begin(struct conclave_cache *c, const char *path, int below, struct mirror_node **ret)
{
    int error = client_check(c->host.handle.rt->client);
    if (error != 0 || !in_scope(c, path, below)) {
        return error != 0 ? error : CONCLAVE_EINVAL;
    }
    (void)pthread_rwlock_rdlock(&c->readers);
    struct mirror_node *n = c->ended ? NULL : mirror_find(&c->mirror, path);
    if (n != NULL && n->item != NULL) {
        *ret = n;
        return 0;
    }
    error = c->ended ? CONCLAVE_ECLOSED : why_absent(c, n);
    (void)pthread_rwlock_unlock(&c->readers);
    return error;
}

int conclave_cache_get(struct conclave_cache *c, const char *path,
                       const struct conclave_cache_node **ret)
{
    struct mirror_node *n;
    int error = begin(c, path, 0, &n);
    if (error == 0) {
        (void)atomic_fetch_add(&n->item->refs, 1);
        *ret = &n->item->node;
        (void)pthread_rwlock_unlock(&c->readers);
    }
    return error;
}

void conclave_cache_node_free(const struct conclave_cache_node *node)
{
    if (node != NULL) {
        mirror_item_unref(CONTAINER_OF((uintptr_t)node, struct mirror_item, node));
    }
}

/* The next node of a walk through all below `top`, which comes first; NULL: that was the last. */
static struct mirror_node *next_below(const struct mirror_node *top, struct mirror_node *n)
{
    if (!list_empty(&n->children)) {
        return CONTAINER_OF(n->children.next, struct mirror_node, sibling);
    }
    assert(n == top || n->parent != NULL);
    while (n != top && n->sibling.next == &n->parent->children) {
        n = n->parent;
    }
    return n == top ? NULL : CONTAINER_OF(n->sibling.next, struct mirror_node, sibling);
}

/* The children of top, or with `all` top and all below it. ret NULL: only counts. */
static size_t gather(struct mirror_node *top, bool all, struct mirror_item **ret)
{
    size_t count = 0;
    struct mirror_node *n = all ? top : list_empty(&top->children) ? NULL : next_below(top, top);
    while (n != NULL) {
        if (n->item != NULL && ret != NULL) {
            (void)atomic_fetch_add(&n->item->refs, 1);
            ret[count] = n->item;
        }
        count += n->item != NULL ? 1 : 0;
        if (all) {
            n = next_below(top, n);
        } else {
            n = n->sibling.next == &top->children
                    ? NULL
                    : CONTAINER_OF(n->sibling.next, struct mirror_node, sibling);
        }
    }
    return count;
}

static int look(struct conclave_cache *c, const char *path, bool all,
                struct conclave_cache_view **ret)
{
    struct mirror_node *top;
    int error = begin(c, path, all ? 0 : 1, &top);
    if (error != 0) {
        return error;
    }
    struct cache_view *view = NULL;
    size_t count = 0;
    if (!c->loaded && c->error == 0) {
        error = CONCLAVE_EDISCONNECTED;
    } else {
        count = gather(top, all, NULL);
        view = malloc(sizeof *view + count * sizeof view->items[0]);
        error = view == NULL ? CONCLAVE_ENOMEM : 0;
    }
    if (error == 0) {
        view->count = gather(top, all, view->items);
        assert(view->count == count);
        view->view = (struct conclave_cache_view){
            .nodes = (const struct conclave_cache_node *const *)(void *)view->items,
            .count = view->count,
            .zxid = c->mirror.zxid,
            .fresh = c->mirror.fresh,
        };
    }
    (void)pthread_rwlock_unlock(&c->readers);
    if (error == 0) {
        mirror_items_sort(view->items, view->count);
        *ret = &view->view;
    }
    return error;
}

int conclave_cache_children(struct conclave_cache *c, const char *path,
                            struct conclave_cache_view **ret)
{
    return look(c, path, false, ret);
}

int conclave_cache_subtree(struct conclave_cache *c, const char *path,
                           struct conclave_cache_view **ret)
{
    return look(c, path, true, ret);
}

void conclave_cache_view_free(struct conclave_cache_view *public)
{
    struct cache_view *view = (struct cache_view *)(void *)public;
    for (size_t i = 0; view != NULL && i < view->count; i++) {
        mirror_item_unref(view->items[i]);
    }
    free(view);
}
