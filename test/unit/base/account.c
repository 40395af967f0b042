/* A charge counts at every level above, separately for each use, and a credit takes all of it back. */
#include "base/account.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void test_levels(void **state)
{
    struct account total;
    struct account address;
    struct account one;
    struct account other;
    account_init(&total, NULL);
    account_init(&address, &total);
    account_init(&one, &address);
    account_init(&other, &address);
    account_charge(&one, ACCOUNT_WATCHES, 100);
    account_charge(&other, ACCOUNT_WATCHES, 20);
    account_charge(&other, ACCOUNT_WATCHES, 0);
    account_charge(&total, ACCOUNT_REQUESTS, 7);
    assert_int_equal(one.bytes[ACCOUNT_WATCHES], 100);
    assert_int_equal(one.charges[ACCOUNT_WATCHES], 1);
    assert_int_equal(address.bytes[ACCOUNT_WATCHES], 120);
    assert_int_equal(address.charges[ACCOUNT_WATCHES], 3);
    assert_int_equal(total.bytes[ACCOUNT_WATCHES], 120);
    assert_int_equal(total.bytes[ACCOUNT_REQUESTS], 7);
    assert_int_equal(address.bytes[ACCOUNT_REQUESTS], 0);
    account_credit(&other, ACCOUNT_WATCHES, 20);
    account_credit(&other, ACCOUNT_WATCHES, 0);
    account_credit(&one, ACCOUNT_WATCHES, 100);
    account_credit(&total, ACCOUNT_REQUESTS, 7);
    account_finish(&one);
    account_finish(&other);
    account_finish(&address);
    account_finish(&total);
}

static void test_hold(void **state)
{
    struct account total;
    struct account one;
    struct account other;
    account_init(&total, NULL);
    account_init(&one, &total);
    account_init(&other, &total);
    account_hold(&one, ACCOUNT_OUTPUT, 1000);
    account_hold(&other, ACCOUNT_OUTPUT, 50);
    account_hold(&other, ACCOUNT_INPUT, 5);
    account_hold(&one, ACCOUNT_OUTPUT, 10);
    account_hold(&one, ACCOUNT_OUTPUT, 10);
    assert_int_equal(total.bytes[ACCOUNT_OUTPUT], 60);
    assert_int_equal(account_buffers(&total), 65);
    assert_int_equal(account_buffers(&one), 10);
    assert_int_equal(account_state(&total), 0);
    account_hold(&one, ACCOUNT_OUTPUT, 0);
    account_hold(&other, ACCOUNT_OUTPUT, 0);
    account_hold(&other, ACCOUNT_INPUT, 0);
    account_finish(&total);
}

/* Without an account nothing is counted. */
static void test_nobody(void **state)
{
    account_charge(NULL, ACCOUNT_IDS, 5);
    account_credit(NULL, ACCOUNT_IDS, 5);
    account_hold(NULL, ACCOUNT_IDS, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_hold),
        cmocka_unit_test(test_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
