#include "base/map.h"

#include "base/endian.h"

#include <assert.h>
#include <stdlib.h>

/* The functions are in the header: no library to load, and no call to it for each hash. */
#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    MAP_BITS_MIN = 4,
    MAP_BITS_MAX = 31,
    MAP_MOVE = 8, /* buckets moved at each insertion while the table grows */
};

void map_init(struct map *m)
{
    *m = (struct map){0};
}

void map_finish(struct map *m)
{
    free(m->buckets);
    free(m->old);
    map_init(m);
}

static size_t map_size(const struct map *m)
{
    return (size_t)1 << m->bits;
}

/* The chain for nodes with this hash: in the old table, if its bucket was not moved yet. */
static struct map_node **map_chain(const struct map *m, uint32_t hash)
{
    if (m->old != NULL) {
        size_t i = hash & (map_size(m) / 2 - 1);
        if (i >= m->old_next) {
            return &m->old[i];
        }
    }
    return &m->buckets[hash & (map_size(m) - 1)];
}

static void map_push(struct map *m, struct map_node *node)
{
    struct map_node **chain = &m->buckets[node->hash & (map_size(m) - 1)];
    node->next = *chain;
    *chain = node;
}

static void map_move(struct map *m)
{
    size_t old_size = map_size(m) / 2;
    for (int n = 0; n < MAP_MOVE && m->old_next < old_size; n++) {
        struct map_node *node = m->old[m->old_next];
        m->old_next++;
        while (node != NULL) {
            struct map_node *next = node->next;
            map_push(m, node);
            node = next;
        }
    }
    if (m->old_next == old_size) {
        free(m->old);
        m->old = NULL;
        m->old_next = 0;
    }
}

/* A failure to grow is no error: chains only get longer. */
static void map_grow(struct map *m)
{
    struct map_node **buckets = calloc(map_size(m) * 2, sizeof *buckets);
    if (buckets == NULL) {
        return;
    }
    m->old = m->buckets;
    m->old_next = 0;
    m->buckets = buckets;
    m->bits++;
}

int map_insert(struct map *m, struct map_node *node, uint64_t hash)
{
    if (m->buckets == NULL) {
        m->buckets = calloc((size_t)1 << MAP_BITS_MIN, sizeof(struct map_node *));
        if (m->buckets == NULL) {
            return CONCLAVE_ENOMEM;
        }
        m->bits = MAP_BITS_MIN;
    }
    if (m->old != NULL) {
        map_move(m);
    } else if (m->count >= map_size(m) && m->bits < MAP_BITS_MAX) {
        map_grow(m);
    }
    node->hash = (uint32_t)hash;
    struct map_node **chain = map_chain(m, node->hash);
    node->next = *chain;
    *chain = node;
    m->count++;
    return 0;
}

struct map_node *map_find(const struct map *m, uint64_t hash, map_equal_fn equal, const void *key)
{
    if (m->buckets == NULL) {
        return NULL;
    }
    for (struct map_node *n = *map_chain(m, (uint32_t)hash); n != NULL; n = n->next) {
        if (n->hash == (uint32_t)hash && equal(n, key)) {
            return n;
        }
    }
    return NULL;
}

void map_remove(struct map *m, struct map_node *node)
{
    struct map_node **link = map_chain(m, node->hash);
    while (*link != node) {
        assert(*link != NULL);
        link = &(*link)->next;
    }
    assert(m->count > 0);
    *link = node->next;
    node->next = NULL;
    m->count--;
}

/* First node of the first non-empty chain from bucket `from` on; old buckets come first. */
static struct map_node *map_first_from(const struct map *m, size_t from)
{
    size_t old_size = m->old != NULL ? map_size(m) / 2 : 0;
    for (size_t i = from; i < old_size; i++) {
        if (i >= m->old_next && m->old[i] != NULL) {
            return m->old[i];
        }
    }
    for (size_t i = from > old_size ? from - old_size : 0; i < map_size(m); i++) {
        if (m->buckets[i] != NULL) {
            return m->buckets[i];
        }
    }
    return NULL;
}

struct map_node *map_next(const struct map *m, const struct map_node *node)
{
    if (m->buckets == NULL) {
        return NULL;
    }
    if (node == NULL) {
        return map_first_from(m, 0);
    }
    if (node->next != NULL) {
        return node->next;
    }
    size_t old_size = m->old != NULL ? map_size(m) / 2 : 0;
    size_t i = old_size > 0 ? node->hash & (old_size - 1) : 0;
    if (old_size > 0 && i >= m->old_next) {
        return map_first_from(m, i + 1);
    }
    return map_first_from(m, old_size + (node->hash & (map_size(m) - 1)) + 1);
}

struct map_node *map_take_all(struct map *m)
{
    struct map_node *all = NULL;
    struct map_node *next;
    for (struct map_node *node = map_next(m, NULL); node != NULL; node = next) {
        next = map_next(m, node);
        node->next = NULL;
        struct map_node *rest = all;
        all = node;
        all->next = rest;
    }
    map_finish(m);
    return all;
}

size_t map_memory(const struct map *m)
{
    size_t n = m->buckets != NULL ? map_size(m) : 0;
    return (n + (m->old != NULL ? n / 2 : 0)) * sizeof(struct map_node *);
}

uint64_t hash_bytes(const void *data, size_t len)
{
    return XXH3_64bits(data, len);
}

uint64_t hash_u64(uint64_t v)
{
    uint8_t bytes[sizeof v];
    put_le64(bytes, v);
    return XXH3_64bits(bytes, sizeof bytes);
}
