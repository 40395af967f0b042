#include "wire/codec.h"

#include "base/endian.h"

#include <assert.h>

void wire_write_buffer(struct buf *b, struct slice s)
{
    if (slice_is_null(s)) {
        assert(s.len == 0);
        buf_append_i32(b, -1); /* Jute's length of null */
        return;
    }
    if (s.len > INT32_MAX) {
        b->failed = true;
        return;
    }
    buf_append_i32(b, (int32_t)s.len);
    buf_append_slice(b, s);
}

void wire_write_string(struct buf *b, struct slice s)
{
    wire_write_buffer(b, s);
}

void wire_write_vector(struct buf *b, const struct wire_vector *v)
{
    assert(v->count <= 0 || v->items.len > 0);
    buf_append_i32(b, v->count);
    if (v->count > 0) {
        buf_append_slice(b, v->items);
    }
}

void wire_print_boolean(struct buf *out, bool v)
{
    buf_append_str(out, v ? "true" : "false");
}

void wire_print_i32(struct buf *out, int32_t v)
{
    buf_printf(out, "%d", v);
}

void wire_print_i64(struct buf *out, int64_t v)
{
    /* Most 64-bit fields are zxids and session ids, which ZooKeeper prints in hexadecimal. */
    buf_printf(out, "0x%llx", (unsigned long long)v);
}

void wire_print_string(struct buf *out, struct slice s)
{
    if (slice_is_null(s)) {
        buf_append_str(out, "null");
        return;
    }
    buf_append_u8(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = s.data[i];
        if (c < 0x20 || c == 0x7f || c == '"' || c == '\\') {
            buf_printf(out, "\\x%02x", c);
        } else {
            buf_append_u8(out, c);
        }
    }
    buf_append_u8(out, '"');
}

void wire_print_buffer(struct buf *out, struct slice s)
{
    enum { PRINT_MAX = 32 };
    if (slice_is_null(s)) {
        buf_append_str(out, "null");
        return;
    }
    buf_printf(out, "%zu:", s.len);
    wire_print_string(out, slice_make(s.data, s.len < PRINT_MAX ? s.len : PRINT_MAX));
    if (s.len > PRINT_MAX) {
        buf_append_str(out, "...");
    }
}

void wire_print_secret(struct buf *out, struct slice s)
{
    if (slice_is_null(s)) {
        buf_append_str(out, "null");
    } else {
        buf_printf(out, "%zu:***", s.len);
    }
}

size_t wire_frame_begin(struct buf *b)
{
    size_t offset = b->len;
    buf_append_i32(b, 0);
    return offset;
}

void wire_frame_end(struct buf *b, size_t offset)
{
    assert(!buf_ok(b) || offset + 4 <= b->len);
    size_t len = b->len - offset - 4;
    if (buf_ok(b) && len <= INT32_MAX) {
        buf_put_i32(b, offset, (int32_t)len);
    } else {
        b->failed = true;
    }
}

int wire_frame_cut(struct slice in, size_t max, struct slice *ret_body, int32_t *ret_len)
{
    if (in.len < 4) {
        return 0;
    }
    int32_t len = (int32_t)get_be32(in.data);
    *ret_len = len;
    if (len < 0 || (size_t)len > max) {
        return CONCLAVE_EPROTO;
    }
    if (in.len - 4 < (size_t)len) {
        return 0;
    }
    *ret_body = slice_make(in.data + 4, (size_t)len);
    return 1;
}
