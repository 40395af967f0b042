/*
 * A borrowed run of bytes. data == NULL is the null value of the wire (length -1), which differs from an empty one
 * (data != NULL, len == 0). A slice never owns its bytes.
 */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const uint8_t *data; /* first byte, or NULL for null */
    size_t len;          /* bytes */
};

#define SLICE_NULL ((struct slice){NULL, 0})

/* printf helper: printf("%.*s", SLICE_FMT(s)). */
#define SLICE_FMT(s) (int)(s).len, (const char *)(s).data

static inline struct slice slice_make(const void *data, size_t len)
{
    return (struct slice){data, len};
}

static inline struct slice slice_str(const char *str)
{
    return str == NULL ? SLICE_NULL : slice_make(str, strlen(str));
}

static inline bool slice_is_null(struct slice s)
{
    return s.data == NULL;
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool slice_equal_str(struct slice a, const char *str)
{
    return slice_equal(a, slice_str(str));
}

static inline bool slice_starts_with(struct slice s, struct slice prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.data, prefix.data, prefix.len) == 0);
}

/* The order of memcmp; of two with a common prefix the shorter comes first. */
static inline int slice_compare(struct slice a, struct slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n == 0 ? 0 : memcmp(a.data, b.data, n);
    return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

#endif
