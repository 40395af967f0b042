/*
 * The watches of a table: numbered slots of fixed size in chunks, and an index that finds the watch of a watcher at a
 * path. Numbers instead of pointers halve the memory. The index is a linear hash table: it grows by one bucket at a
 * time, so that no insertion pays for all. Private to the room.
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
    struct watcher *watcher;    /* the watcher; NULL: a free slot */
    struct watch_entry *entry;  /* the path */
    uint64_t order;             /* number in the order of setting */
    struct watch_link by_owner; /* the watcher's watches */
    struct watch_link by_entry; /* the path's watches of this kind */
    uint32_t chain;             /* next watch in the same bucket, or next free slot; 0: none */
    uint32_t kind;              /* enum watch_kind */
};

enum {
    WATCH_CHUNK_BITS = 10, /* slots per chunk, as a power of two */
    WATCH_INDEX_BITS = 8,  /* buckets of the index's first segment, as a power of two */
    WATCH_SEGMENTS = 33 - WATCH_INDEX_BITS,
};

struct watch_pool {
    struct watch **chunks; /* slot n is chunks[n >> BITS][n & mask]; slot 0 is unused */
    size_t chunks_len;     /* chunks in use */
    size_t chunks_cap;     /* room in the array of chunks */
    uint32_t free;         /* first free slot, 0: none */
    uint32_t count;        /* watches */
    uint32_t buckets;      /* buckets of the index */
    uint32_t *segments
        [WATCH_SEGMENTS]; /* the first has 2^BITS buckets, each later one as many as all before it */
    size_t memory;        /* bytes of chunks, array and segments */
};

static inline struct watch *watch_at(const struct watch_pool *p, uint32_t n)
{
    return &p->chunks[n >> WATCH_CHUNK_BITS][n & ((1u << WATCH_CHUNK_BITS) - 1)];
}

void watch_pool_init(struct watch_pool *p);

/* Frees everything; the pool is empty and usable again afterwards. */
void watch_pool_finish(struct watch_pool *p);

/* The number of the watch with this key; 0: none. */
uint32_t watch_pool_find(const struct watch_pool *p, const struct watcher *w,
                         const struct watch_entry *entry, enum watch_kind kind);

/* Takes a slot with watcher, entry and kind set, and lists it in the index; 0: out of memory. */
uint32_t watch_pool_take(struct watch_pool *p, struct watcher *w, struct watch_entry *entry,
                         enum watch_kind kind);

/* Removes the watch from the index and frees its slot. */
void watch_pool_give(struct watch_pool *p, uint32_t n);

/* The watch in the next slot after n; n = 0: the first; 0: none left. The order depends only on which watches were set
 * and removed before. */
uint32_t watch_pool_next(const struct watch_pool *p, uint32_t n);

#endif
