#include "client/core/watches.h"

#include <assert.h>
#include <stdlib.h>

struct watch_key {
    enum client_watch_kind kind;
    struct slice path;
};

static struct client_watch *node_watch(const struct map_node *node)
{
    return CONTAINER_OF(node, struct client_watch, node);
}

static struct slice watch_path(const struct client_watch *w)
{
    return slice_make(w->path, w->path_len);
}

static bool watch_equal(const struct map_node *node, const void *key)
{
    const struct client_watch *w = node_watch(node);
    const struct watch_key *k = key;
    return w->kind == k->kind && slice_equal(watch_path(w), k->path);
}

static uint64_t key_hash(const struct watch_key *k)
{
    return hash_bytes(k->path.data, k->path.len) + (uint64_t)k->kind;
}

static struct client_watch *find_first(const struct watches *ws, const struct watch_key *key)
{
    struct map_node *node = map_find(&ws->map, key_hash(key), watch_equal, key);
    return node != NULL ? node_watch(node) : NULL;
}

int watches_init(struct watches *ws)
{
    memset(ws->counts, 0, sizeof ws->counts);
    map_init(&ws->map);
    /* Only the first table can fail: allocate it now, so that adding a watch cannot fail later. */
    struct map_node node;
    int rc = map_insert(&ws->map, &node, 0);
    if (rc == 0) {
        map_remove(&ws->map, &node);
    }
    return rc;
}

void watches_finish(struct watches *ws)
{
    assert(watches_count(ws) == 0);
    map_finish(&ws->map);
}

struct client_watch *watch_create(const char *path, conclave_watch_fn fn, void *ctx)
{
    size_t len = strlen(path);
    struct client_watch *w = malloc(sizeof *w + len + 1);
    if (w == NULL) {
        return NULL;
    }
    *w = (struct client_watch){.fn = fn, .ctx = ctx, .path_len = (uint32_t)len};
    memcpy(w->path, path, len + 1);
    list_init(&w->same);
    list_init(&w->link);
    return w;
}

void watches_add_take(struct watches *ws, struct client_watch *w, enum client_watch_kind kind)
{
    assert(list_empty(&w->same) && list_empty(&w->link));
    w->kind = kind;
    struct watch_key key = {kind, watch_path(w)};
    struct client_watch *first = find_first(ws, &key);
    if (first != NULL) {
        list_push_back(&first->same, &w->same);
        return;
    }
    int rc = map_insert(&ws->map, &w->node, key_hash(&key));
    assert(rc == 0);
    (void)rc;
    ws->counts[kind]++;
}

/* Removes the first watch of a ring, and so its kind and path, from the map. */
static void remove_first(struct watches *ws, struct client_watch *first)
{
    assert(ws->counts[first->kind] > 0 && ws->counts[first->kind] <= watches_count(ws));
    map_remove(&ws->map, &first->node);
    ws->counts[first->kind]--;
}

/* Moves the whole ring of `first`, which is already removed from the map, to ret in the order of setting. */
static void move_ring(struct client_watch *first, enum conclave_event_type type, struct list *ret)
{
    struct client_watch *w = first;
    while (w != NULL) {
        struct client_watch *next =
            list_empty(&w->same) ? NULL : CONTAINER_OF(w->same.next, struct client_watch, same);
        list_remove(&w->same);
        w->type = type;
        list_push_back(ret, &w->link);
        w = next;
    }
}

void watches_fire(struct watches *ws, enum conclave_event_type type, struct slice path,
                  struct list *ret)
{
    static const unsigned char fires[][WATCH_ONE_SHOT_KINDS] = {
        [CONCLAVE_EVENT_CREATED] = {[WATCH_DATA] = 1, [WATCH_EXIST] = 1},
        [CONCLAVE_EVENT_DELETED] = {[WATCH_DATA] = 1, [WATCH_EXIST] = 1, [WATCH_CHILD] = 1},
        [CONCLAVE_EVENT_DATA_CHANGED] = {[WATCH_DATA] = 1, [WATCH_EXIST] = 1},
        [CONCLAVE_EVENT_CHILDREN_CHANGED] = {[WATCH_CHILD] = 1},
    };
    for (int kind = 0; kind < WATCH_ONE_SHOT_KINDS; kind++) {
        struct watch_key key = {(enum client_watch_kind)kind, path};
        struct client_watch *first = fires[type][kind] ? find_first(ws, &key) : NULL;
        if (first != NULL) {
            remove_first(ws, first);
            move_ring(first, type, ret);
        }
    }
}

