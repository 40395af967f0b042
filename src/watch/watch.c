#include "watch/watch.h"

#include "base/list.h"
#include "base/map.h"
#include "watch/pool.h"

#include <assert.h>
#include <stdlib.h>

/* A path that somebody watches. */
struct watch_entry {
    struct map_node node;        /* in the table's paths */
    uint32_t first[WATCH_KINDS]; /* first watch of each kind, 0: none */
    uint32_t path_len;           /* bytes of path */
    uint8_t path[];
};

struct watch_table {
    struct map paths;       /* struct watch_entry */
    struct watch_pool pool; /* struct watch */
    uint64_t order;         /* watches set so far */
    uint64_t triggers;      /* events so far */
    size_t watchers;        /* watchers with at least one watch */
    size_t entries_memory;  /* bytes of the entries */
};

#define EVENT_BIT(event) (1u << (event))

/* What each kind is: the events that fire it. */
static const unsigned watch_kind_events[WATCH_KINDS] = {
    [WATCH_DATA] = EVENT_BIT(WATCH_NODE_CREATED) | EVENT_BIT(WATCH_NODE_DELETED) |
                   EVENT_BIT(WATCH_NODE_DATA_CHANGED),
    [WATCH_CHILD] = EVENT_BIT(WATCH_NODE_DELETED) | EVENT_BIT(WATCH_NODE_CHILDREN_CHANGED),
};

struct watch_table *watch_table_create(void)
{
    struct watch_table *t = calloc(1, sizeof *t);
    if (t != NULL) {
        map_init(&t->paths);
        watch_pool_init(&t->pool);
    }
    return t;
}

void watch_table_destroy(struct watch_table *t)
{
    if (t == NULL) {
        return;
    }
    assert(t->pool.count == 0 && t->watchers == 0);
    map_finish(&t->paths);
    watch_pool_finish(&t->pool);
    free(t);
}

/* --- lists of numbers: *first is the first of a circle, 0 when it is empty ------------------------ */

enum watch_list { LIST_OWNER, LIST_ENTRY };

static struct watch_link *watch_link_at(const struct watch_table *t, enum watch_list list,
                                        uint32_t n)
{
    struct watch *watch = watch_at(&t->pool, n);
    return list == LIST_OWNER ? &watch->by_owner : &watch->by_entry;
}

static void watch_list_push(struct watch_table *t, enum watch_list list, uint32_t *first,
                            uint32_t n)
{
    struct watch_link *link = watch_link_at(t, list, n);
    if (*first == 0) {
        link->prev = link->next = n;
        *first = n;
        return;
    }
    struct watch_link *head = watch_link_at(t, list, *first);
    link->prev = head->prev;
    link->next = *first;
    watch_link_at(t, list, head->prev)->next = n;
    head->prev = n;
}

static void watch_list_remove(struct watch_table *t, enum watch_list list, uint32_t *first,
                              uint32_t n)
{
    struct watch_link *link = watch_link_at(t, list, n);
    if (link->next == n) {
        *first = 0;
        return;
    }
    watch_link_at(t, list, link->prev)->next = link->next;
    watch_link_at(t, list, link->next)->prev = link->prev;
    if (*first == n) {
        *first = link->next;
    }
}

/* --- entries -------------------------------------------------------------------------------------- */

static bool watch_entry_equal(const struct map_node *node, const void *key)
{
    const struct watch_entry *entry = CONTAINER_OF(node, struct watch_entry, node);
    return slice_equal(slice_make(entry->path, entry->path_len), *(const struct slice *)key);
}

static struct watch_entry *watch_entry_find(const struct watch_table *t, struct slice path)
{
    uint64_t hash = hash_bytes(path.data, path.len);
    struct map_node *node = map_find(&t->paths, hash, watch_entry_equal, &path);
    return node != NULL ? CONTAINER_OF(node, struct watch_entry, node) : NULL;
}

static struct watch_entry *watch_entry_create(struct watch_table *t, struct slice path)
{
    if (path.len > INT32_MAX) {
        return NULL;
    }
    struct watch_entry *entry = malloc(sizeof *entry + path.len);
    if (entry == NULL) {
        return NULL;
    }
    *entry = (struct watch_entry){.path_len = (uint32_t)path.len};
    if (path.len > 0) {
        memcpy(entry->path, path.data, path.len);
    }
    if (map_insert(&t->paths, &entry->node, hash_bytes(path.data, path.len)) != 0) {
        free(entry);
        return NULL;
    }
    t->entries_memory += sizeof *entry + path.len;
    return entry;
}

/* Frees the entry when nobody watches it any more, and all memory with the last one. */
static void watch_entry_release(struct watch_table *t, struct watch_entry *entry)
{
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        if (entry->first[kind] != 0) {
            return;
        }
    }
    map_remove(&t->paths, &entry->node);
    t->entries_memory -= sizeof *entry + entry->path_len;
    free(entry);
    if (map_count(&t->paths) == 0 && t->pool.chunks_len > 1) {
        map_finish(&t->paths);
        watch_pool_finish(&t->pool);
    }
}

