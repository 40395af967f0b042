/*
 * Intrusive hash table: the owner embeds a map_node and owns its memory. The table grows by doubling, a few buckets at
 * each insertion, so that no single insertion pays for the whole table. The map does not know the keys: the owner gives
 * the 64-bit hash and an equality function.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_node {
    struct map_node *next; /* chain of the bucket */
    uint32_t hash;         /* low bits of the hash */
    uint32_t key_len;      /* length of the key, for the owner; the map ignores it */
};

/* Whether node has the key. */
typedef bool (*map_equal_fn)(const struct map_node *node, const void *key);

struct map {
    struct map_node **buckets; /* current table, 1 << bits of them, or NULL */
    struct map_node **old;     /* the old table of half the size while it is emptied, or NULL */
    size_t old_next;           /* first bucket of old that may be non-empty */
    size_t count;              /* nodes */
    unsigned bits;             /* log2 of the number of buckets */
};

void map_init(struct map *m);

/* Frees the tables, not the nodes. */
void map_finish(struct map *m);

/* The node with that hash and key, or NULL. */
struct map_node *map_find(const struct map *m, uint64_t hash, map_equal_fn equal, const void *key);

/* Adds a node whose key is not in the map. 0 or CONCLAVE_ENOMEM (only for the first table). */
int map_insert(struct map *m, struct map_node *node, uint64_t hash) CONCLAVE_MUST_USE;

/* Removes a node that is present. */
void map_remove(struct map *m, struct map_node *node);

static inline size_t map_count(const struct map *m)
{
    return m->count;
}

/* Walks all nodes in any order: start with NULL, ends with NULL. The map must not change between calls. */
struct map_node *map_next(const struct map *m, const struct map_node *node);

/* Empties the map and returns all its nodes as one chain by `next`. */
struct map_node *map_take_all(struct map *m);

/* Bytes of the tables. */
size_t map_memory(const struct map *m);

/* 64-bit hash of bytes (XXH3), the same on every machine: for values that are compared or stored, and for keys that
 * clients do not choose (for those use hash_keyed). */
uint64_t hash_bytes(const void *data, size_t len);
uint64_t hash_u64(uint64_t v);

/* For numbers that clients do not choose, and only for tables: cheaper than hash_u64, and stored nowhere. */
static inline uint64_t hash_number(uint64_t v)
{
    v *= 0x9e3779b97f4a7c15u;
    return v ^ v >> 32;
}

#endif
