/* A time that a program gives may be longer than any clock runs. */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

static void test_milliseconds_become_nanoseconds(void **state)
{
    assert_true(clock_add_ms(0, 0) == 0);
    assert_true(clock_add_ms(5, 0) == 5);
    assert_true(clock_add_ms(5, 3) == 3000005);
}

static void test_what_is_too_long_never_comes(void **state)
{
    const int64_t most = INT64_MAX / 1000000;
    assert_true(clock_add_ms(0, most) == most * 1000000);
    assert_true(clock_add_ms(0, most + 1) == INT64_MAX);
    assert_true(clock_add_ms(1000000, most) == INT64_MAX);
    assert_true(clock_add_ms(INT64_MAX - 999999, 1) == INT64_MAX);
    assert_true(clock_add_ms(INT64_MAX, 0) == INT64_MAX);
    assert_true(clock_add_ms(7, INT64_MAX) == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_milliseconds_become_nanoseconds),
        cmocka_unit_test(test_what_is_too_long_never_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
