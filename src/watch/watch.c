#include "watch/watch.h"

#include "base/list.h"
#include "base/map.h"
#include "watch/watch_pool.h"

#include <assert.h>
#include <stdlib.h>

/* A path with watches. */
struct watch_entry {
    struct map_node node;        /* in the table's paths; key_len: bytes of path */
    uint32_t first[WATCH_KINDS]; /* first watch of each kind, 0: none */
    uint8_t path[];
};

static_assert(sizeof(struct watch_entry) == offsetof(struct watch_entry, path),
              "paths fill blocks");

struct watch_table {
    struct map paths; /* struct watch_entry; their order must stay invisible */
    struct hash_key key;
    struct watch_pool pool; /* struct watch */
    uint64_t order;         /* watches set so far */
    uint64_t triggers;      /* events so far */
    size_t watchers;        /* watchers with at least one watch */
    size_t recursive;       /* recursive watches; 0: events need not visit the paths above */
    size_t entries_memory;  /* bytes of the entries */
    size_t data_watches;    /* watches of other kinds than WATCH_CHILD */
    size_t data_paths;      /* paths with at least one of them */
    size_t data_watchers;   /* watchers with at least one of them */
};

#define EVENT_BIT(event) (1u << (event))

#define EVENTS_OF_NODE                                                                             \
    (EVENT_BIT(WATCH_NODE_CREATED) | EVENT_BIT(WATCH_NODE_DELETED) |                               \
     EVENT_BIT(WATCH_NODE_DATA_CHANGED))

/* The properties of each kind. */
static const struct {
    unsigned events; /* events that fire it, as bits */
    bool stays;      /* stays after it fired */
} watch_kinds[WATCH_KINDS] = {
    [WATCH_DATA] = {EVENTS_OF_NODE, false},
    [WATCH_CHILD] = {EVENT_BIT(WATCH_NODE_DELETED) | EVENT_BIT(WATCH_NODE_CHILDREN_CHANGED), false},
    [WATCH_PERSISTENT] = {EVENTS_OF_NODE | EVENT_BIT(WATCH_NODE_CHILDREN_CHANGED), true},
    [WATCH_RECURSIVE] = {EVENTS_OF_NODE, true},
};

