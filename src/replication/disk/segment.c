/* Encodes and checks segment headers and frames. The callers decide what a bad frame means. */
#include "replication/disk/segment.h"

#include "base/endian.h"
#include "base/map.h"

#include <assert.h>
#include <errno.h>

#define WINDOW_SIZE (256u * 1024)

static const char segment_magic[8] = SEGMENT_MAGIC; /* without its NUL */

void segment_header_encode(struct segment_header *h, uint8_t out[SEGMENT_HEADER_SIZE])
{
    memset(out, 0, SEGMENT_HEADER_SIZE);
    memcpy(out, segment_magic, sizeof segment_magic);
    put_le32(out + 8, FORMAT_VERSION);
    put_le32(out + 12, h->flags);
    memcpy(out + 16, h->cluster, FORMAT_CLUSTER_SIZE);
    put_le64(out + 32, h->sequence);
    put_le64(out + 40, h->first_index);
    put_le64(out + 48, h->salt);
    put_le64(out + 56, h->previous);
    put_le64(out + 64, h->size);
    h->checksum = hash_bytes(out, SEGMENT_HEADER_SIZE - 8);
    put_le64(out + SEGMENT_HEADER_SIZE - 8, h->checksum);
}

bool segment_header_decode(const uint8_t in[SEGMENT_HEADER_SIZE], struct segment_header *ret)
{
    if (memcmp(in, segment_magic, sizeof segment_magic) != 0 ||
        get_le32(in + 8) != FORMAT_VERSION ||
        get_le64(in + SEGMENT_HEADER_SIZE - 8) != hash_bytes(in, SEGMENT_HEADER_SIZE - 8)) {
        return false;
    }
    ret->flags = get_le32(in + 12);
    memcpy(ret->cluster, in + 16, FORMAT_CLUSTER_SIZE);
    ret->sequence = get_le64(in + 32);
    ret->first_index = get_le64(in + 40);
    ret->salt = get_le64(in + 48);
    ret->previous = get_le64(in + 56);
    ret->size = get_le64(in + 64);
    ret->checksum = get_le64(in + SEGMENT_HEADER_SIZE - 8);
    return true;
}

static uint64_t frame_checksum(const uint8_t *data, size_t len, uint64_t salt)
{
    return hash_u64(salt ^ hash_bytes(data + 8, len - 8));
}

static uint32_t frame_header_checksum(const uint8_t *data, uint64_t salt)
{
    return (uint32_t)hash_u64(salt ^ hash_bytes(data + 8, 36 - 8));
}

void frame_begin(struct buf *b)
{
    static const uint8_t zeroes[FRAME_HEADER_SIZE];
    buf_reset(b);
    buf_append(b, zeroes, sizeof zeroes);
}

void frame_add(struct buf *b, uint64_t term, uint32_t kind, struct slice payload)
{
    uint8_t header[ENTRY_HEADER_SIZE];
    assert(!buf_ok(b) || b->len >= FRAME_HEADER_SIZE);
    assert(payload.len <= UINT32_MAX);
    put_le64(header, term);
    put_le32(header + 8, (uint32_t)payload.len);
    put_le32(header + 12, kind);
    buf_append(b, header, sizeof header);
    buf_append(b, payload.data, payload.len);
}

uint64_t frame_finish(struct buf *b, uint64_t salt, uint64_t previous, uint64_t index,
                      uint32_t count)
{
    static const uint8_t zeroes[8];
    buf_append(b, zeroes, -b->len & 7u);
    if (!buf_ok(b)) {
        return 0;
    }
    assert(b->len >= FRAME_HEADER_SIZE &&
           b->len - FRAME_HEADER_SIZE <= FRAME_BODY_MAX); /* else it would be read as none */
    uint8_t *p = b->data;
    put_le32(p + 8, FRAME_MAGIC);
    put_le32(p + 12, (uint32_t)(b->len - FRAME_HEADER_SIZE));
    put_le64(p + 16, previous);
    put_le64(p + 24, index);
    put_le32(p + 32, count);
    put_le32(p + 36, frame_header_checksum(p, salt));
    uint64_t checksum = frame_checksum(p, b->len, salt);
    put_le64(p, checksum);
    return checksum;
}

