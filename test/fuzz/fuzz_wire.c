/*
 * Any bytes as any record, and as the body of any operation: no harm, and what decodes is stable:
 * encoded, decoded and encoded again it gives the same bytes. Input: one byte that chooses, then the
 * bytes to decode.
 */
#include "fuzz/cost.h"
#include "fuzz/input.h"
#include "wire/ops.h"

#include <stdlib.h>

#define FUZZ_RECORD(name, FIELDS)                                                                  \
    static void fuzz_##name(struct slice bytes)                                                    \
    {                                                                                              \
        struct wire_reader r = wire_reader_make(bytes);                                            \
        struct wire_##name record;                                                                 \
        if (wire_decode_##name(&r, &record) != 0) {                                                \
            must(r.failed);                                                                        \
            return;                                                                                \
        }                                                                                          \
        size_t used = bytes.len - wire_left(&r);                                                   \
        struct buf first, again, text;                                                             \
        buf_init(&first, used);                                                                    \
        buf_init(&again, used);                                                                    \
        buf_init(&text, 0);                                                                        \
        wire_encode_##name(&first, &record);                                                       \
        must(buf_ok(&first) && first.len == used);                                                 \
        r = wire_reader_make(buf_slice(&first));                                                   \
        must(wire_decode_##name(&r, &record) == 0 && wire_left(&r) == 0);                          \
        wire_encode_##name(&again, &record);                                                       \
        must(buf_ok(&again) && slice_equal(buf_slice(&first), buf_slice(&again)));                 \
        wire_print_##name(&text, &record);                                                         \
        must(buf_ok(&text));                                                                       \
        buf_finish(&first);                                                                        \
        buf_finish(&again);                                                                        \
        buf_finish(&text);                                                                         \
    }
WIRE_FIELD_RECORDS(FUZZ_RECORD)
WIRE_RECORDS(FUZZ_RECORD)
WIRE_FILE_RECORDS(FUZZ_RECORD)

static void fuzz_frames(struct slice bytes)
{
    struct slice body = SLICE_NULL;
    int32_t len = 0;
    while (wire_frame_cut(bytes, 64, &body, &len) == 1) {
        must(body.len <= 64 && (size_t)len == body.len && body.len + 4 <= bytes.len);
        bytes = slice_make(body.data + body.len, bytes.len - 4 - body.len);
    }
}

static void fuzz_ops(struct slice bytes)
{
    static const int32_t numbers[] = {
#define FUZZ_NUMBER(NAME, number, name, request, reply, flags) number,
        WIRE_OPS(FUZZ_NUMBER)
#undef FUZZ_NUMBER
    };
    if (bytes.len == 0) {
        return;
    }
    int32_t op = numbers[bytes.data[0] % (sizeof numbers / sizeof numbers[0])];
    struct slice body = slice_make(bytes.data + 1, bytes.len - 1);
    struct buf text;
    buf_init(&text, 0);
    wire_print_request(&text, op, body);
    wire_print_reply(&text, op, body);
    must(buf_ok(&text));
    buf_finish(&text);
}

const struct cost_bound fuzz_bound = {
    .cpu_us = 20000,
    .cpu_ns_per_byte = 5000,
    .alloc_bytes = 1 << 16,
    .alloc_per_byte = 200,
};

void fuzz_input(const uint8_t *data, size_t size)
{
    static const fuzz_target targets[] = {fuzz_frames, fuzz_ops,
#define FUZZ_ROW(name, FIELDS) fuzz_##name,
                                          WIRE_FIELD_RECORDS(FUZZ_ROW) WIRE_RECORDS(FUZZ_ROW)
                                              WIRE_FILE_RECORDS(FUZZ_ROW)
#undef FUZZ_ROW
    };
    fuzz_choose(targets, sizeof targets / sizeof targets[0], data, size);
}
