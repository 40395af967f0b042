/*
 * Writes answers in Redis' protocol, version 2 or 3: where they differ (maps, null, pushed messages), the version of the
 * connection decides. The buf records a failure. Pure.
 */
#ifndef REDIS_SENTINEL_SENTINEL_OUT_H
#define REDIS_SENTINEL_SENTINEL_OUT_H

#include "base/buf.h"

struct sentinel_out {
    struct buf *buf;
    bool resp3;
};

void out_status(struct sentinel_out *out, const char *text);
/* The code first, without "-". Line ends and other control characters in it become blanks. */
void out_error(struct sentinel_out *out, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void out_number(struct sentinel_out *out, int64_t number);
void out_text(struct sentinel_out *out, const char *text);
void out_slice(struct sentinel_out *out, struct slice text);
void out_null(struct sentinel_out *out);       /* of a string */
void out_null_array(struct sentinel_out *out); /* of a list */
void out_array(struct sentinel_out *out, size_t count);
/* Names and values by turns; `count` pairs. */
void out_map(struct sentinel_out *out, size_t count);
/* A list that is no answer. */
void out_push(struct sentinel_out *out, size_t count);

/* The fields of a map whose number is known at its end. */
struct out_fields {
    struct buf text;
    size_t count;
};

void fields_begin(struct out_fields *fields);
void field_text(struct out_fields *fields, const char *name, const char *value);
void field_number(struct out_fields *fields, const char *name, int64_t value);
/* Writes the map and frees the fields. */
void fields_end(struct out_fields *fields, struct sentinel_out *out);

#endif
