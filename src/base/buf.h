/*
 * A growing run of bytes that its holder owns, with an upper bound. Appending never leaves half a
 * value: it either appends all or fails and changes nothing but a sticky `failed` mark, so that a
 * chain of appends needs one check at its end (buf_ok).
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

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

/* Length 0 and mark cleared, block kept. */
void buf_reset(struct buf *b);

/* Frees the block of a buf whose content is no longer needed, if it is larger than `keep`: empty then. */
void buf_trim(struct buf *b, size_t keep);

/* Makes room for `more` bytes beyond len. 0, CONCLAVE_ENOMEM or CONCLAVE_ETOOBIG (marks failed). */
int buf_reserve(struct buf *b, size_t more);

/* Appends; on failure sets the mark. `data` must not point into b. */
void buf_append(struct buf *b, const void *data, size_t len);
void buf_append_slice(struct buf *b, struct slice s);
void buf_append_str(struct buf *b, const char *str);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Big-endian integers. */
void buf_append_u8(struct buf *b, uint8_t v);
void buf_append_i32(struct buf *b, int32_t v);
void buf_append_i64(struct buf *b, int64_t v);

/* Overwrites four bytes at offset, which must be inside len. */
void buf_put_i32(struct buf *b, size_t offset, int32_t v);

/* Appends a NUL that is not counted in len and returns data as a string; NULL when memory is
 * out. */
const char *buf_cstr(struct buf *b);

/* Drops the first n bytes (n <= len), moving the rest down. */
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

#endif
