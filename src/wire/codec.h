/*
 * The jute encoding of ZooKeeper's wire: big-endian integers; strings and buffers after an int32 length (-1 is null);
 * vectors after an int32 count (-1 is null). Decoding borrows: strings, buffers and vectors point into the given bytes,
 * nothing is allocated, and nothing beyond the end is read. Source: zookeeper-jute,
 * BinaryInputArchive/BinaryOutputArchive.
 */
#ifndef WIRE_CODEC_H
#define WIRE_CODEC_H

#include "base/buf.h"
#include "base/slice.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* Position in the bytes that are decoded. After the first error `failed` stays set, and all values read are 0 or
 * null. */
struct wire_reader {
    const uint8_t *pos;
    const uint8_t *end;
    bool failed;
};

/* An encoded vector: its elements were checked, and are read with a wire_next_… function. */
struct wire_vector {
    struct slice items; /* the encoded elements, without the count */
    int32_t count;      /* -1: null vector */
};

#define WIRE_VECTOR_NULL ((struct wire_vector){SLICE_NULL, -1})

static inline struct wire_reader wire_reader_make(struct slice bytes)
{
    const uint8_t *end = bytes.len > 0 ? bytes.data + bytes.len : bytes.data;
    return (struct wire_reader){bytes.data, end, false};
}

static inline size_t wire_left(const struct wire_reader *r)
{
    return (size_t)(r->end - r->pos);
}

/* The unread bytes. */
static inline struct slice wire_rest(const struct wire_reader *r)
{
    assert(r->pos <= r->end);
    return slice_make(r->pos, wire_left(r));
}

/* The next n bytes, or NULL. */
static inline const uint8_t *wire_take(struct wire_reader *r, size_t n)
{
    if (r->failed || wire_left(r) < n) {
        r->failed = true;
        return NULL;
    }
    const uint8_t *p = r->pos;
    r->pos += n;
    return p;
}

static inline bool wire_read_boolean(struct wire_reader *r)
{
    const uint8_t *p = wire_take(r, 1);
    return p != NULL && *p != 0;
}

static inline int32_t wire_read_i32(struct wire_reader *r)
{
    const uint8_t *p = wire_take(r, 4);
    return p != NULL ? (int32_t)get_be32(p) : 0;
}

static inline int64_t wire_read_i64(struct wire_reader *r)
{
    const uint8_t *p = wire_take(r, 8);
    return p != NULL ? (int64_t)get_be64(p) : 0;
}

static inline struct slice wire_read_buffer(struct wire_reader *r)
{
    int32_t len = wire_read_i32(r);
    if (len < 0) {
        r->failed |= len != -1;
        return SLICE_NULL;
    }
    const uint8_t *p = wire_take(r, (size_t)len);
    return p != NULL ? slice_make(p, (size_t)len) : SLICE_NULL;
}

static inline struct slice wire_read_string(struct wire_reader *r)
{
    return wire_read_buffer(r);
}

static inline void wire_write_boolean(struct buf *b, bool v)
{
    buf_append_u8(b, v ? 1 : 0);
}

static inline void wire_write_i32(struct buf *b, int32_t v)
{
    buf_append_i32(b, v);
}

static inline void wire_write_i64(struct buf *b, int64_t v)
{
    buf_append_i64(b, v);
}

void wire_write_string(struct buf *b, struct slice s);
void wire_write_buffer(struct buf *b, struct slice s);
void wire_write_vector(struct buf *b, const struct wire_vector *v);

/* Appends a readable form: strings quoted and escaped, buffers as length and first bytes. */
void wire_print_boolean(struct buf *out, bool v);
void wire_print_i32(struct buf *out, int32_t v);
void wire_print_i64(struct buf *out, int64_t v);
void wire_print_string(struct buf *out, struct slice s);
void wire_print_buffer(struct buf *out, struct slice s);
void wire_print_secret(struct buf *out, struct slice s); /* only the length */

/*
 * Frames: a 4-byte big-endian length, then that many bytes.
 * wire_frame_begin appends room for the length and returns its offset for wire_frame_end, which marks b as failed if
 * the frame is too long for its length field.
 */
size_t wire_frame_begin(struct buf *b);
void wire_frame_end(struct buf *b, size_t offset);

/*
 * Cuts the first frame off `in`. 1: complete, ret_body is borrowed from in; 0: more bytes are needed; CONCLAVE_EPROTO:
 * the length is negative or above max. *ret_len has the length as soon as four bytes are there, for messages.
 */
int wire_frame_cut(struct slice in, size_t max, struct slice *ret_body, int32_t *ret_len);

#endif
