#include "recipes/standby/protobuf_fields.h"

enum { VARINT_MAX = 10, /* bytes */ TYPE_BITS = 3, TYPE_MASK = 7 };

/* --- writing --------------------------------------------------------------------- */

static void write_varint(struct buf *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        buf_append_u8(out, (uint8_t)(value | 0x80));
    }
    buf_append_u8(out, (uint8_t)value);
}

void protobuf_write_bytes(struct buf *out, unsigned field, const void *data, size_t len)
{
    write_varint(out, field << TYPE_BITS | PROTOBUF_BYTES);
    write_varint(out, len);
    buf_append(out, data, len);
}

void protobuf_write_number(struct buf *out, unsigned field, uint64_t value)
{
    write_varint(out, field << TYPE_BITS | PROTOBUF_VARINT);
    write_varint(out, value);
}

/* --- reading --------------------------------------------------------------------- */

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < VARINT_MAX && *at < end; i++) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *ret = value;
            return true;
        }
    }
    return false;
}

bool protobuf_read(const uint8_t **at, const uint8_t *end, struct protobuf_field *ret)
{
    uint64_t key;
    ret->begin = *at;
    if (!read_varint(at, end, &key)) {
        return false;
    }
    ret->number = key >> TYPE_BITS;
    ret->type = (enum protobuf_type)(key & TYPE_MASK);
    ret->data = NULL;
    switch (ret->type) {
    case PROTOBUF_VARINT:
        return read_varint(at, end, &ret->value);
    case PROTOBUF_BYTES:
        if (!read_varint(at, end, &ret->value)) {
            return false;
        }
        break;
    case PROTOBUF_64:
        ret->value = 8;
        break;
    case PROTOBUF_32:
        ret->value = 4;
        break;
    default:
        return false;
    }
    if (ret->value > (uint64_t)(end - *at)) {
        return false;
    }
    ret->data = *at;
    *at += ret->value;
    return true;
}
