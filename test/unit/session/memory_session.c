/* The tracker without memory: a refused session leaves nothing behind, and present ones live on. */
#include "session/session.h"

#include "support/starve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { TICK = 2000, ALLOCATIONS_MOST = 8 };

static void test_create(void **state)
{
    struct starve *memory = starve_create();
    assert_non_null(memory);
    starve_enter(memory);
    starve_arm(memory, 0);
    struct session_tracker *t = session_tracker_create(TICK);
    starve_leave();
    assert_null(t);
    assert_int_equal(starve_live(memory), 0);
    starve_destroy(memory);
}

/* Every allocation of the first session fails once. */
static void test_add(void **state)
{
    struct starve *memory = starve_create();
    assert_non_null(memory);
    starve_enter(memory);
    struct session_tracker *t = session_tracker_create(TICK);
    assert_non_null(t);
    int rc = CONCLAVE_ENOMEM;
    int refused = 0;
    for (; rc == CONCLAVE_ENOMEM && refused < ALLOCATIONS_MOST; refused++) {
        starve_arm(memory, refused);
        rc = session_tracker_add(t, 1, 4000, 0);
        starve_arm(memory, -1);
        assert_int_equal(session_tracker_count(t), rc == 0 ? 1 : 0);
        assert_int_equal(session_tracker_touch(t, 1, 0), rc == 0);
        assert_int_equal(session_tracker_deadline(t), rc == 0 ? 6000 : INT64_MAX);
    }
    assert_int_equal(rc, 0);
    assert_true(refused > 2); /* the session and the table */
    starve_arm(memory, 0);
    assert_int_equal(session_tracker_add(t, 2, 4000, 0), CONCLAVE_ENOMEM);
    assert_int_equal(session_tracker_add(t, 1, 6000, 0), 0); /* known: no memory is needed */
    assert_int_equal(session_tracker_deadline(t), 8000);
    session_tracker_destroy(t);
    starve_leave();
    assert_int_equal(starve_live(memory), 0);
    starve_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_add),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
