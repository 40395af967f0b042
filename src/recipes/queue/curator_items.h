/*
 * The bytes of a queue's node in Curator's layouts: a version, then each item behind its length, then an end. Pure.
 * Source: Curator's ItemSerializer. A producer puts one item, or several by putMulti.
 */
#ifndef RECIPES_QUEUE_CURATOR_ITEMS_H
#define RECIPES_QUEUE_CURATOR_ITEMS_H

#include <stddef.h>

enum { CURATOR_ITEM_BYTES = 10 }; /* of one item, beside its own */

/* One item, CURATOR_ITEM_BYTES + len bytes. NULL: no memory. data may be NULL when len is 0. */
void *curator_item_make(const void *data, size_t len);

/* The number of items; 0 also when the bytes are not in this format. */
size_t curator_items_count(const void *bytes, size_t len);

/* One of them, borrowed; NULL: there is none. */
const void *curator_items_part(const void *bytes, size_t len, size_t index, size_t *ret_len);

#endif
