/* The parser of HTTP requests takes good requests and refuses bad ones, wherever the bytes are cut.
 * */
#include "admin/http/http_parser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define GET "GET / HTTP/1.1\r\n"
#define POST "POST /x HTTP/1.1\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

/* Appends what the parser makes of `step` bytes at a time: heads, bodies, a failure. */
static void read_by(struct slice bytes, size_t step, struct buf *out)
{
    struct http_parser p;
    struct slice piece;
    bool failed = false;
    http_parser_init(&p);
    for (size_t at = 0; at < bytes.len && !failed; at += step) {
        size_t len = bytes.len - at < step ? bytes.len - at : step;
        /* A block of its own, so that a read beyond it is seen. */
        uint8_t *copy = malloc(len);
        memcpy(copy, bytes.data + at, len);
        struct slice rest = slice_make(copy, len);
        enum http_event event;
        while ((event = http_parser_read(&p, &rest, &piece)) != HTTP_EVENT_MORE && !failed) {
            if (event == HTTP_EVENT_HEAD) {
                buf_printf(out, "[%s %s%s%s%s]", http_parser_method(&p), http_parser_path(&p),
                           p.http_1_0 ? " 1.0" : "", p.keep_alive ? "" : " close",
                           p.expects ? " expects" : "");
            } else if (event == HTTP_EVENT_BODY) {
                buf_append_slice(out, piece);
            } else if (event == HTTP_EVENT_DONE) {
                buf_append_str(out, ";");
                http_parser_next(&p);
            } else {
                assert_true(p.problem != NULL);
                buf_printf(out, "!%u", p.status);
                failed = true;
            }
        }
        assert_true(failed || rest.len == 0);
        free(copy);
    }
    http_parser_finish(&p);
}

static void expect_bytes(struct slice bytes, const char *wanted)
{
    for (size_t step = 1; step <= bytes.len; step = step < 80 ? step + 1 : step * 2) {
        struct buf out;
        buf_init(&out, 0);
        read_by(bytes, step, &out);
        if (!slice_equal_str(buf_slice(&out), wanted)) {
            fail_msg("%zu at a time: %.*s\nbecame %.*s\ninstead of %s", step, SLICE_FMT(bytes),
                     SLICE_FMT(buf_slice(&out)), wanted);
        }
        buf_finish(&out);
    }
}

struct example {
    const char *bytes;
    const char *wanted;
};

static void expect_examples(const struct example *examples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expect_bytes(slice_str(examples[i].bytes), examples[i].wanted);
    }
}

#define EXPECT(examples) expect_examples(examples, sizeof(examples) / sizeof((examples)[0]))

static void test_requests(void **state)
{
    static const struct example EXAMPLES[] = {
        {GET "\r\n", "[GET /];"},
        {GET "Host: x\r\n\r\n" GET "\r\n", "[GET /];[GET /];"},
        {"\r\n\r\n" GET "\r\n\r\nHEAD /a HTTP/1.0\r\n\r\n", "[GET /];[HEAD /a 1.0 close];"},
        {"GET /a%20b+c%2f?x HTTP/1.9\r\n\r\n", "[GET /a b+c/];"},
        {"OPTIONS * HTTP/1.1\r\n\r\n", "[OPTIONS *];"},
        {"M!#$%&'*+-.^_`|~9 / HTTP/1.1\r\n\r\n", "[M!#$%&'*+-.^_`|~9 /];"},
        {"GET /\xc3\xbc HTTP/1.1\r\nX: \xc3\xbc\r\n\r\n", "[GET /\xc3\xbc];"},
        {GET "Connection: x, Close\r\n\r\n", "[GET / close];"},
        {GET "Connection: x\r\nCONNECTION: close\r\n\r\n", "[GET / close];"},
        {GET "Connection: closed\r\n\r\n", "[GET /];"},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "[GET / 1.0];"},
        {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "[GET / 1.0 close];"},
        {POST "Expect: 100-Continue\r\nContent-Length: 0\r\n\r\n", "[POST /x expects];"},
        {"POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", "[POST / 1.0 close];"},
        {POST "Content-Length: 5\r\n\r\nab\r\nc" GET "\r\n", "[POST /x]ab\r\nc;[GET /];"},
        {POST "Content-Length:\t 0002 \t\r\n\r\nab", "[POST /x]ab;"},
        {CHUNKED "3\r\nabc\r\n00a;x=\"y\"\r\n0123456789\r\n0\r\n\r\n" GET "\r\n",
         "[POST /x]abc0123456789;[GET /];"},
        {POST "Transfer-Encoding: Chunked\r\n\r\n1 \r\nF\r\n0\r\nA: b\r\nC: d\r\n\r\n",
         "[POST /x]F;"},
        {CHUNKED "0\r\n\r\n", "[POST /x];"},
        {GET "X:\r\nY: \t \r\n\r\n", "[GET /];"},
        {GET "Half", ""},
    };
    EXPECT(EXAMPLES);
}

