/* The ring of slow requests, also while its limits change. */
#include "front/limits/slow_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void add(struct slow_log *l, int from, int to)
{
    for (int i = from; i <= to; i++) {
        struct slow_request *r = slow_log_add(l);
        assert_true((r != NULL) == (l->max > 0));
        if (r != NULL) {
            r->xid = i;
        }
    }
}

/* The log has the rows newest, newest - 1, ..., oldest. */
static void check(const struct slow_log *l, int newest, int oldest)
{
    size_t i = 0;
    for (int xid = newest; xid >= oldest; xid--) {
        const struct slow_request *r = slow_log_row(l, i++);
        assert_non_null(r);
        assert_int_equal(r->xid, xid);
    }
    assert_null(slow_log_row(l, i));
}

static void test_limits_change(void **state)
{
    struct slow_log l;
    assert_int_equal(slow_log_init(&l, 10, 4), 0);
    assert_null(slow_log_row(&l, 0));
    add(&l, 1, 2);
    check(&l, 2, 1);
    add(&l, 3, 7);
    check(&l, 7, 4);
    assert_int_equal(slow_log_set(&l, 20, 6), 0); /* more room */
    check(&l, 7, 4);
    assert_false(slow_log_wants(&l, 19999999));
    assert_true(slow_log_wants(&l, 20000000));
    add(&l, 8, 10);
    check(&l, 10, 5);
    assert_int_equal(slow_log_set(&l, 20, 2), 0); /* less */
    check(&l, 10, 9);
    add(&l, 11, 11);
    check(&l, 11, 10);
    assert_int_equal(slow_log_set(&l, 0, 2), 0); /* off */
    assert_null(slow_log_row(&l, 0));
    assert_false(slow_log_wants(&l, INT64_MAX));
    add(&l, 12, 12);
    assert_int_equal(slow_log_set(&l, 1, 3), 0);
    assert_null(slow_log_row(&l, 0));
    add(&l, 13, 14);
    check(&l, 14, 13);
    assert_int_equal(l.count, 14);
    slow_log_finish(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits_change)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
