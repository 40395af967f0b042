/*
 * A file of Apache ZooKeeper, read from front to end in pieces of memory: plain, gzip, or snappy as Java's
 * SnappyOutputStream writes it; the name's end says which. Keeps the Adler-32 of all bytes that were taken.
 *
 * Limits: one record of at most APACHE_RECORD_MAX bytes.
 */
#ifndef APACHE_INPUT_H
#define APACHE_INPUT_H

#include "wire/codec.h"

enum { APACHE_RECORD_MAX = 1 << 28 };

struct apache_input;

/* 0, CONCLAVE_ENOMEM or CONCLAVE_EIO with *ret_error, which the caller frees. The name is borrowed. */
int apache_input_open(const char *name, struct apache_input **ret,
                      char **ret_error) CONCLAVE_MUST_USE;
void apache_input_close(struct apache_input *in);

/* Reads a record from the reader's bytes into ret: 0, or any error when they are too few or wrong. */
typedef int (*apache_decode)(struct wire_reader *r, void *ret);

/* Reads the next record; what it borrows is valid until the next call. 0, CONCLAVE_ENOMEM, CONCLAVE_EIO or
 * CONCLAVE_ECORRUPT with *ret_error: `what` cannot be read at this offset. */
int apache_input_read(struct apache_input *in, apache_decode decode, const char *what, void *ret,
                      char **ret_error) CONCLAVE_MUST_USE;

/* *ret: how many bytes are left, or max if there are more. Errors as apache_input_read. */
int apache_input_left(struct apache_input *in, size_t max, size_t *ret,
                      char **ret_error) CONCLAVE_MUST_USE;

/* What was read of the file behind the last record: after apache_input_left(max), at least that much. Valid until the
 * next call. */
struct slice apache_input_ahead(const struct apache_input *in);

/* Whether nothing but a hole of the file is behind what is ahead: zeroes that need no reading. */
bool apache_input_hole_follows(const struct apache_input *in);

/* Leaves out bytes of what is ahead. */
void apache_input_skip(struct apache_input *in, size_t len);

/* The Adler-32 of all bytes of the records so far. */
uint32_t apache_input_checksum(const struct apache_input *in);

/* Bytes of the records so far, before compression. */
uint64_t apache_input_offset(const struct apache_input *in);

/* Decoders for single values. */
int apache_decode_i32(struct wire_reader *r, void *ret);    /* int32_t */
int apache_decode_i64(struct wire_reader *r, void *ret);    /* int64_t */
int apache_decode_string(struct wire_reader *r, void *ret); /* struct slice */

#endif
