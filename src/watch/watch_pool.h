/*
 * The watches of a table: numbered places of fixed size in chunks, and an index that finds the
 * watch of a watcher at a path. Numbers instead of pointers halve the memory. The index is a
 * linear hash table: it grows by one bucket at a time, so that no insertion pays for all.
 * Private to the room.
 */
#ifndef WATCH_WATCH_POOL_H
#define WATCH_WATCH_POOL_H

#include "watch/watch.h"

struct watch_entry;

/* Neighbours in a circular list of numbers. */
struct watch_link {
    uint32_t prev;
    uint32_t next;
};

struct watch {
    struct watcher *watcher;    /* whose; NULL in a free place */
    struct watch_entry *entry;  /* at which path */
    uint64_t order;             /* when it was set, counted over the table */
    struct watch_link by_owner; /* the watcher's watches */
    struct watch_link by_entry; /* the path's watches of this kind */
    uint32_t chain; /* next of the same bucket of the index, or next free place; 0: none */
    uint32_t kind;  /* enum watch_kind */
};

enum {
    WATCH_CHUNK_BITS = 10, /* places per chunk, as a power of two */
    WATCH_INDEX_BITS = 8,  /* buckets of the index's first segment, as a power of two */
    WATCH_SEGMENTS = 33 - WATCH_INDEX_BITS,
};

struct watch_pool {
    struct watch **chunks; /* place n is chunks[n >> BITS][n & mask]; place 0 is unused */
    size_t chunks_len;     /* chunks in use */
    size_t chunks_cap;     /* room in the array of chunks */
    uint32_t free;         /* first free place, 0: none */
    uint32_t count;        /* watches */
    uint32_t buckets;      /* buckets of the index */
    uint32_t *segments
        [WATCH_SEGMENTS]; /* the first holds 2^BITS buckets, each later one as many as all before */
    size_t memory;        /* bytes of chunks, array and segments */
};

static inline struct watch *watch_at(const struct watch_pool *p, uint32_t n)
{
    return &p->chunks[n >> WATCH_CHUNK_BITS][n & ((1u << WATCH_CHUNK_BITS) - 1)];
}

void watch_pool_init(struct watch_pool *p);

/* Frees everything; the pool is empty and usable again afterwards. */
void watch_pool_finish(struct watch_pool *p);

/* The number of the watch with that key, 0 when there is none. */
uint32_t watch_pool_find(const struct watch_pool *p, const struct watcher *w,
                         const struct watch_entry *entry, enum watch_kind kind);

/* A place with watcher, entry and kind set and listed in the index; 0 when memory is out. */
uint32_t watch_pool_take(struct watch_pool *p, struct watcher *w, struct watch_entry *entry,
                         enum watch_kind kind);

/* Takes the watch out of the index and frees its place. */
void watch_pool_give(struct watch_pool *p, uint32_t n);

/* The watch in the next place behind n, in an order that depends on nothing but what was set and
 * dropped before; n = 0 for the first, 0 behind the last. */
uint32_t watch_pool_next(const struct watch_pool *p, uint32_t n);

#endif