size_t frame_size(const uint8_t data[FRAME_HEADER_SIZE])
{
    uint32_t length = get_le32(data + 12);
    if (get_le32(data + 8) != FRAME_MAGIC || length > FRAME_BODY_MAX || length % 8 != 0) {
        return 0;
    }
    return FRAME_HEADER_SIZE + (size_t)length;
}

bool frame_header_check(const uint8_t data[FRAME_HEADER_SIZE], uint64_t salt)
{
    return get_le32(data + 36) == frame_header_checksum(data, salt);
}

bool frame_place(const uint8_t data[FRAME_HEADER_SIZE], uint64_t salt, struct segment_place *ret)
{
    *ret = (struct segment_place){frame_size(data), get_le64(data + 24), get_le32(data + 32)};
    return ret->size > 0 && frame_header_check(data, salt);
}

bool frame_decode(const uint8_t *data, size_t len, uint64_t salt, struct segment_frame *ret)
{
    if (len < FRAME_HEADER_SIZE || frame_size(data) != len ||
        get_le64(data) != frame_checksum(data, len, salt)) {
        return false;
    }
    ret->checksum = get_le64(data);
    ret->length = get_le32(data + 12);
    ret->previous = get_le64(data + 16);
    ret->index = get_le64(data + 24);
    ret->count = get_le32(data + 32);
    ret->body = data + FRAME_HEADER_SIZE;
    return true;
}

int frame_next(struct segment_frame *f, struct frame_entry *ret)
{
    if (f->count == 0) {
        return f->length < 8 ? 0 : -1;
    }
    if (f->length < ENTRY_HEADER_SIZE) {
        return -1;
    }
    ret->term = get_le64(f->body);
    ret->length = get_le32(f->body + 8);
    ret->kind = get_le32(f->body + 12);
    ret->payload = f->body + ENTRY_HEADER_SIZE;
    if (ret->length > f->length - ENTRY_HEADER_SIZE) {
        return -1;
    }
    f->body += ENTRY_HEADER_SIZE + ret->length;
    f->length -= ENTRY_HEADER_SIZE + ret->length;
    f->count--;
    return 1;
}

void window_init(struct window *w, const struct file_ops *ops, int fd, uint64_t size)
{
    w->ops = ops;
    w->fd = fd;
    w->size = size;
    w->offset = 0;
    buf_init(&w->data, 0);
}

void window_finish(struct window *w)
{
    buf_finish(&w->data);
}

int window_read(struct window *w, uint64_t offset, size_t len, const uint8_t **ret)
{
    assert(offset <= w->size && len <= w->size - offset);
    if (offset < w->offset || offset + len > w->offset + w->data.len) {
        size_t want = len > WINDOW_SIZE ? len : WINDOW_SIZE;
        if (want > w->size - offset) {
            want = (size_t)(w->size - offset);
        }
        buf_reset(&w->data);
        if (buf_reserve(&w->data, want) != 0) {
            return -ENOMEM;
        }
        int64_t n = w->ops->read(w->ops->ctx, w->fd, w->data.data, want, offset);
        if (n < 0) {
            return (int)n;
        }
        assert((size_t)n <= want);
        if ((size_t)n < len) {
            return -EIO;
        }
        w->offset = offset;
        w->data.len = (size_t)n;
    }
    *ret = w->data.data + (offset - w->offset);
    return 0;
}

int window_find_frame(struct window *w, uint64_t *at)
{
    const uint8_t *data;
    while (*at + FRAME_HEADER_SIZE <= w->size) {
        int err = window_read(w, *at, FRAME_HEADER_SIZE, &data);
        if (err != 0) {
            return err;
        }
        uint64_t end = w->offset + w->data.len;
        for (; *at + FRAME_HEADER_SIZE <= end; *at += 8, data += 8) {
            if (get_le32(data + 8) == FRAME_MAGIC) {
                return 0;
            }
        }
    }
    *at = w->size;
    return 0;
}
