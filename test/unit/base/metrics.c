/* Counters and summaries: exact where exact is promised, quantiles within a sixteenth. */
#include "base/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct summary s;

static int setup(void **state)
{
    s = (struct summary){0};
    return 0;
}

static void empty_is_zero(void **state)
{
    assert_int_equal(summary_quantile(&s, 0.99), 0);
    assert_true(summary_average(&s) == 0);
    assert_int_equal(s.min, 0);
}

static void small_values_are_exact(void **state)
{
    for (uint64_t v = 1; v <= 10; v++) {
        summary_add(&s, v);
    }
    assert_int_equal(s.count, 10);
    assert_int_equal(s.sum, 55);
    assert_int_equal(s.min, 1);
    assert_int_equal(s.max, 10);
    assert_true(summary_average(&s) == 5.5);
    assert_int_equal(summary_quantile(&s, 0), 1);
    assert_int_equal(summary_quantile(&s, 0.5), 5);
    assert_int_equal(summary_quantile(&s, 0.9), 9);
    assert_int_equal(summary_quantile(&s, 1), 10);
}

static void quantiles_within_a_sixteenth(void **state)
{
    static const double SHARE[] = {0.5, 0.95, 0.99, 0.999};
    enum { COUNT = 200000 };
    for (uint64_t v = 1; v <= COUNT; v++) {
        summary_add(&s, v * 7);
    }
    for (size_t i = 0; i < sizeof SHARE / sizeof SHARE[0]; i++) {
        double wanted = SHARE[i] * COUNT * 7;
        double got = (double)summary_quantile(&s, SHARE[i]);
        assert_true(got > wanted * 15 / 16 && got < wanted * 17 / 16);
    }
}

static void every_value_has_a_bucket(void **state)
{
    for (unsigned power = 0; power < 64; power++) {
        s = (struct summary){0};
        uint64_t v = (uint64_t)1 << power;
        summary_add(&s, v - 1);
        summary_add(&s, v);
        summary_add(&s, v + 1);
        assert_int_equal(s.count, 3);
        assert_int_equal(s.max, v + 1);
        assert_true(summary_quantile(&s, 1) <= s.max);
        assert_true(summary_quantile(&s, 0.3) >= s.min);
    }
    summary_add(&s, UINT64_MAX);
    assert_int_equal(s.max, UINT64_MAX);
}

static void many_at_once(void **state)
{
    summary_add_many(&s, 4, 98);
    summary_add_many(&s, 1000, 2);
    assert_int_equal(s.count, 100);
    assert_int_equal(s.sum, 98 * 4 + 2000);
    assert_int_equal(summary_quantile(&s, 0.98), 4);
    assert_true(summary_quantile(&s, 0.99) > 900);
}

struct holder {
    uint64_t first;
    struct summary second;
    uint64_t outside;
};

static double read_nothing(const void *ctx)
{
    return 0;
}

static void rows_find_what_they_name(void **state)
{
    static struct holder h;
    static const struct metric_row ROWS[] = {
        {.name = "first", .kind = METRIC_COUNTER, .offset = offsetof(struct holder, first)},
        {.name = "second", .kind = METRIC_SUMMARY, .offset = offsetof(struct holder, second)},
        {.name = "third", .kind = METRIC_GAUGE, .read = read_nothing},
    };
    h.first = 3;
    summary_add(&h.second, 9);
    assert_int_equal(*metric_counter(&ROWS[0], &h), 3);
    assert_int_equal(metric_summary(&ROWS[1], &h)->sum, 9);
    assert_true(ROWS[2].read(&h) == 0);
}

/* Bounds belong to their bucket; nothing is lost above the last one. */
static void histogram_buckets_have_exact_ends(void **ctx)
{
    static struct histogram h;
    const uint64_t values[] = {0, 1, 32, 33, 64, 65, 16777216, 16777217, UINT64_MAX / 4};
    const size_t buckets[] = {0, 0, 0, 1, 1, 2, 19, 20, 20};
    (void)ctx;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        uint64_t before = h.buckets[buckets[i]];
        histogram_add_many(&h, values[i], 2);
        assert_int_equal(h.buckets[buckets[i]], before + 2);
        assert_true(values[i] <= histogram_end(buckets[i]));
        assert_true(buckets[i] == 0 || values[i] > histogram_end(buckets[i] - 1));
    }
    assert_int_equal(h.count, 18);
    assert_true(histogram_end(HISTOGRAM_BUCKETS - 1) == UINT64_MAX);
    assert_int_equal(histogram_end(HISTOGRAM_BUCKETS - 2), 16777216);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(empty_is_zero, setup),
        cmocka_unit_test_setup(small_values_are_exact, setup),
        cmocka_unit_test_setup(quantiles_within_a_sixteenth, setup),
        cmocka_unit_test_setup(every_value_has_a_bucket, setup),
        cmocka_unit_test_setup(many_at_once, setup),
        cmocka_unit_test(rows_find_what_they_name),
        cmocka_unit_test(histogram_buckets_have_exact_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
