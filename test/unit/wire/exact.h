/* Bytes in a heap block of exactly their size, so that AddressSanitizer sees a read beyond the end. */
#ifndef UNIT_WIRE_EXACT_H
#define UNIT_WIRE_EXACT_H

#include "base/slice.h"

#include <stdlib.h>

static inline struct slice exact_copy(const void *bytes, size_t len)
{
    uint8_t *block = malloc(len);
    if (block != NULL && len > 0) {
        memcpy(block, bytes, len);
    }
    return slice_make(block, len);
}

static inline void exact_free(struct slice s)
{
    free((void *)(uintptr_t)s.data);
}

#endif
