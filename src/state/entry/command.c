#include "state/entry/command.h"

#include "base/endian.h"
#include "wire/codec.h"

#include <assert.h>

enum {
    BATCH_VERSION = 4,
    BATCH_VERSION_WITHOUT_PREVIOUS = 2,
    BATCH_TIME_AT = 1 + 8 + 8 + 8,      /* offset of the time */
    BATCH_COUNT_AT = BATCH_TIME_AT + 8, /* offset of the count */
};

void batch_begin(struct buf *b, const struct batch_header *header)
{
    buf_append_u8(b, BATCH_VERSION);
    buf_append_i64(b, header->origin);
    buf_append_i64(b, header->sequence);
    buf_append_i64(b, header->previous);
    buf_append_i64(b, header->time_ms);
    buf_append_i32(b, 0);
}

/* Reserves the size first, so that the command is appended whole or not at all. */
void batch_add(struct buf *b, size_t start, const struct command *command)
{
    size_t ids = command->ids.count > 0 ? command->ids.items.len : 0;
    size_t room = 8 + 4 + 4 + 4 + 8 + 4 + ids + 4 + command->body.len;
    if (!buf_ok(b) || buf_reserve(b, room) != 0) {
        return;
    }
    size_t before = b->len;
    buf_append_i64(b, command->session_id);
    buf_append_i32(b, command->cxid);
    buf_append_i32(b, command->type);
    buf_append_i32(b, (int32_t)command->options);
    if ((command->options & COMMAND_NUMBERED) != 0) {
        buf_append_i32(b, command->number);
        buf_append_i32(b, command->unanswered);
    }
    wire_write_vector(b, &command->ids);
    wire_write_buffer(b, command->body);
    assert(b->len - before <= room);

    size_t at = start + BATCH_COUNT_AT;
    struct wire_reader r = wire_reader_make(slice_make(b->data + at, 4));
    buf_put_i32(b, at, wire_read_i32(&r) + 1);
}

int batch_stamp_time(struct buf *b, int64_t time_ms)
{
    struct batch_reader r;
    if (b->len == 0 || b->data[0] != BATCH_VERSION || batch_open(buf_slice(b), &r) != 0) {
        return CONCLAVE_ECORRUPT;
    }
    put_be64(b->data + BATCH_TIME_AT, (uint64_t)time_ms);
    return 0;
}

int batch_open(struct slice bytes, struct batch_reader *ret)
{
    uint8_t version = bytes.len > 0 ? bytes.data[0] : 0;
    if (version != BATCH_VERSION && version != BATCH_VERSION_WITHOUT_PREVIOUS) {
        return CONCLAVE_ECORRUPT;
    }
    struct batch_reader b = {.reader = wire_reader_make(bytes)};
    (void)wire_read_boolean(&b.reader);
    b.header.origin = wire_read_i64(&b.reader);
    b.header.sequence = wire_read_i64(&b.reader);
    b.header.previous =
        version == BATCH_VERSION ? wire_read_i64(&b.reader) : BATCH_PREVIOUS_UNKNOWN;
    b.header.time_ms = wire_read_i64(&b.reader);
    b.header.count = wire_read_i32(&b.reader);
    b.left = b.header.count;
    bool previous_good = version != BATCH_VERSION || b.header.previous >= 0;
    if (b.reader.failed || b.header.count < 0 || !previous_good) {
        return CONCLAVE_ECORRUPT;
    }
    *ret = b;
    return 0;
}

int batch_next(struct batch_reader *b, struct command *ret)
{
    if (b->left == 0) {
        return wire_left(&b->reader) == 0 ? 0 : CONCLAVE_ECORRUPT;
    }
    assert(b->left > 0);
    struct command c = {0};
    c.session_id = wire_read_i64(&b->reader);
    c.cxid = wire_read_i32(&b->reader);
    c.type = wire_read_i32(&b->reader);
    c.options = (uint32_t)wire_read_i32(&b->reader);
    if ((c.options & COMMAND_NUMBERED) != 0) {
        c.number = wire_read_i32(&b->reader);
        c.unanswered = wire_read_i32(&b->reader);
    }
    c.ids = wire_read_ids(&b->reader);
    c.body = wire_read_buffer(&b->reader);
    if (b->reader.failed) {
        return CONCLAVE_ECORRUPT;
    }
    b->left--;
    *ret = c;
    return 1;
}

void reconfig_end_encode(struct buf *out, int64_t zxid, int32_t err)
{
    wire_write_i64(out, zxid);
    wire_write_i32(out, err);
}

void spent_encode(struct buf *out, const struct spent *spent)
{
    wire_write_string(out, spent->path);
    wire_write_i64(out, spent->czxid);
    wire_write_i64(out, spent->mzxid);
}

int spent_decode(struct slice body, struct spent *ret)
{
    struct wire_reader r = wire_reader_make(body);
    struct spent spent = {.path = wire_read_string(&r)};
    spent.czxid = wire_read_i64(&r);
    spent.mzxid = wire_read_i64(&r);
    if (r.failed || slice_is_null(spent.path)) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    *ret = spent;
    return 0;
}
