/* Which connection of an HTTP port loses its place. */
#include "admin/http/connection_slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { COUNT = PLACES_MAX + 8 };

static struct list places;
static struct place at[COUNT];

static int setup(void **state)
{
    (void)state;
    list_init(&places);
    return 0;
}

/* `count` connections, each from an address of its own, a millisecond apart. */
static void take(size_t count, enum place_state kind)
{
    for (size_t i = 0; i < count; i++) {
        char host[32];
        snprintf(host, sizeof host, "10.0.0.%zu", i);
        place_take(&at[i], &places, host, i);
        at[i].state = kind;
    }
}

static void test_full(void **state)
{
    (void)state;
    take(PLACES_MAX, PLACE_OPENING);
    assert_null(places_surplus(&places, PLACES_MAX));
    place_take(&at[PLACES_MAX], &places, "10.0.1.1", PLACES_MAX);
    assert_ptr_equal(places_surplus(&places, PLACES_MAX), &at[0]);
    assert_true(at[0].leaving);
    assert_null(places_surplus(&places, PLACES_MAX)); /* it counts no more */
}

/* Those that work on a request stay; then those that are idle; those that take long always. */
static void test_order(void **state)
{
    (void)state;
    take(PLACES_MAX + 1, PLACE_PATIENT);
    assert_null(places_surplus(&places, 100));
    at[1].state = PLACE_ANSWERING;
    at[2].state = at[3].state = PLACE_IDLE;
    at[4].state = PLACE_OPENING;
    place_renew(&at[2], &places, 100);
    static const size_t ORDER[] = {4, 3, 2, 1};
    for (size_t i = 0; i < sizeof ORDER / sizeof ORDER[0]; i++) {
        assert_ptr_equal(places_surplus(&places, 100), &at[ORDER[i]]);
        assert_null(places_surplus(&places, 100));
        place_take(&at[PLACES_MAX + 1 + i], &places, "10.0.2.1", 100);
        at[PLACES_MAX + 1 + i].state = PLACE_PATIENT;
    }
    assert_null(places_surplus(&places, 100));
}

static void test_address(void **state)
{
    (void)state;
    static const char *const HOSTS[] = {"2001:db8::1",      "2001:db8::2", "2001:db8::ffff:3",
                                        "2001:db8:0:0:4::", "2001:db8::5", "2001:db8:0:1::6"};
    for (size_t i = 0; i < sizeof HOSTS / sizeof HOSTS[0]; i++) {
        place_take(&at[i], &places, HOSTS[i], i);
    }
    assert_null(places_surplus(&places, PLACES_GRACE_MS)); /* the fifth came less than that ago */
    assert_ptr_equal(places_surplus(&places, PLACES_GRACE_MS + 5), &at[0]);
    assert_null(places_surplus(&places, PLACES_GRACE_MS + 5)); /* the sixth has another network */
    place_take(&at[6], &places, HOSTS[0], 10);
    place_renew(&at[6], &places, 20);
    assert_null(places_surplus(&places, 1000)); /* one that has asked before is not counted */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_full, setup),
        cmocka_unit_test_setup(test_order, setup),
        cmocka_unit_test_setup(test_address, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
