/*
 * Cuts requests out of a client's bytes: arrays of strings (RESP), lines of words (inline commands), and the head of an
 * HTTP request. Pure; it copies nothing and allocates nothing.
 *
 * Limits: at most SENTINEL_WORDS_MAX words and SENTINEL_REQUEST_MAX bytes. More is an error, found as soon as a length says
 * so, not when the bytes are there.
 */
#ifndef REDIS_SENTINEL_SENTINEL_REQUEST_H
#define REDIS_SENTINEL_SENTINEL_REQUEST_H

#include "base/slice.h"

#include <conclave/error.h>

enum { SENTINEL_WORDS_MAX = 64, SENTINEL_REQUEST_MAX = 8192 };

struct sentinel_request {
    bool http;                              /* words: method and target */
    size_t count;                           /* 0: an empty line or array, to be ignored */
    struct slice words[SENTINEL_WORDS_MAX]; /* in the bytes that were read */
};

/* Reads the first request of bytes. 0: *ret_taken is its length, or 0 if it is incomplete (*ret is undefined).
 * CONCLAVE_EPROTO: *ret_why is the text of the error; the connection cannot continue. */
int sentinel_request_read(struct slice bytes, struct sentinel_request *ret, size_t *ret_taken,
                          const char **ret_why) CONCLAVE_MUST_USE;

/* Whether a word is this one, without regard to case. */
bool sentinel_word_is(struct slice word, const char *name);

#endif
