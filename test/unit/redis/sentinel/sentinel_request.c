/* Requests: in one piece and byte by byte, of each form, at and beyond the limits. */
#include "redis/sentinel/sentinel_request.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

static int request_of(const char *text, size_t len, struct sentinel_request *request, size_t *taken)
{
    const char *why = NULL;
    /* The exact size: a reader that goes further is found by the sanitizer. */
    char *copy = malloc(len > 0 ? len : 1);
    static char *before;
    free(before);
    before = copy; /* the words point into it until the next call */
    memcpy(copy, text, len);
    int rc = sentinel_request_read(slice_make(copy, len), request, taken, &why);
    assert_true((rc == 0) == (why == NULL));
    return rc;
}

static void expect_words(const char *text, bool http, const char *words)
{
    struct sentinel_request request;
    size_t taken;
    char found[256] = "";
    for (size_t len = 0; len < strlen(text); len++) {
        assert_int_equal(request_of(text, len, &request, &taken), 0);
        assert_int_equal(taken, 0);
    }
    assert_int_equal(request_of(text, strlen(text), &request, &taken), 0);
    assert_int_equal(taken, strlen(text));
    for (size_t i = 0; i < request.count; i++) {
        size_t at = strlen(found);
        snprintf(found + at, sizeof found - at, "<%.*s>", SLICE_FMT(request.words[i]));
    }
    assert_string_equal(found, words);
    assert_int_equal(request.http, http);
}

static void test_each_form(void **state)
{
    expect_words("*1\r\n$4\r\nPING\r\n", false, "<PING>");
    expect_words("*3\r\n$8\r\nSENTINEL\r\n$0\r\n\r\n$4\r\na\r\nb\r\n", false,
                 "<SENTINEL><><a\r\nb>");
    expect_words("*0\r\n", false, "");
    expect_words("\r\n", false, "");
    expect_words("  ping \t x\n", false, "<ping><x>");
    expect_words("GET /redis/a/master HTTP/1.1\r\nHost: x\r\n\r\n", true,
                 "<GET></redis/a/master><HTTP/1.1>");
    expect_words("GET / HTTP/1.0\n\n", true, "<GET></><HTTP/1.0>");
}

static void test_only_the_first_is_taken(void **state)
{
    struct sentinel_request request;
    size_t taken;
    assert_int_equal(request_of("PING\r\nPING\r\n", 12, &request, &taken), 0);
    assert_int_equal(taken, 6);
}

static void expect_refused(const char *text, size_t len)
{
    struct sentinel_request request;
    size_t taken;
    assert_int_equal(request_of(text, len, &request, &taken), CONCLAVE_EPROTO);
    assert_int_equal(taken, 0);
}

static void test_what_is_refused(void **state)
{
    static const char *const BAD[] = {
        "*x\r\n",
        "*\r\n",
        "*-1\r\n",
        "*65\r\n",
        "*99999999999999999999\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n$\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n$8193\r\n",
        "*1\r\n$1\r\nabc",
        "*1\r\n\r\n",
    };
    char many[400];
    char big[SENTINEL_REQUEST_MAX];
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        expect_refused(BAD[i], strlen(BAD[i]));
    }
    memset(many, 'a', sizeof many);
    for (size_t i = 0; i < SENTINEL_WORDS_MAX; i++) {
        many[2 * i + 1] = ' ';
    }
    strcpy(many + 2 * SENTINEL_WORDS_MAX, "a\r\n");
    expect_refused(many, strlen(many));
    /* Incomplete at the limit: it will never end. */
    memset(big, 'x', sizeof big);
    expect_refused(big, sizeof big);
    struct sentinel_request request;
    size_t taken;
    assert_int_equal(request_of(big, sizeof big - 1, &request, &taken), 0);
    assert_int_equal(taken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_form),
        cmocka_unit_test(test_only_the_first_is_taken),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