static void test_refused(void **state)
{
    static const struct example EXAMPLES[] = {
        /* request lines */
        {"GET /\r\n\r\n", "!400"},
        {"GET  / HTTP/1.1\r\n", "!400"},
        {"GET / HTTP/1.1 \r\n", "!400"},
        {"GET /a b HTTP/1.1\r\n", "!400"},
        {"GET\t/ HTTP/1.1\r\n", "!400"},
        {"GET /\t HTTP/1.1\r\n", "!400"},
        {" GET / HTTP/1.1\r\n", "!400"},
        {"G(T / HTTP/1.1\r\n", "!400"},
        {"GET / http/1.1\r\n", "!400"},
        {"GET / HTTP/1.\r\n", "!400"},
        {"GET / HTTP/1.10\r\n", "!400"},
        {"GET / HTTP/2.0\r\n", "!505"},
        {"GET / HTTP/0.9\r\n", "!505"},
        {"GET /%zz HTTP/1.1\r\n", "!400"},
        {"GET /% HTTP/1.1\r\n", "!400"},
        {"GET /%4 HTTP/1.1\r\n", "!400"},
        {"GET /%00 HTTP/1.1\r\n", "!400"},
        {"GET /?a=%00 HTTP/1.1\r\n", "!400"},
        {"GET /?a%=b HTTP/1.1\r\n", "!400"},
        /* ends of lines, and characters in them */
        {"GET / HTTP/1.1\nHost: x\n\n", "!400"},
        {"\n" GET, "!400"},
        {GET "A: b\rC: d\r\n", "!400"},
        {GET "A: b\r\r\n", "!400"},
        {GET "A: b\n", "!400"},
        {GET "A: \x01\r\n", "!400"},
        {GET "A: \x7f\r\n", "!400"},
        {"GET /\x1b HTTP/1.1\r\n", "!400"},
        /* fields */
        {GET "A\r\n", "!400"},
        {GET ": b\r\n", "!400"},
        {GET "A : b\r\n", "!400"},
        {GET " A: b\r\n", "!400"},
        {GET "A: b\r\n c\r\n", "!400"},
        {GET "A: b\r\n\tc: d\r\n", "!400"},
        {GET "A b: c\r\n", "!400"},
        {GET "Host: x\r\nhost: x\r\n", "!400"},
        {GET "Authorization: x\r\nAuthorization: y\r\n", "!400"},
        /* two lengths of one body */
        {POST "Content-Length: 3\r\nContent-Length: 3\r\n", "!400"},
        {POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "!400"},
        {POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", "!400"},
        {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "!400"},
        {POST "Transfer-Encoding: gzip, chunked\r\n\r\n", "!501"},
        {POST "Transfer-Encoding: identity\r\n\r\n", "!501"},
        {POST "Transfer-Encoding:\r\n\r\n", "!501"},
        {POST "Transfer-Encoding: xchunked\r\n\r\n", "!501"},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "!400"},
        {POST "Content-Length: -5\r\n\r\n", "!400"},
        {POST "Content-Length: +5\r\n\r\n", "!400"},
        {POST "Content-Length: 0x5\r\n\r\n", "!400"},
        {POST "Content-Length: 5, 5\r\n\r\n", "!400"},
        {POST "Content-Length: 5 5\r\n\r\n", "!400"},
        {POST "Content-Length:\r\n\r\n", "!400"},
        {POST "Content-Length: 9223372036854775808\r\n\r\n", "!413"},
        {POST "Content-Length: 99999999999999999999\r\n\r\n", "!413"},
        /* chunks */
        {CHUNKED "\r\n", "[POST /x]!400"},
        {CHUNKED "g\r\n", "[POST /x]!400"},
        {CHUNKED "-1\r\n", "[POST /x]!400"},
        {CHUNKED "0x1\r\n", "[POST /x]!400"},
        {CHUNKED " 1\r\n", "[POST /x]!400"},
        {CHUNKED "1 2\r\n", "[POST /x]!400"},
        {CHUNKED "1\na\r\n", "[POST /x]!400"},
        {CHUNKED "ffffffffffffffff\r\n", "[POST /x]!400"},
        {CHUNKED "100000000\r\n", "[POST /x]!400"},
        {CHUNKED "1\r\nab\r\n", "[POST /x]a!400"},
        {CHUNKED "1\r\na\n0\r\n\r\n", "[POST /x]a!400"},
        {CHUNKED "0\r\nx\r\n", "[POST /x]!400"},
        {CHUNKED "0\r\nA: b\r\n c\r\n", "[POST /x]!400"},
        {CHUNKED "0\r\n" GET, "[POST /x]!400"},
    };
    EXPECT(EXAMPLES);
    expect_bytes(slice_make(GET "A: b\0c\r\n", sizeof GET "A: b\0c\r\n" - 1), "!400");
    expect_bytes(slice_make("GET /\0 HTTP/1.1\r\n", 17), "!400");
    expect_bytes(slice_make(CHUNKED "0;\0\r\n", sizeof CHUNKED "0;\0\r\n" - 1), "[POST /x]!400");
}

