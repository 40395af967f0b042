/* The text behind server.N=: what is read, the one form that equal lines share, what is refused and
 * with which of ZooKeeper's errors; which servers are in each other's way. */
#include "state/members/member_line.h"

#include "wire/java_number.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static int parse(const char *text, struct member_line *ret)
{
    const char *why = NULL;
    int rc = member_line_parse(slice_str(text), ret, &why);
    assert_non_null(why);
    return rc;
}

static void printed_is(const char *text, const char *expected)
{
    struct member_line l;
    struct buf out;
    buf_init(&out, 0);
    assert_int_equal(parse(text, &l), 0);
    member_line_print(&l, l.observer, &out);
    assert_string_equal(buf_cstr(&out), expected);
    buf_finish(&out);
}

static void forms(void **state)
{
    static const char *const cases[][2] = {
        {"h:2888:3888", "h:2888:3888:participant"},
        {"h:2888:3888:participant", "h:2888:3888:participant"},
        {"h:2888:3888:PARTICIPANT;", "h:2888:3888:participant"},
        {"h:2888:3888:Observer;2181", "h:2888:3888:observer;0.0.0.0:2181"},
        {"h:2888:3888: observer\t;2181;;", "h:2888:3888:observer;0.0.0.0:2181"},
        {"h:2888:3888::;2181:", "h:2888:3888:participant;0.0.0.0:2181"},
        {"h:+2888:03888;c.example:2181", "h:2888:3888:participant;c.example:2181"},
        {"127.0.0.1:1:65535;[::1]:1", "127.0.0.1:1:65535:participant;[::1]:1"},
        {"[fe80::1%eth0]:2888:3888:observer", "[fe80::1%eth0]:2888:3888:observer"},
        {"a:1:2|[::1]:3:4|c:5:6:observer;7", "a:1:2|[::1]:3:4|c:5:6:observer;0.0.0.0:7"},
        {"a:1:2:observer|b:3:4:observer||", "a:1:2|b:3:4:observer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        printed_is(cases[i][0], cases[i][1]);
        printed_is(cases[i][1], cases[i][1]);
    }
}

static void the_role_may_be_another(void **state)
{
    struct member_line l;
    struct buf out;
    buf_init(&out, 0);
    assert_int_equal(parse("h:1:2:observer;3", &l), 0);
    assert_true(l.observer && l.has_client);
    member_line_print(&l, false, &out);
    assert_string_equal(buf_cstr(&out), "h:1:2:participant;0.0.0.0:3");
    buf_finish(&out);
}

static void refusals(void **state)
{
    static const struct {
        const char *text;
        int rc;
    } cases[] = {
        {"", CONCLAVE_BAD_ARGUMENTS},
        {"h", CONCLAVE_BAD_ARGUMENTS},
        {"h:1", CONCLAVE_BAD_ARGUMENTS},
        {"h:1:2:observer:x", CONCLAVE_BAD_ARGUMENTS},
        {"::1:1:2", CONCLAVE_BAD_ARGUMENTS},
        {"[::1:1:2", CONCLAVE_BAD_ARGUMENTS},
        {"[::1]", CONCLAVE_BAD_ARGUMENTS},
        {"[::1]:", CONCLAVE_BAD_ARGUMENTS},
        {"[::1]1:2:3", CONCLAVE_BAD_ARGUMENTS},
        {"[]:1:2", CONCLAVE_BAD_ARGUMENTS},
        {"|h:1:2", CONCLAVE_BAD_ARGUMENTS},
        {"|", CONCLAVE_BAD_ARGUMENTS},
        {";", CONCLAVE_MARSHALLING_ERROR},
        {";2181", CONCLAVE_BAD_ARGUMENTS},
        {":1:2", CONCLAVE_BAD_ARGUMENTS},
        {"a b:1:2", CONCLAVE_BAD_ARGUMENTS},
        {"h\n:1:2", CONCLAVE_BAD_ARGUMENTS},
        {"h:0:2", CONCLAVE_BAD_ARGUMENTS},
        {"h:a:2", CONCLAVE_BAD_ARGUMENTS},
        {"h: 1:2", CONCLAVE_BAD_ARGUMENTS},
        {"h:1:65536", CONCLAVE_MARSHALLING_ERROR},
        {"h:-1:2", CONCLAVE_MARSHALLING_ERROR},
        {"h:2147483648:2", CONCLAVE_BAD_ARGUMENTS},
        {"h:7:7", CONCLAVE_BAD_ARGUMENTS},
        {"h:1:2:leader", CONCLAVE_BAD_ARGUMENTS},
        {"h:1:2: ", CONCLAVE_BAD_ARGUMENTS},
        {"h:1:2:observer|i:1:2:participant", CONCLAVE_BAD_ARGUMENTS},
        {"h:1:2;0", CONCLAVE_BAD_ARGUMENTS},
        {"h:1:2;x", CONCLAVE_BAD_ARGUMENTS},
        {"h:1:2; ", CONCLAVE_BAD_ARGUMENTS},
        {"h:1:2;70000", CONCLAVE_MARSHALLING_ERROR},
        {"h:1:2;:", CONCLAVE_MARSHALLING_ERROR},
        {"h:1:2;:2181", CONCLAVE_BAD_ARGUMENTS},
        {"h:1:2;a:b:1", CONCLAVE_BAD_ARGUMENTS},
        {"h:1:2;1;2", CONCLAVE_BAD_ARGUMENTS},
        {"a:1:2|a:1:2|a:1:2|a:1:2|a:1:2|a:1:2|a:1:2|a:1:2|a:1:2", CONCLAVE_BAD_ARGUMENTS},
    };
    struct member_line l;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int rc = parse(cases[i].text, &l);
        if (rc != cases[i].rc) {
            fail_msg("'%s': %d", cases[i].text, rc);
        }
    }
    char text[2 * MEMBER_LINE_MAX];
    snprintf(text, sizeof text, "%0*d:1:2", MEMBER_HOST_MAX, 0);
    assert_int_equal(parse(text, &l), CONCLAVE_BAD_ARGUMENTS);
    snprintf(text, sizeof text, "%0*d:1:2", MEMBER_HOST_MAX - 1, 0);
    assert_int_equal(parse(text, &l), 0);
    snprintf(text, sizeof text, "h:%0*d:2", MEMBER_LINE_MAX, 1);
    assert_int_equal(parse(text, &l), CONCLAVE_BAD_ARGUMENTS);
}

