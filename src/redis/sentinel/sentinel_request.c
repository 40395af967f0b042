#include "redis/sentinel/sentinel_request.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

static const char TOO_LONG[] = "Protocol error: too big request";

bool sentinel_word_is(struct slice word, const char *name)
{
    return word.len == strlen(name) && strncasecmp((const char *)word.data, name, word.len) == 0;
}

/* The line that begins at `at`, without its end. False: it has no end yet. */
static bool line_read(struct slice bytes, size_t at, struct slice *ret, size_t *ret_next)
{
    assert(at <= bytes.len);
    const uint8_t *from = bytes.data + at;
    const uint8_t *end = at < bytes.len ? memchr(from, '\n', bytes.len - at) : NULL;
    if (end == NULL) {
        return false;
    }
    size_t len = (size_t)(end - from);
    *ret_next = at + len + 1;
    *ret = slice_make(from, len > 0 && from[len - 1] == '\r' ? len - 1 : len);
    return true;
}

/* A number of 0 to max, in digits; -1: none. */
static int64_t length_read(struct slice text, int64_t max)
{
    int64_t number = text.len > 0 ? 0 : -1;
    for (size_t i = 0; i < text.len && number >= 0; i++) {
        int digit = text.data[i] - '0';
        number = digit >= 0 && digit <= 9 && number <= max ? number * 10 + digit : -1;
    }
    return number <= max ? number : -1;
}

/* "*2\r\n$4\r\nPING\r\n...": *ret_taken stays 0 while it is incomplete. */
static int array_read(struct slice bytes, struct sentinel_request *ret, size_t *ret_taken,
                      const char **ret_why)
{
    struct slice line;
    size_t at = 0;
    if (!line_read(bytes, at, &line, &at)) {
        return 0;
    }
    int64_t count = length_read(slice_make(line.data + 1, line.len - 1), SENTINEL_WORDS_MAX);
    if (count < 0) {
        *ret_why = "Protocol error: invalid multibulk length";
        return CONCLAVE_EPROTO;
    }
    for (ret->count = 0; ret->count < (size_t)count; ret->count++) {
        if (!line_read(bytes, at, &line, &at)) {
            return 0;
        }
        int64_t len =
            line.len > 1 && line.data[0] == '$'
                ? length_read(slice_make(line.data + 1, line.len - 1), SENTINEL_REQUEST_MAX)
                : -1;
        if (len < 0) {
            *ret_why = "Protocol error: invalid bulk length";
            return CONCLAVE_EPROTO;
        }
        if (bytes.len - at < (size_t)len + 2) {
            return 0;
        }
        if (memcmp(bytes.data + at + len, "\r\n", 2) != 0) {
            *ret_why = "Protocol error: a string does not end where it should";
            return CONCLAVE_EPROTO;
        }
        ret->words[ret->count] = slice_make(bytes.data + at, (size_t)len);
        at += (size_t)len + 2;
    }
    *ret_taken = at;
    return 0;
}

/* Puts the words of a line into ret. False: there are too many. */
static bool words_read(struct slice line, struct sentinel_request *ret)
{
    size_t at = 0;
    ret->count = 0;
    for (;;) {
        while (at < line.len && (line.data[at] == ' ' || line.data[at] == '\t')) {
            at++;
        }
        if (at == line.len) {
            return true;
        }
        size_t from = at;
        while (at < line.len && line.data[at] != ' ' && line.data[at] != '\t') {
            at++;
        }
        if (ret->count == SENTINEL_WORDS_MAX) {
            return false;
        }
        ret->words[ret->count++] = slice_make(line.data + from, at - from);
    }
}

/* A line of words, or, if the third one is HTTP/1.x, all lines up to an empty one. */
static int line_request_read(struct slice bytes, struct sentinel_request *ret, size_t *ret_taken,
                             const char **ret_why)
{
    struct slice line;
    size_t at = 0;
    if (!line_read(bytes, at, &line, &at)) {
        return 0;
    }
    if (!words_read(line, ret)) {
        *ret_why = TOO_LONG;
        return CONCLAVE_EPROTO;
    }
    ret->http = ret->count == 3 && slice_starts_with(ret->words[2], slice_str("HTTP/1."));
    while (ret->http) {
        if (!line_read(bytes, at, &line, &at)) {
            return 0;
        }
        if (line.len == 0) {
            break;
        }
    }
    *ret_taken = at;
    return 0;
}

int sentinel_request_read(struct slice bytes, struct sentinel_request *ret, size_t *ret_taken,
                          const char **ret_why)
{
    struct slice seen = slice_make(
        bytes.data, bytes.len < SENTINEL_REQUEST_MAX ? bytes.len : (size_t)SENTINEL_REQUEST_MAX);
    *ret_taken = 0;
    ret->count = 0;
    ret->http = false;
    if (seen.len == 0) {
        return 0;
    }
    int rc = seen.data[0] == '*' ? array_read(seen, ret, ret_taken, ret_why)
                                 : line_request_read(seen, ret, ret_taken, ret_why);
    if (rc == 0 && *ret_taken == 0 && bytes.len >= SENTINEL_REQUEST_MAX) {
        *ret_why = TOO_LONG;
        rc = CONCLAVE_EPROTO;
    }
    assert(*ret_taken <= seen.len && (rc == 0 || *ret_taken == 0));
    return rc;
}
