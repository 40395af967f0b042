/*
 * A growing run of bytes that its owner frees, with an upper bound. An append either adds the whole value, or fails and
 * only sets the sticky mark `failed`, so that a chain of appends needs one check at its end (buf_ok). Then functions for
 * strings.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/endian.h"
#include "base/slice.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    uint8_t *data; /* heap block or NULL */
    size_t len;    /* bytes in use */
    size_t cap;    /* bytes allocated, without the one kept for a NUL */
    size_t max;    /* bytes allowed */
    bool failed;   /* an append did not fit or memory ran out */
};

/* No allocation happens before the first append. max == 0 means unbounded (SIZE_MAX / 2). */
void buf_init(struct buf *b, size_t max);

/* Frees the block; the buf is empty and usable again afterwards. */
void buf_finish(struct buf *b);

/* The same for secrets: overwrites the block first. */
void buf_wipe(struct buf *b);

/* Sets the length to 0 and clears the mark; keeps the block. */
void buf_reset(struct buf *b);

/* Empties a buf whose content is no longer needed, and frees its block if it is larger than `keep`. */
void buf_trim(struct buf *b, size_t keep);

/* As buf_reserve, if the block is too small. */
int buf_grow(struct buf *b, size_t more);

/* Makes room for `more` bytes beyond len. 0, CONCLAVE_ENOMEM or CONCLAVE_ETOOBIG (marks failed). */
static inline int buf_reserve(struct buf *b, size_t more)
{
    return more <= b->cap - b->len ? 0 : buf_grow(b, more);
}

/* Appends; on failure sets the mark. `data` must not point into b. */
static inline void buf_append(struct buf *b, const void *data, size_t len)
{
    if (len == 0 || buf_reserve(b, len) != 0) {
        return;
    }
    memcpy(b->data + b->len, data, len);
    b->len += len;
}

static inline void buf_append_slice(struct buf *b, struct slice s)
{
    buf_append(b, s.data, s.len);
}

void buf_append_str(struct buf *b, const char *str);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Big-endian integers. In the header, as every answer consists of them. */
static inline void buf_append_u8(struct buf *b, uint8_t v)
{
    if (buf_reserve(b, 1) == 0) {
        b->data[b->len++] = v;
    }
}

static inline void buf_append_i32(struct buf *b, int32_t v)
{
    if (buf_reserve(b, 4) == 0) {
        put_be32(b->data + b->len, (uint32_t)v);
        b->len += 4;
    }
}

static inline void buf_append_i64(struct buf *b, int64_t v)
{
    if (buf_reserve(b, 8) == 0) {
        put_be64(b->data + b->len, (uint64_t)v);
        b->len += 8;
    }
}

/* Overwrites four bytes at offset, which must be inside len. */
void buf_put_i32(struct buf *b, size_t offset, int32_t v);

/* Appends a NUL that is not counted in len, and returns data as a string; NULL: out of memory. */
const char *buf_cstr(struct buf *b);

/* Drops the first n bytes (n <= len) and moves the rest down. */
void buf_consume(struct buf *b, size_t n);

/* Gives the block to the caller (free it with free) and leaves b empty. */
uint8_t *buf_take(struct buf *b, size_t *ret_len);

static inline bool buf_ok(const struct buf *b)
{
    return !b->failed;
}

static inline struct slice buf_slice(const struct buf *b)
{
    return slice_make(b->data != NULL ? (const void *)b->data : (const void *)"", b->len);
}

/* Arrays on the heap */

/* As array_room, where there is none. */
bool array_grow(void *items, size_t *cap, size_t size);

/* Makes room for one more item: *items, a pointer to any type, has *cap items of `size` bytes, of which count are in use.
 * False when memory is out: both stay as they are. */
static inline bool array_room(void *items, size_t count, size_t *cap, size_t size)
{
    return count < *cap || array_grow(items, cap, size);
}

/* Strings on the heap */

/* Replaces *field by a copy of value and frees what it was. 0, or CONCLAVE_ENOMEM: *field stays. */
int text_replace(char **field, const char *value) CONCLAVE_MUST_USE;

/* Overwrites the string and frees it; *field is NULL then. Takes NULL in it. */
void text_wipe(char **field);

/* *ret_text: the formatted text, on the heap; NULL when memory is out. Returns rc. */
int text_fail(char **ret_text, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Writes all bytes to the descriptor. False with errno. */
bool fd_write_all(int fd, struct slice bytes) CONCLAVE_MUST_USE;

#endif