static bool clash(const char *a, const char *b)
{
    struct member_line x;
    struct member_line y;
    assert_int_equal(parse(a, &x), 0);
    assert_int_equal(parse(b, &y), 0);
    assert_int_equal(member_lines_clash(&x, &y), member_lines_clash(&y, &x));
    return member_lines_clash(&x, &y);
}

/* Any address of the one with any of the other, in ZooKeeper's words "conflicts". */
static void clashes(void **state)
{
    assert_false(clash("10.0.0.1:1:2;3", "10.0.0.2:1:2;3"));
    assert_false(clash("10.0.0.1:1:2;3", "10.0.0.1:4:5;3"));
    assert_true(clash("10.0.0.1:1:2;3", "10.0.0.1:1:5;6"));
    assert_true(clash("10.0.0.1:1:2;3", "10.0.0.1:2:5;6"));
    assert_true(clash("10.0.0.1:1:2;3", "10.0.0.1:4:2;6"));
    assert_true(clash("10.0.0.1:1:2;3", "10.0.0.2:4:5;10.0.0.1:1"));
    assert_true(clash("h:1:2;h:3", "i:1:2;h:3"));
    assert_true(clash("a:1:2|b:3:4", "c:1:2|b:4:5"));
    assert_false(clash("127.0.0.1:1:2;127.0.0.1:3", "127.0.0.1:1:2;127.0.0.1:3"));
    assert_false(clash("localhost:1:2", "LocalHost:1:2"));
    assert_false(clash("[::1]:1:2;0.0.0.0:3", "[::1]:1:2;0.0.0.0:3"));
}

static void garbage_is_survived(void **state)
{
    static const char alphabet[] = "a:1;2|[]. -obsrvepticn%";
    struct prng prng = {7};
    struct buf first;
    struct buf second;
    int good = 0;
    buf_init(&first, 0);
    buf_init(&second, 0);
    for (int i = 0; i < 200000; i++) {
        char text[] = "a:1:12|[::1]:3:21:observer;[a:b]:123";
        size_t len = sizeof text - 1 - prng_next(&prng) % (sizeof text - 1);
        for (unsigned n = prng_next(&prng) % 5; n > 0; n--) {
            text[prng_next(&prng) % len] = alphabet[prng_next(&prng) % (sizeof alphabet - 1)];
        }
        struct member_line l;
        const char *why = NULL;
        int rc = member_line_parse(slice_make(text, len), &l, &why);
        assert_true(rc == 0 || rc == CONCLAVE_BAD_ARGUMENTS || rc == CONCLAVE_MARSHALLING_ERROR);
        if (rc == 0) {
            good++;
            buf_reset(&first);
            buf_reset(&second);
            member_line_print(&l, l.observer, &first);
            assert_int_equal(member_line_parse(buf_slice(&first), &l, &why), 0);
            member_line_print(&l, l.observer, &second);
            assert_true(slice_equal(buf_slice(&first), buf_slice(&second)));
        }
    }
    assert_true(good > 100);
    buf_finish(&first);
    buf_finish(&second);
}

static void numbers(void **state)
{
    int64_t n = 5;
    static const char *const bad[] = {"",
                                      "-",
                                      "+",
                                      " 1",
                                      "1 ",
                                      "1x",
                                      "0x1",
                                      "--1",
                                      "9223372036854775808",
                                      "-9223372036854775809"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(java_number_parse(slice_str(bad[i]), &n));
    }
    assert_int_equal(n, 5);
    assert_true(java_number_parse(slice_str("-9223372036854775808"), &n) && n == INT64_MIN);
    assert_true(java_number_parse(slice_str("+9223372036854775807"), &n) && n == INT64_MAX);
    assert_true(java_number_parse(slice_str("0012"), &n) && n == 12);
    assert_true(slice_equal_str(text_trim(slice_str(" \t a b\x01\n")), "a b"));
    assert_int_equal(text_trim(slice_str("\r ")).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),
        cmocka_unit_test(the_role_may_be_another),
        cmocka_unit_test(refusals),
        cmocka_unit_test(clashes),
        cmocka_unit_test(garbage_is_survived),
        cmocka_unit_test(numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
