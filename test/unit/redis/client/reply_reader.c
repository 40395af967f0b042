/* Replies from bytes: every type, every cut of them, and all that a peer may not make us allocate. */
#include "redis/client/reply_reader.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 65536 };

/* The reply as text: "[1, a, nil, !ERR x, +OK, []]". */
static void show(const struct conclave_redis_reply *reply, char *out, size_t size)
{
    size_t len = strlen(out);
    switch (reply->type) {
    case CONCLAVE_REDIS_REPLY_NIL:
        snprintf(out + len, size - len, "nil");
        break;
    case CONCLAVE_REDIS_REPLY_STATUS:
        snprintf(out + len, size - len, "+%s", reply->text);
        break;
    case CONCLAVE_REDIS_REPLY_ERROR:
        snprintf(out + len, size - len, "!%s", reply->text);
        break;
    case CONCLAVE_REDIS_REPLY_STRING:
        snprintf(out + len, size - len, "%s", reply->text);
        break;
    case CONCLAVE_REDIS_REPLY_INTEGER:
        snprintf(out + len, size - len, "%lld", (long long)reply->integer);
        break;
    case CONCLAVE_REDIS_REPLY_ARRAY:
        snprintf(out + len, size - len, "[");
        for (size_t i = 0; i < reply->count; i++) {
            snprintf(out + strlen(out), size - strlen(out), i == 0 ? "" : ", ");
            show(reply->list[i], out, size);
        }
        snprintf(out + strlen(out), size - strlen(out), "]");
        break;
    }
}

/* Reads bytes in parts of this size; all replies, separated by ';'. The error of the reader. */
static int read_parts(const char *bytes, size_t len, size_t part, char out[512])
{
    struct reply_reader *r = reply_reader_create(LIMIT);
    int error = 0;
    assert_non_null(r);
    out[0] = '\0';
    for (size_t at = 0; at < len && error == 0; at += part) {
        struct conclave_redis_reply *reply = NULL;
        error = reply_reader_feed(r, slice_make(bytes + at, len - at < part ? len - at : part));
        while (error == 0 && (error = reply_reader_next(r, &reply)) == 0 && reply != NULL) {
            show(reply, out, 512);
            strcat(out, ";");
            conclave_redis_reply_free(reply);
            reply = NULL;
        }
    }
    reply_reader_destroy(r);
    return error;
}

static void every_type_in_parts_of_every_size(void **state)
{
    static const char BYTES[] = "+OK\r\n-ERR x\r\n:-7\r\n$-1\r\n$0\r\n\r\n$2\r\nab\r\n*-1\r\n*0\r\n"
                                "*3\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n-E\r\n";
    (void)state;
    for (size_t part = 1; part <= sizeof BYTES; part++) {
        char out[512];
        assert_int_equal(read_parts(BYTES, sizeof BYTES - 1, part, out), 0);
        assert_string_equal(out, "+OK;!ERR x;-7;nil;;ab;nil;[];[1, [a, nil], !E];");
    }
}

static void bytes_may_be_zero(void **state)
{
    static const char BYTES[] = "$3\r\na\0b\r\n";
    struct reply_reader *r = reply_reader_create(LIMIT);
    struct conclave_redis_reply *reply = NULL;
    (void)state;
    assert_int_equal(reply_reader_feed(r, slice_make(BYTES, sizeof BYTES - 1)), 0);
    assert_int_equal(reply_reader_next(r, &reply), 0);
    assert_int_equal(reply->len, 3);
    assert_memory_equal(reply->text, "a\0b", 4);
    assert_int_equal(reply->replicas, -1);
    assert_null(reply->server);
    assert_int_equal(reply_set_server(reply, "a:1", 3), 0);
    assert_string_equal(reply->server, "a:1");
    assert_int_equal(reply->epoch, 3);
    conclave_redis_reply_free(reply);
    conclave_redis_reply_free(NULL);
    reply_reader_destroy(r);
    reply_reader_destroy(NULL);
}

static void what_is_no_reply_is_refused(void **state)
{
    static const char *const WRONG[] = {
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        ":12x\r\n",
        ",1.5\r\n", /* RESP3: refused by every version of hiredis */
        "#t\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        char out[512];
        assert_int_equal(read_parts(WRONG[i], strlen(WRONG[i]), 1000, out), CONCLAVE_EPROTO);
    }
}

/* Bytes that are always the same, `count` times behind a head. */
static int read_many(const char *head, const char *bytes, size_t count)
{
    struct reply_reader *r = reply_reader_create(LIMIT);
    struct conclave_redis_reply *reply = NULL;
    int error = reply_reader_feed(r, slice_make(head, strlen(head)));
    for (size_t i = 0; i < count && error == 0 && reply == NULL; i++) {
        error = reply_reader_feed(r, slice_make(bytes, strlen(bytes)));
        if (error == 0) {
            error = reply_reader_next(r, &reply);
        }
    }
    conclave_redis_reply_free(reply);
    reply_reader_destroy(r);
    return error;
}

static void a_reply_beyond_the_limit_is_refused(void **state)
{
    (void)state;
    assert_int_equal(read_many("", "*1\r\n", 600), CONCLAVE_EPROTO); /* too deep */
    assert_int_equal(read_many("*1000000000\r\n", ":1\r\n", 1), CONCLAVE_ETOOBIG);
    assert_int_equal(read_many("*8000\r\n", ":1\r\n", 8000), CONCLAVE_ETOOBIG); /* the items */
    assert_int_equal(read_many("*600\r\n", ":1\r\n", 600), 0);
    assert_int_equal(read_many("$400000000\r\n", "0123456789abcdef", 8192), CONCLAVE_ETOOBIG);
    assert_int_equal(read_many("+", "0123456789abcdef", 8192), CONCLAVE_ETOOBIG); /* no end */
}

/* Replies one after the other have the limit each. */
static void the_limit_is_for_one_reply(void **state)
{
    struct reply_reader *r = reply_reader_create(LIMIT);
    char *bytes = malloc(40000);
    (void)state;
    memset(bytes, 'x', 40000);
    memcpy(bytes, "+", 1);
    memcpy(bytes + 39998, "\r\n", 2);
    for (int i = 0; i < 10; i++) {
        struct conclave_redis_reply *reply = NULL;
        assert_int_equal(reply_reader_feed(r, slice_make(bytes, 40000)), 0);
        assert_int_equal(reply_reader_next(r, &reply), 0);
        assert_int_equal(reply->len, 39997);
        conclave_redis_reply_free(reply);
    }
    free(bytes);
    reply_reader_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_in_parts_of_every_size),
        cmocka_unit_test(bytes_may_be_zero),
        cmocka_unit_test(what_is_no_reply_is_refused),
        cmocka_unit_test(a_reply_beyond_the_limit_is_refused),
        cmocka_unit_test(the_limit_is_for_one_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
