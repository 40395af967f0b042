/* A member keeps its id, role and address on its way from the log to the state and back. */
#include "cluster/member_roles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void roles_are_the_same_in_both_directions(void **state)
{
    static const enum configuration_role LOG[] = {MEMBER_VOTER, MEMBER_OBSERVER, MEMBER_SPARE};
    static const enum state_role STATE[] = {STATE_VOTER, STATE_OBSERVER, STATE_SPARE};
    for (size_t i = 0; i < 3; i++) {
        const struct configuration_member member = {256, LOG[i], "a:1:2"};
        struct state_member kept = member_of_log(&member);
        assert_int_equal(kept.id, 256);
        assert_int_equal(kept.role, STATE[i]);
        assert_string_equal(kept.address, "a:1:2");
        struct configuration_member back = member_of_state(&kept);
        assert_int_equal(back.id, 256);
        assert_int_equal(back.role, LOG[i]);
        assert_string_equal(back.address, "a:1:2");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roles_are_the_same_in_both_directions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
