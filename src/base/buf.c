#define _GNU_SOURCE /* vasprintf */
#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max == 0 ? SIZE_MAX / 2 : max};
}

void buf_finish(struct buf *b)
{
    free(b->data);
    buf_init(b, b->max);
}

void buf_wipe(struct buf *b)
{
    if (b->data != NULL) {
        explicit_bzero(b->data, b->cap);
    }
    buf_finish(b);
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->failed = false;
}

void buf_trim(struct buf *b, size_t keep)
{
    if (b->cap > keep) {
        buf_finish(b);
    }
}

int buf_grow(struct buf *b, size_t more)
{
    assert(b->len <= b->cap);
    /* The owner may have lowered max, even below len. */
    if (b->len > b->max || more > b->max - b->len) {
        b->failed = true;
        return CONCLAVE_ETOOBIG;
    }
    size_t need = b->len + more;
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap < need) {
        cap += cap / 2;
    }
    if (cap > b->max) {
        cap = b->max;
    }
    uint8_t *data =
        realloc(b->data, cap + 1); /* one more for a NUL, which does not count against the limit */
    if (data == NULL) {
        b->failed = true;
        return CONCLAVE_ENOMEM;
    }
    b->data = data;
    b->cap = cap;
    return 0;
}

void buf_append_str(struct buf *b, const char *str)
{
    buf_append(b, str, strlen(str));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) {
        b->failed = true;
        return;
    }
    if (n == 0 || buf_reserve(b, (size_t)n) != 0) {
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void buf_put_i32(struct buf *b, size_t offset, int32_t v)
{
    assert(offset + 4 <= b->len);
    put_be32(b->data + offset, (uint32_t)v);
}

const char *buf_cstr(struct buf *b)
{
    if (b->data == NULL && buf_reserve(b, 1) != 0) {
        return NULL;
    }
    assert(b->data != NULL);
    b->data[b->len] = '\0';
    return (const char *)b->data;
}

void buf_consume(struct buf *b, size_t n)
{
    assert(n <= b->len);
    if (n == 0) {
        return;
    }
    b->len -= n;
    memmove(b->data, b->data + n, b->len);
}

uint8_t *buf_take(struct buf *b, size_t *ret_len)
{
    uint8_t *data = b->data;
    *ret_len = b->len;
    buf_init(b, b->max);
    return data;
}

bool array_grow(void *items, size_t *cap, size_t size)
{
    enum { FIRST = 8 };
    void *block;
    memcpy(&block, items, sizeof block); /* whatever it points to */
    size_t more = *cap == 0 ? FIRST : 2 * *cap;
    void *grown = more > SIZE_MAX / 2 / size ? NULL : realloc(block, more * size);
    if (grown == NULL) {
        return false;
    }
    memcpy(items, &grown, sizeof grown);
    *cap = more;
    return true;
}

int text_replace(char **field, const char *value)
{
    char *copy = strdup(value);
    if (copy == NULL) {
        return CONCLAVE_ENOMEM;
    }
    free(*field);
    *field = copy;
    return 0;
}

void text_wipe(char **field)
{
    if (*field != NULL) {
        explicit_bzero(*field, strlen(*field));
        free(*field);
        *field = NULL;
    }
}

int text_fail(char **ret_text, int rc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(ret_text, fmt, ap) < 0) {
        *ret_text = NULL;
    }
    va_end(ap);
    return rc;
}

bool fd_write_all(int fd, struct slice bytes)
{
    while (bytes.len > 0) {
        ssize_t n = write(fd, bytes.data, bytes.len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        bytes = slice_make(bytes.data + n, bytes.len - (size_t)n);
    }
    return true;
}
