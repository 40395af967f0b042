#include "watch/watch_pool.h"

#include "base/map.h"

#include <assert.h>
#include <stdlib.h>

void watch_pool_init(struct watch_pool *p)
{
    *p = (struct watch_pool){0};
}

void watch_pool_finish(struct watch_pool *p)
{
    for (size_t i = 0; i < p->chunks_len; i++) {
        free(p->chunks[i]);
    }
    free(p->chunks);
    for (size_t i = 0; i < WATCH_SEGMENTS; i++) {
        free(p->segments[i]);
    }
    watch_pool_init(p);
}

/* --- the index -------------------------------------------------------------------------------- */

/* Addresses serve only as identity: they decide the bucket, never a visible order. */
static uint32_t watch_hash(const struct watcher *w, const struct watch_entry *entry, uint32_t kind)
{
    uint64_t a = (uint64_t)(uintptr_t)w;
    uint64_t b = (uint64_t)(uintptr_t)entry;
    return (uint32_t)hash_number(a * 0x9e3779b97f4a7c15u + b + kind);
}

static uint32_t *watch_bucket(const struct watch_pool *p, uint32_t i)
{
    uint32_t high = i >> WATCH_INDEX_BITS;
    if (high == 0) {
        return &p->segments[0][i];
    }
    unsigned top = 31u - (unsigned)__builtin_clz(high); /* highest bit of high */
    return &p->segments[top + 1][i - (1u << (top + WATCH_INDEX_BITS))];
}

/* The bucket of a hash: uses one bit more than the full buckets, or one less if that bucket does not exist yet. */
static uint32_t watch_bucket_of(uint32_t buckets, uint32_t hash)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz(buckets);
    uint32_t i = hash & mask;
    return i < buckets ? i : i & (mask >> 1);
}

/* Adds one bucket, and moves watches to it from the bucket that it splits. A failure is no error: chains only get
 * longer. */
static void watch_index_grow(struct watch_pool *p)
{
    uint32_t added = p->buckets;
    if ((added & (added - 1)) == 0) {
        size_t segment = (size_t)(31 - __builtin_clz(added)) - WATCH_INDEX_BITS + 1;
        p->segments[segment] = malloc(added * sizeof(uint32_t));
        if (p->segments[segment] == NULL) {
            return;
        }
        p->memory += added * sizeof(uint32_t);
    }
    uint32_t *from = watch_bucket(p, added - (1u << (31 - __builtin_clz(added))));
    uint32_t *to = watch_bucket(p, added);
    p->buckets++;
    *to = 0;
    for (uint32_t *link = from; *link != 0;) {
        uint32_t n = *link;
        struct watch *watch = watch_at(p, n);
        uint32_t hash = watch_hash(watch->watcher, watch->entry, watch->kind);
        if (watch_bucket_of(p->buckets, hash) == added) {
            *link = watch->chain;
            watch->chain = *to;
            *to = n;
        } else {
            link = &watch->chain;
        }
    }
}

uint32_t watch_pool_find(const struct watch_pool *p, const struct watcher *w,
                         const struct watch_entry *entry, enum watch_kind kind)
{
    if (p->buckets == 0) {
        return 0;
    }
    uint32_t hash = watch_hash(w, entry, kind);
    uint32_t n = *watch_bucket(p, watch_bucket_of(p->buckets, hash));
    while (n != 0) {
        const struct watch *watch = watch_at(p, n);
        if (watch->watcher == w && watch->entry == entry && watch->kind == kind) {
            return n;
        }
        n = watch->chain;
    }
    return 0;
}

/* --- places ----------------------------------------------------------------------------------- */

static bool watch_pool_add_chunk(struct watch_pool *p)
{
    uint32_t places = 1u << WATCH_CHUNK_BITS;
    if (p->chunks_len > UINT32_MAX >> WATCH_CHUNK_BITS) {
        return false;
    }
    if (p->chunks_len == p->chunks_cap) {
        size_t cap = p->chunks_cap == 0 ? 8 : p->chunks_cap * 2;
        struct watch **chunks = realloc(p->chunks, cap * sizeof *chunks);
        if (chunks == NULL) {
            return false;
        }
        p->memory += (cap - p->chunks_cap) * sizeof *chunks;
        p->chunks = chunks;
        p->chunks_cap = cap;
    }
    struct watch *chunk = malloc(places * sizeof *chunk);
    if (chunk == NULL) {
        return false;
    }
    p->memory += places * sizeof *chunk;
    uint32_t base = (uint32_t)(p->chunks_len << WATCH_CHUNK_BITS);
    p->chunks[p->chunks_len++] = chunk;
    for (uint32_t i = places; i-- > (base == 0 ? 1 : 0);) {
        chunk[i].watcher = NULL;
        chunk[i].chain = p->free;
        p->free = base + i;
    }
    return true;
}

static bool watch_pool_ready(struct watch_pool *p)
{
    if (p->buckets == 0) {
        p->segments[0] = calloc((size_t)1 << WATCH_INDEX_BITS, sizeof(uint32_t));
        if (p->segments[0] == NULL) {
            return false;
        }
        p->buckets = 1u << WATCH_INDEX_BITS;
        p->memory += p->buckets * sizeof(uint32_t);
    }
    return p->free != 0 || watch_pool_add_chunk(p);
}

uint32_t watch_pool_take(struct watch_pool *p, struct watcher *w, struct watch_entry *entry,
                         enum watch_kind kind)
{
    if (!watch_pool_ready(p)) {
        return 0;
    }
    if (p->count >= p->buckets && p->buckets < UINT32_MAX) {
        watch_index_grow(p);
    }
    uint32_t n = p->free;
    struct watch *watch = watch_at(p, n);
    p->free = watch->chain;
    p->count++;
    uint32_t *bucket = watch_bucket(p, watch_bucket_of(p->buckets, watch_hash(w, entry, kind)));
    *watch = (struct watch){.watcher = w, .entry = entry, .chain = *bucket, .kind = kind};
    *bucket = n;
    return n;
}

void watch_pool_give(struct watch_pool *p, uint32_t n)
{
    struct watch *watch = watch_at(p, n);
    uint32_t hash = watch_hash(watch->watcher, watch->entry, watch->kind);
    uint32_t *link = watch_bucket(p, watch_bucket_of(p->buckets, hash));
    while (*link != n) {
        assert(*link != 0);
        link = &watch_at(p, *link)->chain;
    }
    *link = watch->chain;
    watch->watcher = NULL;
    watch->chain = p->free;
    p->free = n;
    p->count--;
}

uint32_t watch_pool_next(const struct watch_pool *p, uint32_t n)
{
    uint64_t places = (uint64_t)p->chunks_len << WATCH_CHUNK_BITS;
    for (uint64_t i = (uint64_t)n + 1; i < places; i++) {
        if (watch_at(p, (uint32_t)i)->watcher != NULL) {
            return (uint32_t)i;
        }
    }
    return 0;
}
