/*
 * Fields of protobuf messages, as far as the messages of Hadoop's electors need them: numbers and texts. Pure.
 */
#ifndef RECIPES_STANDBY_PROTOBUF_FIELDS_H
#define RECIPES_STANDBY_PROTOBUF_FIELDS_H

#include "base/buf.h"

enum protobuf_type {
    PROTOBUF_VARINT = 0,
    PROTOBUF_64 = 1,
    PROTOBUF_BYTES = 2,
    PROTOBUF_32 = 5,
};

/* Append a field to out, which may have failed. */
void protobuf_write_bytes(struct buf *out, unsigned field, const void *data, size_t len);
void protobuf_write_number(struct buf *out, unsigned field, uint64_t value);

struct protobuf_field {
    uint64_t number;
    enum protobuf_type type;
    const uint8_t *begin; /* of the field in the message */
    uint64_t value;       /* VARINT; others: length of the data */
    const uint8_t *data;  /* of the other types */
};

/* Reads the field at *at and moves *at behind it. False: it is cut off, or has a type that is not known. */
bool protobuf_read(const uint8_t **at, const uint8_t *end, struct protobuf_field *ret);

#endif
