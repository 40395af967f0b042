#include "client/watches.h"

#include <assert.h>
#include <stdlib.h>

struct watch_key {
    enum watch_kind kind;
    struct slice path;
};

static struct watch *node_watch(const struct map_node *node)
{
    return CONTAINER_OF(node, struct watch, node);
}

static struct slice watch_path(const struct watch *w)
{
    return slice_make(w->path, w->path_len);
}

static bool watch_equal(const struct map_node *node, const void *key)
{
    const struct watch *w = node_watch(node);
    const struct watch_key *k = key;
    return w->kind == k->kind && slice_equal(watch_path(w), k->path);
}

static uint64_t key_hash(const struct watch_key *k)
{
    return hash_bytes(k->path.data, k->path.len) + (uint64_t)k->kind;
}

static struct watch *find_first(const struct watches *ws, const struct watch_key *key)
{
    struct map_node *node = map_find(&ws->map, key_hash(key), watch_equal, key);
    return node != NULL ? node_watch(node) : NULL;
}

int watches_init(struct watches *ws)
{
    map_init(&ws->map);
    /* Only the very first table can be refused: have it now, so that adding a watch cannot fail
     * later. */
    struct map_node node;
    int rc = map_insert(&ws->map, &node, 0);
    if (rc == 0) {
        map_remove(&ws->map, &node);
    }
    return rc;
}

void watches_finish(struct watches *ws)
{
    assert(map_count(&ws->map) == 0);
    map_finish(&ws->map);
}

struct watch *watch_create(const char *path, conclave_watch_fn fn, void *ctx)
{
    size_t len = strlen(path);
    struct watch *w = malloc(sizeof *w + len + 1);
    if (w == NULL) {
        return NULL;
    }
    *w = (struct watch){.fn = fn, .ctx = ctx, .path_len = (uint32_t)len};
    memcpy(w->path, path, len + 1);
    list_init(&w->same);
    list_init(&w->link);
    return w;
}

void watches_add_take(struct watches *ws, struct watch *w, enum watch_kind kind)
{
    w->kind = kind;
    struct watch_key key = {kind, watch_path(w)};
    struct watch *first = find_first(ws, &key);
    if (first != NULL) {
        list_push_back(&first->same, &w->same);
        return;
    }
    int rc = map_insert(&ws->map, &w->node, key_hash(&key));
    assert(rc == 0);
    (void)rc;
}

/* Moves the whole ring of `first`, which is out of the map already, to ret in the order of
 * setting. */
static void move_ring(struct watch *first, enum conclave_event_type type, struct list *ret)
{
    struct watch *w = first;
    while (w != NULL) {
        struct watch *next =
            list_empty(&w->same) ? NULL : CONTAINER_OF(w->same.next, struct watch, same);
        list_remove(&w->same);
        w->type = type;
        list_push_back(ret, &w->link);
        w = next;
    }
}

void watches_fire(struct watches *ws, enum conclave_event_type type, struct slice path,
                  struct list *ret)
{
    static const unsigned char fires[][WATCH_KINDS] = {
        [CONCLAVE_EVENT_CREATED] = {[WATCH_DATA] = 1, [WATCH_EXIST] = 1},
        [CONCLAVE_EVENT_DELETED] = {[WATCH_DATA] = 1, [WATCH_EXIST] = 1, [WATCH_CHILD] = 1},
        [CONCLAVE_EVENT_DATA_CHANGED] = {[WATCH_DATA] = 1, [WATCH_EXIST] = 1},
        [CONCLAVE_EVENT_CHILDREN_CHANGED] = {[WATCH_CHILD] = 1},
    };
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        struct watch_key key = {(enum watch_kind)kind, path};
        struct watch *first = fires[type][kind] ? find_first(ws, &key) : NULL;
        if (first != NULL) {
            map_remove(&ws->map, &first->node);
            move_ring(first, type, ret);
        }
    }
}

void watches_take_all(struct watches *ws, struct list *ret)
{
    /* Not map_take_all: that gives the table back, which must stay for adding not to fail. */
    struct list firsts;
    list_init(&firsts);
    for (struct watch *w = watches_next(ws, NULL); w != NULL; w = watches_next(ws, w)) {
        list_push_back(&firsts, &w->link);
    }
    struct list *link;
    while ((link = list_pop_front(&firsts)) != NULL) {
        struct watch *first = CONTAINER_OF(link, struct watch, link);
        map_remove(&ws->map, &first->node);
        move_ring(first, CONCLAVE_EVENT_LOST, ret);
    }
}

/* Takes w, of the ring of `first`, out of the registry. */
static void take_one(struct watches *ws, struct watch *first, struct watch *w)
{
    if (w == first) {
        map_remove(&ws->map, &w->node);
        if (!list_empty(&w->same)) {
            struct watch *heir = CONTAINER_OF(w->same.next, struct watch, same);
            struct watch_key key = {w->kind, watch_path(heir)};
            int rc = map_insert(&ws->map, &heir->node, key_hash(&key));
            assert(rc == 0);
            (void)rc;
        }
    }
    list_remove(&w->same);
}

struct watch *watches_take(struct watches *ws, const char *path, conclave_watch_fn fn, void *ctx,
                           bool internal)
{
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        struct watch_key key = {(enum watch_kind)kind, slice_str(path)};
        struct watch *first = find_first(ws, &key);
        struct watch *w = first;
        while (w != NULL) {
            if (w->fn == fn && w->ctx == ctx && w->internal == internal) {
                take_one(ws, first, w);
                return w;
            }
            w = CONTAINER_OF(w->same.next, struct watch, same);
            w = w == first ? NULL : w;
        }
    }
    return NULL;
}

struct watch *watches_next(const struct watches *ws, const struct watch *w)
{
    struct map_node *node = map_next(&ws->map, w != NULL ? &w->node : NULL);
    return node != NULL ? node_watch(node) : NULL;
}
