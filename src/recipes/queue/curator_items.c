#include "recipes/queue/curator_items.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION_BYTES = 4, LENGTH_BYTES = 4, OPCODE_ITEM = 1, OPCODE_END = 2 };

static_assert(CURATOR_FIRST_ITEM == VERSION_BYTES + 1 + LENGTH_BYTES,
              "the place of the first item");

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

const void *curator_item_at(const void *bytes, uint32_t start, size_t *ret_len)
{
    const uint8_t *at = (const uint8_t *)bytes + start;
    *ret_len = 0;
    for (int i = LENGTH_BYTES; i > 0; i--) {
        *ret_len = *ret_len << 8 | at[-i];
    }
    return at;
}

size_t curator_items_count(const void *bytes, size_t len, uint32_t *ret_starts)
{
    const uint8_t *text = bytes;
    size_t at = VERSION_BYTES;
    size_t count = 0;
    if (len < VERSION_BYTES || len > UINT32_MAX || memcmp(text, version, VERSION_BYTES) != 0) {
        return 0;
    }
    while (len - at > 1 + LENGTH_BYTES && text[at] == OPCODE_ITEM) {
        size_t part_len;
        at += 1 + LENGTH_BYTES;
        (void)curator_item_at(text, (uint32_t)at, &part_len);
        if (part_len >= len - at) {
            return 0;
        }
        if (ret_starts != NULL) {
            ret_starts[count] = (uint32_t)at;
        }
        count++;
        at += part_len;
    }
    return at < len && text[at] == OPCODE_END ? count : 0;
}
