/* Bindings that no server can have are refused before anything is sent. */
#include "support/candidate.h"

#include <conclave/fencing.h>

static void what_cannot_be_bound_is_refused(void **state)
{
    enum { DAY_MS = 86400000 };
    struct fake_zk *zk = *state;
    struct candidate c;
    candidate_connect(&c, zk, 0, "c");
    assert_int_equal(conclave_fence_bind(c.client, "/app/data", "/app/l", DAY_MS + 1, PATIENCE_MS),
                     CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(conclave_fence_bind(c.client, "/app/data", "/app/l", INT64_MAX, PATIENCE_MS),
                     CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(conclave_fence_bind(c.client, "/app/data", "", 0, PATIENCE_MS),
                     CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(conclave_fence_bind(c.client, "/app/data", "/app/l", -1, PATIENCE_MS),
                     CONCLAVE_EINVAL);
    assert_int_equal(fake_zk_count(zk, 0, FAKE_ANY_OP), 0);
    candidate_finish(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {E_TEST(what_cannot_be_bound_is_refused)};
    return RUN_TESTS(tests);
}
