/* Which connection of an HTTP port gives its slot up. */
#include "admin/http/connection_slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { COUNT = SLOTS_MAX + 8 };

static struct list slots;
static struct slot at[COUNT];

static int setup(void **state)
{
    list_init(&slots);
    return 0;
}

/* `count` connections, each from an address of its own, a millisecond apart. */
static void take(size_t count, enum slot_state kind)
{
    for (size_t i = 0; i < count; i++) {
        char host[32];
        snprintf(host, sizeof host, "10.0.0.%zu", i);
        slot_take(&at[i], &slots, host, i);
        at[i].state = kind;
    }
}

static void test_full(void **state)
{
    take(SLOTS_MAX, SLOT_OPENING);
    assert_null(slots_surplus(&slots, SLOTS_MAX));
    slot_take(&at[SLOTS_MAX], &slots, "10.0.1.1", SLOTS_MAX);
    assert_ptr_equal(slots_surplus(&slots, SLOTS_MAX), &at[0]);
    assert_null(slots_surplus(&slots, SLOTS_MAX)); /* it counts no more */
}

/* Those that wait long for a request go first, then those that are idle, those that have just come, and those that read
 * an answer; those that take long stay. */
static void test_order(void **state)
{
    const uint64_t now_ms = SLOTS_GRACE_MS + 5;
    take(SLOTS_MAX + 1, SLOT_PATIENT);
    assert_null(slots_surplus(&slots, now_ms));
    at[1].state = SLOT_ANSWERING;
    at[2].state = at[3].state = SLOT_IDLE;
    at[4].state = at[9].state = SLOT_OPENING;
    slot_renew(&at[2], &slots, now_ms);
    static const size_t ORDER[] = {4, 3, 2, 9, 1};
    for (size_t i = 0; i < sizeof ORDER / sizeof ORDER[0]; i++) {
        assert_ptr_equal(slots_surplus(&slots, now_ms), &at[ORDER[i]]);
        assert_null(slots_surplus(&slots, now_ms));
        slot_take(&at[SLOTS_MAX + 1 + i], &slots, "10.0.2.1", now_ms);
        at[SLOTS_MAX + 1 + i].state = SLOT_PATIENT;
    }
    assert_null(slots_surplus(&slots, now_ms));
}

static void test_address(void **state)
{
    static const char *const HOSTS[] = {"2001:db8::1",      "2001:db8::2", "2001:db8::ffff:3",
                                        "2001:db8:0:0:4::", "2001:db8::5", "2001:db8:0:1::6"};
    for (size_t i = 0; i < sizeof HOSTS / sizeof HOSTS[0]; i++) {
        slot_take(&at[i], &slots, HOSTS[i], i);
    }
    assert_null(slots_surplus(&slots, SLOTS_GRACE_MS)); /* the fifth came less than that ago */
    assert_ptr_equal(slots_surplus(&slots, SLOTS_GRACE_MS + 5), &at[0]);
    assert_null(slots_surplus(&slots, SLOTS_GRACE_MS + 5)); /* the sixth has another network */
    slot_take(&at[6], &slots, HOSTS[0], 10);
    slot_renew(&at[6], &slots, 20);
    assert_null(slots_surplus(&slots, 1000)); /* one that has asked before is not counted */
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
