/* The ACLs of a new tree, and what closing them leaves to everybody. */
#include "state/initial_acls.h"

#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int32_t close_acls(struct world *w)
{
    return apply(w->s, &w->e, &w->m, 0, COMMAND_CLOSE_ACLS, slice_make("", 0));
}

static void the_acls_of_a_new_tree_are_closed(void **state)
{
    struct world *w = *state;
    assert_true(state_acls_are_open(w->s));
    assert_int_equal(close_acls(w), 0);
    assert_false(state_acls_are_open(w->s));
    assert_true(state_digest_now(w->s) == state_digest(w->s));
    assert_int_equal(world_create(w, "/a", "", 0), 0); /* as ever */
    assert_int_equal(world_set_acl(w, "/", -1), CONCLAVE_NO_AUTH);
    assert_int_equal(world_create(w, "/zookeeper/quota/a", "", 0), CONCLAVE_NO_AUTH);
    assert_int_equal(world_create(w, "/zookeeper/a", "", 0), CONCLAVE_NO_AUTH);
    assert_int_equal(world_read(w, WIRE_GET_DATA, "/zookeeper/quota"), 0);
    int64_t zxid = state_zxid(w->s);
    assert_int_equal(close_acls(w), 0); /* again: nothing is left to close */
    assert_int_equal(state_zxid(w->s), zxid + 1);
    assert_int_equal(w->e.events_count, 0);
}

/* An ACL set before stays. */
static void an_acl_that_was_set_stays(void **state)
{
    struct world *w = *state;
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_ALL, "world", "anyone");
    assert_int_equal(world_set_acl(w, "/zookeeper/quota", -1), 0);
    assert_int_equal(close_acls(w), 0);
    assert_false(state_acls_are_open(w->s));
    assert_int_equal(world_create(w, "/zookeeper/quota/a", "", 0), 0);
    assert_int_equal(world_set_acl(w, "/", -1), CONCLAVE_NO_AUTH);
}

#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_acls_of_a_new_tree_are_closed),
        T(an_acl_that_was_set_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
