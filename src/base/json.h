/*
 * Writes JSON (RFC 8259), compact, one value per line of output, or set out for reading in the way of
 * Jackson's default, which tools of Apache ZooKeeper know. Commas are the writer's business; the
 * caller opens and closes what it nests, at most JSON_DEPTH_MAX deep. A text that is not UTF-8 is
 * written with U+FFFD for each byte that does not fit; json_data keeps such bytes by base64
 * instead. Memory trouble is remembered and reported by json_print.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_DEPTH_MAX 16

struct json {
    struct buf out;             /* text so far */
    bool pretty;                /* set out for reading */
    unsigned depth;             /* open objects and arrays */
    unsigned objects;           /* open objects: what pretty output is indented by */
    bool array[JSON_DEPTH_MAX]; /* at this depth an array is open */
    bool comma[JSON_DEPTH_MAX]; /* the next value at this depth follows another */
    bool after_key;             /* a key stands before the next value */
};

void json_init(struct json *j);
void json_init_pretty(struct json *j);
void json_finish(struct json *j);

void json_object_begin(struct json *j);
void json_object_end(struct json *j);
void json_array_begin(struct json *j);
void json_array_end(struct json *j);

/* The name of the next value of an object. */
void json_key(struct json *j, const char *name);
void json_key_text(struct json *j, struct slice name);

void json_string(struct json *j, const char *text);
void json_text(struct json *j, struct slice text);
void json_int(struct json *j, int64_t value);
void json_uint(struct json *j, uint64_t value);
void json_bool(struct json *j, bool value);
void json_null(struct json *j);

/* The same with the name before it: a member of an object. */
void json_member_string(struct json *j, const char *name, const char *text);
void json_member_string_or_null(struct json *j, const char *name,
                                const char *text); /* null: NULL or "" */
void json_member_text(struct json *j, const char *name, struct slice text);
void json_member_int(struct json *j, const char *name, int64_t value);
void json_member_uint(struct json *j, const char *name, uint64_t value);
void json_member_bool(struct json *j, const char *name, bool value);
void json_member_hex(struct json *j, const char *name, int64_t value);
void json_member_null(struct json *j, const char *name);

/* A value that is JSON already, on one line. */
void json_ready(struct json *j, struct slice value);

/* With at least one and at most `digits` (1 to 9) decimal places: "0.0", "1.25". */
void json_real(struct json *j, double value, int digits);

/* Appends the same without JSON around it. */
void real_append(struct buf *out, double value, int digits);

/* "0x1f": zxids and session ids, which do not fit the number of many readers. */
void json_hex(struct json *j, int64_t value);

/* Key and value of a node's data: "data": text or null, or "data_base64" when the bytes are not
 * UTF-8. */
void json_data(struct json *j, const void *data, size_t len);

/* An object on a line of its own: json_line_begin starts the writer, json_line_print ends the object, prints it and
 * finishes. Errors as json_print. */
void json_line_begin(struct json *j);
int json_line_print(struct json *j, FILE *file);

/* An object with one member, a list: json_list_begin leaves room for its items, json_list_print ends it,
 * prints and finishes. Errors as json_print. */
void json_list_begin(struct json *j, const char *key);
int json_list_print(struct json *j, FILE *file);

/* Writes the text and a newline, flushes, and empties the writer. 0, CONCLAVE_ENOMEM or
 * CONCLAVE_EIO. */
int json_print(struct json *j, FILE *file);

/* Whether all bytes are UTF-8 (RFC 3629: no surrogates, nothing overlong). */
bool utf8_valid(struct slice text);

#endif