/* --- watches -------------------------------------------------------------------------------------- */

/* Takes a watch out of both lists; its entry stays, even if empty. */
static void watch_drop(struct watch_table *t, uint32_t n)
{
    struct watch *watch = watch_at(&t->pool, n);
    struct watcher *w = watch->watcher;
    watch_list_remove(t, LIST_OWNER, &w->first, n);
    watch_list_remove(t, LIST_ENTRY, &watch->entry->first[watch->kind], n);
    watch_pool_give(&t->pool, n);
    w->count--;
    if (w->count == 0) {
        t->watchers--;
    }
}

void watcher_init(struct watcher *w)
{
    *w = (struct watcher){0};
}

void watcher_finish(struct watch_table *t, struct watcher *w)
{
    while (w->first != 0) {
        struct watch_entry *entry = watch_at(&t->pool, w->first)->entry;
        watch_drop(t, w->first);
        watch_entry_release(t, entry);
    }
}

int watch_add(struct watch_table *t, struct watcher *w, enum watch_kind kind, struct slice path)
{
    assert(kind < WATCH_KINDS);
    struct watch_entry *entry = watch_entry_find(t, path);
    if (entry != NULL && watch_pool_find(&t->pool, w, entry, kind) != 0) {
        return 0;
    }
    if (entry == NULL) {
        entry = watch_entry_create(t, path);
        if (entry == NULL) {
            return CONCLAVE_ENOMEM;
        }
    }
    uint32_t n = watch_pool_take(&t->pool, w, entry, kind);
    if (n == 0) {
        watch_entry_release(t, entry);
        return CONCLAVE_ENOMEM;
    }
    watch_at(&t->pool, n)->order = ++t->order;
    watch_list_push(t, LIST_OWNER, &w->first, n);
    watch_list_push(t, LIST_ENTRY, &entry->first[kind], n);
    if (w->count++ == 0) {
        t->watchers++;
        w->told = 0; /* a number of the table it was in before means nothing here */
    }
    return 0;
}

static uint32_t watch_find(const struct watch_table *t, const struct watcher *w,
                           enum watch_kind kind, struct slice path)
{
    assert(kind < WATCH_KINDS);
    const struct watch_entry *entry = watch_entry_find(t, path);
    return entry != NULL ? watch_pool_find(&t->pool, w, entry, kind) : 0;
}

bool watch_has(const struct watch_table *t, const struct watcher *w, enum watch_kind kind,
               struct slice path)
{
    return watch_find(t, w, kind, path) != 0;
}

bool watch_remove(struct watch_table *t, struct watcher *w, enum watch_kind kind, struct slice path)
{
    uint32_t n = watch_find(t, w, kind, path);
    if (n == 0) {
        return false;
    }
    struct watch_entry *entry = watch_at(&t->pool, n)->entry;
    watch_drop(t, n);
    watch_entry_release(t, entry);
    return true;
}

/* The oldest watch of the entry that the event fires, 0 when there is none left. */
static uint32_t watch_oldest_fired(const struct watch_table *t, const struct watch_entry *entry,
                                   enum watch_event event)
{
    uint32_t oldest = 0;
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        uint32_t n = entry->first[kind];
        if (n == 0 || (watch_kind_events[kind] & EVENT_BIT(event)) == 0) {
            continue;
        }
        if (oldest == 0 || watch_at(&t->pool, n)->order < watch_at(&t->pool, oldest)->order) {
            oldest = n;
        }
    }
    return oldest;
}

size_t watch_trigger(struct watch_table *t, enum watch_event event, struct slice path, watch_fn fn,
                     void *ctx)
{
    struct watch_entry *entry = watch_entry_find(t, path);
    if (entry == NULL) {
        return 0;
    }
    t->triggers++;
    size_t told = 0;
    uint32_t n;
    while ((n = watch_oldest_fired(t, entry, event)) != 0) {
        struct watcher *w = watch_at(&t->pool, n)->watcher;
        watch_drop(t, n);
        if (w->told != t->triggers) {
            w->told = t->triggers;
            told++;
            fn(ctx, w, event, path);
        }
    }
    watch_entry_release(t, entry);
    return told;
}

void watcher_each(const struct watch_table *t, const struct watcher *w,
                  void (*fn)(void *ctx, enum watch_kind kind, struct slice path), void *ctx)
{
    uint32_t n = w->first;
    for (size_t i = 0; i < w->count; i++) {
        const struct watch *watch = watch_at(&t->pool, n);
        fn(ctx, (enum watch_kind)watch->kind,
           slice_make(watch->entry->path, watch->entry->path_len));
        n = watch->by_owner.next;
    }
}

void watch_stats(const struct watch_table *t, struct watch_stats *ret)
{
    *ret = (struct watch_stats){
        .watches = t->pool.count,
        .paths = map_count(&t->paths),
        .watchers = t->watchers,
        .memory = sizeof *t + t->entries_memory + t->pool.memory + map_memory(&t->paths),
    };
}
