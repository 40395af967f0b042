/* Durations, numbers, signals, and the guess at a mistyped name. */
#include "cli/common/values.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } GOOD[] = {{"0", 0},       {"0s", 0},      {"1ms", 1},      {"500ms", 500},
                {"10s", 10000}, {"2m", 120000}, {"1h", 3600000}, {"2147483647ms", INT32_MAX}};
    static const char *const BAD[] = {"",     "10",           "s",
                                      "-1s",  "1.5s",         "1 s",
                                      "1sec", "1S",           " 1s",
                                      "1s ",  "2147483648ms", "600h",
                                      "ms",   "0x1s",         "99999999999999999999s",
                                      "1s1s"};
    for (size_t i = 0; i < sizeof GOOD / sizeof GOOD[0]; i++) {
        int64_t ms = -1;
        assert_true(duration_parse(GOOD[i].text, &ms));
        assert_int_equal(ms, GOOD[i].ms);
    }
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        int64_t ms = 77;
        assert_false(duration_parse(BAD[i], &ms));
        assert_int_equal(ms, 77);
    }
}

static void test_duration_text(void **state)
{
    static const int64_t VALUES[] = {0, 1, 999, 1000, 1500, 60000, 61000, 3600000, INT32_MAX};
    char buf[DURATION_TEXT_MAX];
    assert_string_equal(duration_text(1500, buf), "1500ms");
    assert_string_equal(duration_text(90000, buf), "90s");
    assert_string_equal(duration_text(7200000, buf), "2h");
    for (size_t i = 0; i < sizeof VALUES / sizeof VALUES[0]; i++) {
        int64_t back = -1;
        assert_true(duration_parse(duration_text(VALUES[i], buf), &back));
        assert_int_equal(back, VALUES[i]);
    }
}

static void test_integers(void **state)
{
    int64_t value = 77;
    assert_true(integer_parse("-1", -1, 5, &value));
    assert_int_equal(value, -1);
    assert_true(integer_parse("9223372036854775807", 0, INT64_MAX, &value));
    assert_true(value == INT64_MAX);
    value = 77;
    static const char *const BAD[] = {"", "-", "-2", "6", "1x", " 1", "+1", "9223372036854775808"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        assert_false(integer_parse(BAD[i], -1, 5, &value));
        assert_int_equal(value, 77);
    }
}

static void test_signals(void **state)
{
    int number = 0;
    char buf[24];
    assert_true(signal_parse("TERM", &number) && number == SIGTERM);
    assert_true(signal_parse("SIGUSR1", &number) && number == SIGUSR1);
    assert_true(signal_parse("9", &number) && number == 9);
    assert_false(signal_parse("0", &number));
    assert_false(signal_parse("999", &number));
    assert_false(signal_parse("term", &number));
    assert_false(signal_parse("", &number));
    assert_false(signal_parse("SIG", &number));
    assert_string_equal(signal_text(SIGKILL, buf), "SIGKILL");
    assert_string_equal(signal_text(63, buf), "signal 63");
}

static const char *next_name(size_t index, const void *ctx)
{
    const char *const *names = ctx;
    return names[index];
}

static void test_nearest(void **state)
{
    static const char *const NAMES[] = {"ls", "get", "set", "create", "recursive", NULL};
    assert_string_equal(nearest_name("craete", next_name, NAMES), "create");
    assert_string_equal(nearest_name("lss", next_name, NAMES), "ls");
    assert_string_equal(nearest_name("sett", next_name, NAMES), "set");
    assert_string_equal(nearest_name("recursiv", next_name, NAMES), "recursive");
    assert_null(nearest_name("zzzzzz", next_name, NAMES));
    assert_null(nearest_name("averyveryveryverylongwordthatisnoneofthem", next_name, NAMES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations), cmocka_unit_test(test_duration_text),
        cmocka_unit_test(test_integers),  cmocka_unit_test(test_signals),
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
