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

struct fake {
    int64_t ns;   /* monotonic */
    int64_t ms;   /* wall */
    int64_t late; /* ns that pass between two looks */
};

static int64_t fake_ns(void *ctx)
{
    struct fake *f = ctx;
    return f->ns += f->late;
}

static int64_t fake_ms(void *ctx)
{
    return ((const struct fake *)ctx)->ms;
}

static void fake_pass(struct fake *f, int64_t ms)
{
    f->ns += ms * 1000000;
    f->ms += ms;
}

static void test_steps_are_found(void **state)
{
    struct fake f = {.ns = 5000000000, .ms = 1700000000000};
    const struct clock_source source = {fake_ns, fake_ms, &f};
    struct clock_watch w = {.known = false};
    assert_int_equal(clock_watch_step(&w, &source), 0);
    fake_pass(&f, 500);
    assert_int_equal(clock_watch_step(&w, &source), 0);
    f.ms += 90000;
    assert_int_equal(clock_watch_step(&w, &source), 90000);
    fake_pass(&f, 86400000);
    assert_int_equal(clock_watch_step(&w, &source), 0);
    f.ms -= 1000;
    assert_int_equal(clock_watch_step(&w, &source), -1000);
}

static void test_slewing_is_no_step(void **state)
{
    struct fake f = {.ns = 5000000000, .ms = 1700000000000};
    const struct clock_source source = {fake_ns, fake_ms, &f};
    struct clock_watch w = {.known = false};
    for (int i = 0; i < 100; i++) {
        assert_int_equal(clock_watch_step(&w, &source), 0);
        fake_pass(&f, 500);
        f.ms += 100;
    }
}

static void test_a_pause_between_the_clocks_is_no_step(void **state)
{
    struct fake f = {.ns = 5000000000, .ms = 1700000000000};
    const struct clock_source source = {fake_ns, fake_ms, &f};
    struct clock_watch w = {.known = false};
    assert_int_equal(clock_watch_step(&w, &source), 0);
    f.late = 3000000000;
    assert_int_equal(clock_watch_step(&w, &source), 0);
    f.late = 0;
    f.ms += 6000; /* the clocks agree again */
    assert_int_equal(clock_watch_step(&w, &source), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_milliseconds_become_nanoseconds),
        cmocka_unit_test(test_what_is_too_long_never_comes),
        cmocka_unit_test(test_steps_are_found),
        cmocka_unit_test(test_slewing_is_no_step),
        cmocka_unit_test(test_a_pause_between_the_clocks_is_no_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