/* `before`, then `count` times `part`, then `after`. */
static void expect_long(const char *before, size_t count, const char *part, const char *after,
                        const char *wanted)
{
    struct buf bytes;
    buf_init(&bytes, 0);
    buf_append_str(&bytes, before);
    for (size_t i = 0; i < count; i++) {
        buf_append_str(&bytes, part);
    }
    buf_append_str(&bytes, after);
    expect_bytes(buf_slice(&bytes), wanted);
    buf_finish(&bytes);
}

static void test_limits(void **state)
{
    const size_t rest = HTTP_HEAD_MAX - strlen(GET "A: \r\n\r\n");
    expect_long(GET "A: ", rest, "b", "\r\n\r\n", "[GET /];");
    expect_long(GET "A: ", rest + 1, "b", "\r\n\r\n", "!431");
    expect_long(GET "A: ", rest + 4, "b", "", "");
    expect_long(GET "A: ", rest + 5, "b", "", "!431");
    expect_long("GET /?", HTTP_HEAD_MAX, "b", " HTTP/1.1\r\n", "!414");
    expect_long("", HTTP_HEAD_MAX, "\r\n", GET "\r\n", "!414");
    expect_long(GET, HTTP_FIELDS_MAX, "A: b\r\n", "\r\n", "[GET /];");
    expect_long(GET, HTTP_FIELDS_MAX + 1, "A: b\r\n", "\r\n", "!431");
    expect_long(CHUNKED "1;", HTTP_SIZE_LINE_MAX - 4, "x", "\r\na\r\n0\r\n\r\n", "[POST /x]a;");
    expect_long(CHUNKED "1;", HTTP_SIZE_LINE_MAX - 3, "x", "\r\na\r\n0\r\n\r\n", "[POST /x]!400");
    expect_long(CHUNKED "0\r\n", HTTP_TRAILER_MAX / 6, "A: b\r\n", "\r\n", "[POST /x];");
    expect_long(CHUNKED "0\r\n", HTTP_TRAILER_MAX / 6 + 1, "A: b\r\n", "\r\n", "[POST /x]!431");
}

static void test_fields_and_arguments(void **state)
{
    static const char BYTES[] = "GET /p?a=1&b=x%26y+z&&A=2&novalue&c=&=d&e==%3d HTTP/1.1\r\n"
                                "Host:  example:80 \r\nX: first\r\nx: second\r\nEmpty:\r\n\r\n";
    struct slice rest = slice_str(BYTES);
    struct slice piece;
    struct http_parser p;
    http_parser_init(&p);
    assert_int_equal(http_parser_read(&p, &rest, &piece), HTTP_EVENT_HEAD);
    assert_string_equal(http_parser_path(&p), "/p");
    assert_string_equal(http_parser_argument(&p, "a"), "1");
    assert_string_equal(http_parser_argument(&p, "B"), "x&y z");
    assert_string_equal(http_parser_argument(&p, "c"), "");
    assert_string_equal(http_parser_argument(&p, "e"), "==");
    assert_null(http_parser_argument(&p, "novalue"));
    assert_null(http_parser_argument(&p, "d"));
    assert_string_equal(http_parser_field(&p, "HOST"), "example:80");
    assert_string_equal(http_parser_field(&p, "X"), "first");
    assert_string_equal(http_parser_field(&p, "empty"), "");
    assert_null(http_parser_field(&p, "Authorization"));
    assert_int_equal(http_parser_read(&p, &rest, &piece), HTTP_EVENT_DONE);
    http_parser_next(&p);
    assert_null(http_parser_field(&p, "Host"));
    http_parser_finish(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_fields_and_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
