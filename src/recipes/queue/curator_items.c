#include "recipes/queue/curator_items.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION_BYTES = 4, LENGTH_BYTES = 4, OPCODE_ITEM = 1, OPCODE_END = 2 };

static const uint8_t version[VERSION_BYTES] = {0, 1, 0, 1};

void *curator_item_make(const void *data, size_t len)
{
    uint8_t *bytes = len <= INT32_MAX ? malloc(CURATOR_ITEM_BYTES + len) : NULL;
    if (bytes == NULL) {
        return NULL;
    }
    uint8_t *at = bytes + VERSION_BYTES;
    memcpy(bytes, version, sizeof version);
    *at++ = OPCODE_ITEM;
    for (int shift = 24; shift >= 0; shift -= 8) {
        *at++ = (uint8_t)(len >> shift);
    }
    if (len > 0) {
        memcpy(at, data, len);
    }
    at[len] = OPCODE_END;
    return bytes;
}

/* Walks over all items; *ret_part becomes that of the index, when it is there. SIZE_MAX: another format. */
static size_t curator_items_walk(const uint8_t *at, size_t left, size_t index,
                                 const uint8_t **ret_part, size_t *ret_len)
{
    size_t count = 0;
    if (left < VERSION_BYTES || memcmp(at, version, VERSION_BYTES) != 0) {
        return SIZE_MAX;
    }
    at += VERSION_BYTES;
    left -= VERSION_BYTES;
    while (left > 1 + LENGTH_BYTES && *at == OPCODE_ITEM) {
        size_t len = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
        at += 1 + LENGTH_BYTES;
        left -= 1 + LENGTH_BYTES;
        if (len >= left) {
            return SIZE_MAX;
        }
        if (count++ == index) {
            *ret_part = at;
            *ret_len = len;
        }
        at += len;
        left -= len;
    }
    return left > 0 && *at == OPCODE_END ? count : SIZE_MAX;
}

size_t curator_items_count(const void *bytes, size_t len)
{
    const uint8_t *part;
    size_t part_len;
    size_t count = curator_items_walk(bytes, len, SIZE_MAX, &part, &part_len);
    return count == SIZE_MAX ? 0 : count;
}

const void *curator_items_part(const void *bytes, size_t len, size_t index, size_t *ret_len)
{
    const uint8_t *part = NULL;
    size_t part_len = 0;
    size_t count = curator_items_walk(bytes, len, index, &part, &part_len);
    bool there = count != SIZE_MAX && index < count;
    *ret_len = there ? part_len : 0;
    return there ? part : NULL;
}