struct watch_table *watch_table_create(const struct hash_key *key)
{
    struct watch_table *t = calloc(1, sizeof *t);
    if (t != NULL) {
        t->key = *key;
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

static struct slice watch_entry_path(const struct watch_entry *entry)
{
    return slice_make(entry->path, entry->node.key_len);
}

static bool watch_entry_equal(const struct map_node *node, const void *key)
{
    const struct watch_entry *entry = CONTAINER_OF(node, struct watch_entry, node);
    return slice_equal(watch_entry_path(entry), *(const struct slice *)key);
}

static struct watch_entry *watch_entry_at(const struct watch_table *t, uint64_t hash,
                                          struct slice path)
{
    struct map_node *node = map_find(&t->paths, hash, watch_entry_equal, &path);
    return node != NULL ? CONTAINER_OF(node, struct watch_entry, node) : NULL;
}

static struct watch_entry *watch_entry_find(const struct watch_table *t, struct slice path)
{
    return watch_entry_at(t, hash_keyed(&t->key, path.data, path.len), path);
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
    *entry = (struct watch_entry){.node.key_len = (uint32_t)path.len};
    if (path.len > 0) {
        memcpy(entry->path, path.data, path.len);
    }
    if (map_insert(&t->paths, &entry->node, hash_keyed(&t->key, path.data, path.len)) != 0) {
        free(entry);
        return NULL;
    }
    t->entries_memory += sizeof *entry + path.len;
    return entry;
}

/* Frees the entry if it has no watches left, and all memory with the last one. */
static void watch_entry_release(struct watch_table *t, struct watch_entry *entry)
{
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        if (entry->first[kind] != 0) {
            return;
        }
    }
    map_remove(&t->paths, &entry->node);
    assert(t->entries_memory >= sizeof *entry + entry->node.key_len);
    t->entries_memory -= sizeof *entry + entry->node.key_len;
    free(entry);
    if (map_count(&t->paths) == 0 && t->pool.chunks_len > 1) {
        map_finish(&t->paths);
        watch_pool_finish(&t->pool);
    }
}

static bool watch_entry_has_data(const struct watch_entry *entry)
{
    return (entry->first[WATCH_DATA] | entry->first[WATCH_PERSISTENT] |
            entry->first[WATCH_RECURSIVE]) != 0;
}

/* --- watches -------------------------------------------------------------------------------------- */

/* Removes a watch from both lists; its entry stays, even if empty. */
static void watch_drop(struct watch_table *t, uint32_t n)
{
    struct watch *watch = watch_at(&t->pool, n);
    struct watcher *w = watch->watcher;
    watch_list_remove(t, LIST_OWNER, &w->first, n);
    watch_list_remove(t, LIST_ENTRY, &watch->entry->first[watch->kind], n);
    assert(w->count > 0 && (watch->kind != WATCH_RECURSIVE || t->recursive > 0));
    t->recursive -= watch->kind == WATCH_RECURSIVE;
    bool child = watch->kind == WATCH_CHILD;
    w->count--;
    account_credit(w->account, ACCOUNT_WATCHES, watch->entry->node.key_len);
    w->child -= child;
    t->data_watches -= !child;
    t->data_paths -= !child && !watch_entry_has_data(watch->entry);
    t->data_watchers -= !child && w->count == w->child;
    watch_pool_give(&t->pool, n);
    assert((w->count == 0) == (w->first == 0) && w->child <= w->count);
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
    t->recursive += kind == WATCH_RECURSIVE;
    bool child = kind == WATCH_CHILD;
    t->data_watches += !child;
    t->data_paths += !child && !watch_entry_has_data(entry);
    t->data_watchers += !child && w->count == w->child;
    w->child += child;
    account_charge(w->account, ACCOUNT_WATCHES, path.len);
    watch_list_push(t, LIST_OWNER, &w->first, n);
    watch_list_push(t, LIST_ENTRY, &entry->first[kind], n);
    if (w->count++ == 0) {
        t->watchers++;
        w->told = 0; /* a number from an earlier table has no meaning here */
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

/* One event in progress. */
struct watch_trigger {
    struct watch_table *t;
    enum watch_event event;
    struct slice path;
    watch_fn fn;
    void *ctx;
    size_t told;
};

static void watch_tell(struct watch_trigger *trigger, struct watcher *w)
{
    if (w->told != trigger->t->triggers) {
        w->told = trigger->t->triggers;
        trigger->told++;
        trigger->fn(trigger->ctx, w, trigger->event, trigger->path);
    }
}

/* The watch after n at its path; 0: none. */
static uint32_t watch_behind(const struct watch_table *t, const struct watch_entry *entry,
                             uint32_t n)
{
    uint32_t next = watch_at(&t->pool, n)->by_entry.next;
    return next == entry->first[watch_at(&t->pool, n)->kind] ? 0 : next;
}

/* The kind whose next watch is the oldest; WATCH_KINDS: none left. */
static int watch_oldest(const struct watch_table *t, const uint32_t *next)
{
    int oldest = WATCH_KINDS;
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        if (next[kind] != 0 &&
            (oldest == WATCH_KINDS ||
             watch_at(&t->pool, next[kind])->order < watch_at(&t->pool, next[oldest])->order)) {
            oldest = kind;
        }
    }
    return oldest;
}

/* Handles the watches at the event's own path, of all kinds that it fires, in the order of setting. */
static void watch_tell_at(struct watch_trigger *trigger, struct watch_entry *entry)
{
    struct watch_table *t = trigger->t;
    uint32_t next[WATCH_KINDS];
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        bool fired = (watch_kinds[kind].events & EVENT_BIT(trigger->event)) != 0;
        next[kind] = fired ? entry->first[kind] : 0;
    }
    int kind;
    while ((kind = watch_oldest(t, next)) != WATCH_KINDS) {
        uint32_t n = next[kind];
        struct watcher *w = watch_at(&t->pool, n)->watcher;
        if (watch_kinds[kind].stays) {
            next[kind] = watch_behind(t, entry, n);
        } else {
            watch_drop(t, n);
            next[kind] = entry->first[kind];
        }
        watch_tell(trigger, w);
    }
    watch_entry_release(t, entry);
}

static void watch_tell_recursive(struct watch_trigger *trigger, uint64_t hash, struct slice above)
{
    const struct watch_table *t = trigger->t;
    const struct watch_entry *entry = watch_entry_at(t, hash, above);
    uint32_t n = entry != NULL ? entry->first[WATCH_RECURSIVE] : 0;
    for (; n != 0; n = watch_behind(t, entry, n)) {
        watch_tell(trigger, watch_at(&t->pool, n)->watcher);
    }
}

/* Handles the recursive watches above the event's path, from "/" down, so that each byte of the path is hashed once. */
static void watch_tell_above(struct watch_trigger *trigger)
{
    struct slice path = trigger->path;
    struct hash_stream hash;
    size_t hashed = 0;
    const uint8_t *slash = path.data;
    hash_stream_begin(&hash, &trigger->t->key);
    if (path.len < 2) {
        return;
    }
    watch_tell_recursive(trigger, hash_keyed(&trigger->t->key, path.data, 1),
                         slice_make(path.data, 1));
    while ((slash = memchr(slash + 1, '/', path.len - (size_t)(slash + 1 - path.data))) != NULL) {
        size_t len = (size_t)(slash - path.data);
        hash_stream_add(&hash, path.data + hashed, len - hashed);
        hashed = len;
        watch_tell_recursive(trigger, hash_stream_value(&hash), slice_make(path.data, len));
    }
}

void watch_count(const struct watch_table *t, struct slice path, size_t most,
                 size_t ret_counts[WATCH_KINDS])
{
    const struct watch_entry *entry = watch_entry_find(t, path);
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        uint32_t first = entry != NULL ? entry->first[kind] : 0;
        uint32_t n = first;
        ret_counts[kind] = 0;
        while (n != 0 && ret_counts[kind] < most) {
            ret_counts[kind]++;
            n = watch_link_at(t, LIST_ENTRY, n)->next;
            n = n == first ? 0 : n;
        }
    }
}

