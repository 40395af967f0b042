/*
 * The bytes of a queue's node in Curator's layouts: a version, then each item behind its length, then an end. Pure.
 * Source: Curator's ItemSerializer. A producer puts one item, or several by putMulti.
 */
#ifndef RECIPES_QUEUE_CURATOR_ITEMS_H
#define RECIPES_QUEUE_CURATOR_ITEMS_H

#include <stddef.h>
#include <stdint.h>

enum {
    CURATOR_ITEM_BYTES = 10, /* of one item, beside its own */
    CURATOR_FIRST_ITEM = 9,  /* where the first of them starts */
};

/* One item, CURATOR_ITEM_BYTES + len bytes. NULL: no memory. data may be NULL when len is 0. */
void *curator_item_make(const void *data, size_t len);

/* The number of items; 0 also when the bytes are not in this format. ret_starts (may be NULL): takes where each starts; it
 * has room for as many as a call without it has counted. */
size_t curator_items_count(const void *bytes, size_t len, uint32_t *ret_starts);

/* The item that starts there, borrowed. */
const void *curator_item_at(const void *bytes, uint32_t start, size_t *ret_len);

#endif
