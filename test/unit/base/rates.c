/* Rates of many subjects: a burst, then a number per second, separately for each subject. */
#include "base/rates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { PER_SECOND = 10, BURST = 5 };

#define SECOND INT64_C(1000000000)

static unsigned taken(struct rates *r, const char *who, unsigned tries, int64_t now_ns)
{
    unsigned count = 0;
    for (unsigned i = 0; i < tries; i++) {
        count += rates_take(r, who, PER_SECOND, BURST, now_ns);
    }
    return count;
}

static void test_burst_and_rate(void **state)
{
    static struct rates r;
    int64_t now = 100 * SECOND;
    rates_init(&r, &hash_key_fixed);
    assert_true(rates_allow(&r, "10.0.0.1", PER_SECOND, BURST, now));
    assert_int_equal(taken(&r, "10.0.0.1", 100, now), BURST);
    assert_false(rates_allow(&r, "10.0.0.1", PER_SECOND, BURST, now));
    assert_int_equal(taken(&r, "10.0.0.1", 100, now + SECOND / PER_SECOND), 1);
    assert_int_equal(taken(&r, "10.0.0.1", 100, now + 60 * SECOND), BURST);
    /* In ten seconds, however often it is tried. */
    unsigned count = 0;
    for (int i = 0; i < 1000; i++) {
        count += taken(&r, "10.0.0.1", 3, now + 100 * SECOND + i * (SECOND / 100));
    }
    assert_in_range(count, 10 * PER_SECOND, 10 * PER_SECOND + BURST);
    rates_finish(&r);
}

/* One offender costs nobody else anything. */
static void test_others(void **state)
{
    static struct rates r;
    int64_t now = 100 * SECOND;
    rates_init(&r, &hash_key_fixed);
    (void)taken(&r, "10.0.0.1", 1000, now);
    for (int i = 0; i < 1000; i++) {
        char who[32];
        snprintf(who, sizeof who, "10.0.1.%d", i);
        assert_true(rates_allow(&r, who, PER_SECOND, BURST, now));
    }
    rates_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_burst_and_rate),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests_name("base/rates", tests, NULL, NULL);
}