/* The watch after w in its ring; NULL: the end. */
static struct client_watch *ring_next(struct client_watch *first, struct client_watch *w)
{
    struct client_watch *next = CONTAINER_OF(w->same.next, struct client_watch, same);
    return next == first ? NULL : next;
}

/* Makes an event for each watch of the ring; first may be NULL. */
static int notify_ring(struct client_watch *first, enum conclave_event_type type, struct slice path,
                       struct list *ret)
{
    for (struct client_watch *w = first; w != NULL; w = ring_next(first, w)) {
        struct client_event *e = malloc(sizeof *e + path.len + 1);
        if (e == NULL) {
            return CONCLAVE_ENOMEM;
        }
        assert(watch_kind_is_persistent(w->kind));
        *e = (struct client_event){.watch = w, .type = type};
        memcpy(e->path, path.data, path.len);
        e->path[path.len] = '\0';
        list_push_back(ret, &e->link);
    }
    return 0;
}

/* The parent of a path; null for "/". */
static struct slice path_parent(struct slice path)
{
    if (path.len <= 1) {
        return SLICE_NULL;
    }
    size_t len = path.len - 1;
    while (len > 0 && path.data[len] != '/') {
        len--;
    }
    return slice_make(path.data, len > 0 ? len : 1);
}

int watches_notify(const struct watches *ws, enum conclave_event_type type, struct slice path,
                   struct list *ret)
{
    int rc = 0;
    if (ws->counts[WATCH_PERSISTENT] > 0) {
        struct watch_key key = {WATCH_PERSISTENT, path};
        rc = notify_ring(find_first(ws, &key), type, path, ret);
    }
    if (ws->counts[WATCH_RECURSIVE] == 0 || type == CONCLAVE_EVENT_CHILDREN_CHANGED) {
        return rc;
    }
    for (struct slice at = path; rc == 0 && !slice_is_null(at); at = path_parent(at)) {
        struct watch_key key = {WATCH_RECURSIVE, at};
        rc = notify_ring(find_first(ws, &key), type, path, ret);
    }
    return rc;
}

int watches_notify_all(const struct watches *ws, enum conclave_event_type type, struct list *ret)
{
    int rc = 0;
    for (struct client_watch *w = watches_next(ws, NULL); rc == 0 && w != NULL;
         w = watches_next(ws, w)) {
        if (watch_kind_is_persistent(w->kind)) {
            rc = notify_ring(w, type, watch_path(w), ret);
        }
    }
    return rc;
}

bool watches_has(const struct watches *ws, enum client_watch_kind kind, struct slice path)
{
    struct watch_key key = {kind, path};
    return ws->counts[kind] > 0 && find_first(ws, &key) != NULL;
}

void watches_take_all(struct watches *ws, struct list *ret)
{
    /* Not map_take_all, which frees the table: it must stay, so that adding cannot fail. */
    struct list firsts;
    list_init(&firsts);
    for (struct client_watch *w = watches_next(ws, NULL); w != NULL; w = watches_next(ws, w)) {
        list_push_back(&firsts, &w->link);
    }
    struct list *link;
    while ((link = list_pop_front(&firsts)) != NULL) {
        struct client_watch *first = CONTAINER_OF(link, struct client_watch, link);
        remove_first(ws, first);
        move_ring(first, CONCLAVE_EVENT_LOST, ret);
    }
}

/* Removes w, of the ring of `first`, from the registry. */
static void take_one(struct watches *ws, struct client_watch *first, struct client_watch *w)
{
    if (w == first) {
        remove_first(ws, w);
        if (!list_empty(&w->same)) {
            struct client_watch *heir = CONTAINER_OF(w->same.next, struct client_watch, same);
            struct watch_key key = {w->kind, watch_path(heir)};
            int rc = map_insert(&ws->map, &heir->node, key_hash(&key));
            assert(rc == 0);
            (void)rc;
            ws->counts[w->kind]++;
        }
    }
    list_remove(&w->same);
}

struct client_watch *watches_take(struct watches *ws, const char *path, conclave_watch_fn fn,
                                  void *ctx, bool internal)
{
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        struct watch_key key = {(enum client_watch_kind)kind, slice_str(path)};
        struct client_watch *first = find_first(ws, &key);
        struct client_watch *w = first;
        while (w != NULL) {
            if (w->fn == fn && w->ctx == ctx && w->internal == internal) {
                take_one(ws, first, w);
                return w;
            }
            w = ring_next(first, w);
        }
    }
    return NULL;
}

struct client_watch *watches_next(const struct watches *ws, const struct client_watch *w)
{
    struct map_node *node = map_next(&ws->map, w != NULL ? &w->node : NULL);
    return node != NULL ? node_watch(node) : NULL;
}
