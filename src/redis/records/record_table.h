/*
 * Records as tables: a row per field of a struct, in the order in which the fields are written as JSON. One writer and
 * one reader serve all records. Pure.
 *
 * The reader is strict in what fail-over depends on: a NEEDED field that is missing or malformed makes the record
 * CONCLAVE_ECORRUPT. It ignores names that it does not know.
 */
#ifndef REDIS_RECORDS_RECORD_TABLE_H
#define REDIS_RECORDS_RECORD_TABLE_H

#include "base/buf.h"

enum record_kind {
    RECORD_INT,       /* int64_t; NEEDED: 0 or more */
    RECORD_SMALL,     /* int */
    RECORD_HEX,       /* int64_t as "0x1f"; 0 if malformed */
    RECORD_BOOL,      /* false if malformed */
    RECORD_NAME,      /* an enum or a bool as the text of its place in names */
    RECORD_TEXT,      /* array of char; malformed: no text, too long, or with a NUL in it */
    RECORD_NOTE,      /* the same for what is only shown: "" if malformed */
    RECORD_ADDRESS,   /* "host:port" or ""; malformed: anything else */
    RECORD_ADDRESSES, /* a list of structs that begin with an address */
    RECORD_MAP, /* an object whose names are these addresses; its values are of the table `below` */
};

enum record_flag {
    RECORD_NEEDED = 1,     /* missing, null and "" are malformed, too */
    RECORD_NULL = 2,       /* "" is written as null */
    RECORD_OMIT = 4,       /* "" and negative numbers are not written */
    RECORD_LAST_IF_NO = 8, /* if it is negative, the rows behind it are not written */
};

struct record_table;

struct record_field {
    const char *key;
    enum record_kind kind;
    size_t offset;
    size_t size;              /* bytes; of lists: of one element */
    size_t max;               /* of lists: elements */
    size_t count_at;          /* of lists: offset of the number of elements */
    unsigned flags;           /* of enum record_flag */
    int64_t otherwise;        /* of a number that is missing or malformed */
    const char *const *names; /* NULL-ended */
    const struct record_table *below;
};

struct record_table {
    const struct record_field *fields; /* ended by a row without a key */
    size_t size;                       /* of the struct */
    bool versioned;                    /* begins with "version":1 */
};

enum { RECORD_SIZE_MAX = 32 * 1024 };

/* Appends the record as one line of JSON. Fails only by memory (buf_ok). */
void record_write(struct buf *out, const struct record_table *table, const void *record);

/* 0 or CONCLAVE_ECORRUPT, *ret is unchanged then. json may be NULL if len is 0. */
int record_read(const struct record_table *table, const void *json, size_t len,
                void *ret) CONCLAVE_MUST_USE;

/* The place of a text in a NULL-ended list, or -1. */
int record_name_find(const char *const *names, const char *text);

#endif
