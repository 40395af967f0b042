/*
 * Writes JSON (RFC 8259): compact, one value per line of output, or pretty-printed as Jackson does by default, which
 * tools of Apache ZooKeeper know. The writer adds commas; the caller opens and closes what it nests, at most
 * JSON_DEPTH_MAX deep. In a text that is not UTF-8, each bad byte becomes U+FFFD; json_data keeps such bytes as base64.
 * Out of memory is remembered and reported by json_print.
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
    bool pretty;                /* pretty-printed */
    unsigned depth;             /* open objects and arrays */
    unsigned objects;           /* open objects: the indentation of pretty output */
    bool array[JSON_DEPTH_MAX]; /* at this depth an array is open */
    bool comma[JSON_DEPTH_MAX]; /* the next value at this depth follows another */
    bool after_key;             /* the next value follows a key */
};

void json_init(struct json *j);
void json_init_pretty(struct json *j);
void json_finish(struct json *j);

void json_object_begin(struct json *j);
void json_object_end(struct json *j);
void json_array_begin(struct json *j);
void json_array_end(struct json *j);

/* Writes the name of the next value of an object. */
void json_key(struct json *j, const char *name);
void json_key_text(struct json *j, struct slice name);

void json_string(struct json *j, const char *text);
void json_text(struct json *j, struct slice text);
void json_int(struct json *j, int64_t value);
void json_uint(struct json *j, uint64_t value);
void json_bool(struct json *j, bool value);
void json_null(struct json *j);

/* The same with a name: a member of an object. */
void json_member_string(struct json *j, const char *name, const char *text);
void json_member_string_or_null(struct json *j, const char *name,
                                const char *text); /* null: NULL or "" */
void json_member_text(struct json *j, const char *name, struct slice text);
void json_member_int(struct json *j, const char *name, int64_t value);
void json_member_uint(struct json *j, const char *name, uint64_t value);
void json_member_bool(struct json *j, const char *name, bool value);
void json_member_hex(struct json *j, const char *name, int64_t value);
void json_member_null(struct json *j, const char *name);

/* A value that is already JSON, on one line. */
void json_ready(struct json *j, struct slice value);

/* Writes at least one and at most `digits` (1 to 9) decimal places: "0.0", "1.25". */
void json_real(struct json *j, double value, int digits);

/* Appends the same text outside of JSON. */
void real_append(struct buf *out, double value, int digits);

/* Appends a string with its quotes outside of JSON. */
void json_append_string(struct buf *out, struct slice text);

/* "0x1f": for zxids and session ids, which exceed the numbers of many readers. */
void json_hex(struct json *j, int64_t value);

/* Key and value of a node's data: "data": text or null, or "data_base64" if the bytes are not UTF-8. */
void json_data(struct json *j, const void *data, size_t len);

/* An object on its own line: json_line_begin starts the writer, json_line_print ends the object, prints it and
 * finishes. Errors as json_print. */
void json_line_begin(struct json *j);
int json_line_print(struct json *j, FILE *file);

/* An object with one member, a list: json_list_begin begins the list, json_list_print ends it, prints and finishes.
 * Errors as json_print. */
void json_list_begin(struct json *j, const char *key);
int json_list_print(struct json *j, FILE *file);

/* Writes the text and a newline, flushes, and empties the writer. 0, CONCLAVE_ENOMEM or
 * CONCLAVE_EIO. */
int json_print(struct json *j, FILE *file);

/* Whether all bytes are UTF-8 (RFC 3629: no surrogates, nothing overlong). */
bool utf8_valid(struct slice text);

/* Bytes of the first character; 0: it is none. text is not empty. */
size_t utf8_length(struct slice text);

#endif
