/* Refused clients are reported once per minute and reason, the others counted; nothing is lost or unbounded. */
#include "base/refusals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct told {
    unsigned calls;
    unsigned long long untold; /* in all */
    char host[64];             /* of the last call */
};

static void tell(void *ctx, const char *host, unsigned long long untold)
{
    struct told *t = ctx;
    t->calls++;
    t->untold += untold;
    snprintf(t->host, sizeof t->host, "%s", host);
}

static void test_first_of_each_reason(void **state)
{
    struct refusals r;
    struct told t = {0};
    refusals_init(&r);
    assert_true(refusals_deadline(&r) == INT64_MAX);
    assert_true(refusals_add(&r, "a", "expired", 1000, tell, &t));
    assert_false(refusals_add(&r, "a", "expired", 2000, tell, &t));
    assert_true(refusals_add(&r, "a", "unknown CA", 3000, tell, &t));
    assert_true(refusals_add(&r, "b", "expired", 4000, tell, &t));
    assert_false(refusals_add(&r, "a", "unknown CA", 5000, tell, &t));
    assert_int_equal(t.calls, 0);
    assert_int_equal(refusals_deadline(&r), 1000 + REFUSALS_MINUTE_MS);
    refusals_tick(&r, 999 + REFUSALS_MINUTE_MS, tell, &t);
    assert_int_equal(t.calls, 0);
    refusals_tick(&r, 1000 + REFUSALS_MINUTE_MS, tell, &t);
    assert_int_equal(t.calls, 1);
    assert_int_equal(t.untold, 2);
    assert_string_equal(t.host, "a");
    /* b had nothing untold: its minute ends without a word, and a new one begins with a line. */
    assert_true(refusals_add(&r, "b", "expired", 4000 + REFUSALS_MINUTE_MS, tell, &t));
    assert_int_equal(t.calls, 1);
    refusals_finish(&r, tell, &t);
    assert_int_equal(t.calls, 1);
}

static void test_many_reasons(void **state)
{
    struct refusals r;
    struct told t = {0};
    unsigned lines = 0;
    refusals_init(&r);
    for (int i = 0; i < 1000; i++) {
        char reason[32];
        snprintf(reason, sizeof reason, "subject CN=%d", i);
        lines += refusals_add(&r, "::1", reason, i, tell, &t);
    }
    assert_int_equal(lines, REFUSALS_REASONS);
    refusals_finish(&r, tell, &t);
    assert_int_equal(t.untold, 1000 - REFUSALS_REASONS);
}

static void test_many_addresses(void **state)
{
    struct refusals r;
    struct told t = {0};
    unsigned long long lines = 0;
    const int count = 5 * REFUSALS_ADDRESSES;
    refusals_init(&r);
    for (int i = 0; i < count; i++) {
        char host[32];
        snprintf(host, sizeof host, "10.0.%d.%d", i / 256, i % 256);
        lines += refusals_add(&r, host, "expired", 0, tell, &t);
        lines += refusals_add(&r, host, "expired", 0, tell, &t);
        assert_true(map_count(&r.by_host) <= REFUSALS_ADDRESSES);
    }
    assert_int_equal(lines, count);
    assert_int_equal(t.calls, count - REFUSALS_ADDRESSES);
    refusals_finish(&r, tell, &t);
    assert_int_equal(t.untold, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_of_each_reason),
        cmocka_unit_test(test_many_reasons),
        cmocka_unit_test(test_many_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
