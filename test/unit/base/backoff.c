/* A pause doubles up to its limit, and its random part keeps it between half of that and all of it. */
#include "base/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

static void test_it_doubles_up_to_the_limit(void **state)
{
    assert_int_equal(backoff_longest(100, 1000, 0), 100);
    assert_int_equal(backoff_longest(100, 1000, 1), 200);
    assert_int_equal(backoff_longest(100, 1000, 3), 800);
    assert_int_equal(backoff_longest(100, 1000, 4), 1000);
    assert_int_equal(backoff_longest(100, 1000, 4000000000U), 1000);
    assert_int_equal(backoff_longest(100, 100, 7), 100);
}

static void test_numbers_do_not_overflow(void **state)
{
    assert_true(backoff_longest(1, INT64_MAX, 62) == INT64_C(1) << 62);
    assert_true(backoff_longest(1, INT64_MAX, 63) == INT64_MAX);
    assert_true(backoff_longest(INT64_MAX, INT64_MAX, 1) == INT64_MAX);
}

static void test_the_next_one(void **state)
{
    assert_int_equal(backoff_next(50, 1000), 100);
    assert_int_equal(backoff_next(500, 1000), 1000);
    assert_int_equal(backoff_next(501, 1000), 1000);
    assert_int_equal(backoff_next(2000, 1000), 1000);
    assert_true(backoff_next(INT64_MAX, INT64_MAX) == INT64_MAX);
}

static void test_nothing_stays_nothing(void **state)
{
    assert_int_equal(backoff_longest(0, 0, 9), 0);
    assert_int_equal(backoff_longest(0, 1000, 4000000000U), 0);
    assert_int_equal(backoff_pause(0, 1000, 3), 0);
}

static void test_the_random_part_is_half(void **state)
{
    bool low = false;
    bool high = false;
    for (int i = 0; i < 1000; i++) {
        int64_t pause = backoff_pause(100, 1000, 2);
        assert_in_range(pause, 200, 400);
        low = low || pause < 250;
        high = high || pause > 350;
    }
    assert_true(low && high); /* (3/4)^1000 that either is missing by chance */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_doubles_up_to_the_limit),
        cmocka_unit_test(test_numbers_do_not_overflow),
        cmocka_unit_test(test_the_next_one),
        cmocka_unit_test(test_nothing_stays_nothing),
        cmocka_unit_test(test_the_random_part_is_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
