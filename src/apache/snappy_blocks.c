#include "apache/snappy_blocks.h"

#include "base/foreign/late_library.h"

#include <assert.h>
#include <errno.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <unistd.h>

#define SNAPPY(F) F(snappy_uncompress) F(snappy_uncompressed_length)
LATE_LIBRARY(snappy, SNAPPY, "libsnappy.so.1")

/* Java writes blocks of 32 kB; these are far above, and keep a damaged length from taking the memory. */
enum { HEADER_LEN = 16, BLOCK_MAX = 1 << 26, CONTENT_MAX = 1 << 26 };

static const uint8_t magic[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};

struct snappy_blocks {
    int fd;
    bool begun;
    uint64_t offset; /* in the file */
    struct buf packed;
};

struct snappy_blocks *snappy_blocks_create(int fd)
{
    struct snappy_blocks *b = calloc(1, sizeof *b);
    if (b != NULL) {
        b->fd = fd;
        buf_init(&b->packed, BLOCK_MAX);
    }
    return b;
}

void snappy_blocks_destroy(struct snappy_blocks *b)
{
    if (b != NULL) {
        buf_finish(&b->packed);
        free(b);
    }
}

/* Reads len bytes, or fewer at the end. -1 with errno. */
static long read_up_to(struct snappy_blocks *b, uint8_t *to, size_t len)
{
    size_t have = 0;
    while (have < len) {
        ssize_t n = read(b->fd, to + have, len - have);
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        if (n == 0) {
            break;
        }
        have += n > 0 ? (size_t)n : 0;
    }
    b->offset += have;
    return (long)have;
}

static long bad(const struct snappy_blocks *b, const char *name, const char *what, char **ret_error)
{
    (void)text_fail(ret_error, 0, "%s is damaged before byte %llu: %s", name,
                    (unsigned long long)b->offset, what);
    return -1;
}

static long snappy_begin(struct snappy_blocks *b, const char *name, char **ret_error)
{
    uint8_t header[HEADER_LEN];
    if (read_up_to(b, header, HEADER_LEN) != HEADER_LEN ||
        memcmp(header, magic, sizeof magic) != 0) {
        return bad(b, name, "it does not begin as a snappy file of Java does", ret_error);
    }
    b->begun = true;
    return 0;
}

long snappy_blocks_next(struct snappy_blocks *b, const char *name, struct buf *out,
                        char **ret_error)
{
    uint8_t head[4];
    assert(!b->begun || b->offset >= HEADER_LEN);
    if (!b->begun && snappy_begin(b, name, ret_error) != 0) {
        return -1;
    }
    long n = read_up_to(b, head, sizeof head);
    if (n == 0) {
        return 0;
    }
    uint32_t len = get_be32(head);
    buf_reset(&b->packed);
    if (n != (long)sizeof head || len == 0 || len > BLOCK_MAX ||
        buf_reserve(&b->packed, len) != 0 || read_up_to(b, b->packed.data, len) != (long)len) {
        return bad(b, name, "a block of snappy is cut off, or has an impossible length", ret_error);
    }
    const struct snappy_functions *snappy = snappy_load();
    if (snappy == NULL) {
        return text_fail(ret_error, -1, "%s is packed by snappy: install the library libsnappy",
                         name);
    }
    size_t content = 0;
    if (snappy->snappy_uncompressed_length((const char *)b->packed.data, len, &content) !=
            SNAPPY_OK ||
        content == 0 || content > CONTENT_MAX || buf_reserve(out, content) != 0 ||
        snappy->snappy_uncompress((const char *)b->packed.data, len, (char *)out->data + out->len,
                                  &content) != SNAPPY_OK) {
        return bad(b, name, "a block of snappy cannot be unpacked", ret_error);
    }
    assert(content <= out->cap - out->len);
    out->len += content;
    return (long)content;
}