size_t watch_trigger(struct watch_table *t, enum watch_event event, struct slice path, watch_fn fn,
                     void *ctx)
{
    struct watch_trigger trigger = {t, event, path, fn, ctx, 0};
    struct watch_entry *entry = watch_entry_find(t, path);
    t->triggers++;
    if (entry != NULL) {
        watch_tell_at(&trigger, entry);
    }
    if (t->recursive > 0 && (watch_kinds[WATCH_RECURSIVE].events & EVENT_BIT(event)) != 0) {
        watch_tell_above(&trigger);
    }
    return trigger.told;
}

/* The kinds in Apache ZooKeeper's dataWatches. */
static const enum watch_kind data_kinds[] = {WATCH_DATA, WATCH_PERSISTENT, WATCH_RECURSIVE};

/* The first data watch of a path: the others of the path are reported with it. */
static uint32_t watch_first_data(const struct watch_entry *entry)
{
    return entry->first[WATCH_DATA] != 0         ? entry->first[WATCH_DATA]
           : entry->first[WATCH_PERSISTENT] != 0 ? entry->first[WATCH_PERSISTENT]
                                                 : entry->first[WATCH_RECURSIVE];
}

/* False: fn stopped. */
static bool watch_each_data_at(const struct watch_table *t, const struct watch_entry *entry,
                               bool (*fn)(void *ctx, struct slice path, struct watcher *w),
                               void *ctx)
{
    for (size_t i = 0; i < sizeof data_kinds / sizeof data_kinds[0]; i++) {
        for (uint32_t n = entry->first[data_kinds[i]]; n != 0; n = watch_behind(t, entry, n)) {
            struct watcher *w = watch_at(&t->pool, n)->watcher;
            bool told = false;
            for (size_t before = 0; before < i; before++) {
                told |= watch_pool_find(&t->pool, w, entry, data_kinds[before]) != 0;
            }
            if (!told && !fn(ctx, watch_entry_path(entry), w)) {
                return false;
            }
        }
    }
    return true;
}

/* In the order of the watches' numbers, because the order of the table must stay invisible. */
void watch_each_data(const struct watch_table *t,
                     bool (*fn)(void *ctx, struct slice path, struct watcher *w), void *ctx)
{
    uint32_t n = 0;
    while ((n = watch_pool_next(&t->pool, n)) != 0) {
        const struct watch_entry *entry = watch_at(&t->pool, n)->entry;
        if (watch_first_data(entry) == n && !watch_each_data_at(t, entry, fn, ctx)) {
            return;
        }
    }
}

void watch_stats(const struct watch_table *t, struct watch_stats *ret)
{
    *ret = (struct watch_stats){
        .watches = t->pool.count,
        .paths = map_count(&t->paths),
        .watchers = t->watchers,
        .recursive = t->recursive,
        .data_watches = t->data_watches,
        .data_paths = t->data_paths,
        .data_watchers = t->data_watchers,
        .memory = sizeof *t + t->entries_memory + t->pool.memory + map_memory(&t->paths),
    };
}
