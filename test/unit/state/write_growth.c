/* By how much a write would grow the state: what a server compares with its limit before it takes the write in. */
#include "state/memory_estimate.h"

#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Bytes of a node beside its name and data, and of the block of a parent's first child. */
enum { NODE_MOST = 300, BIG = 10000 };

static char big[BIG + 1];

static int64_t growth(const struct world *w, int32_t type, struct slice body)
{
    return state_growth(w->s, type, body);
}

/* The forecast equals the write's growth, except for a node's memory besides its data. */
static void expect_growth(struct world *w, int32_t type, struct slice body, int64_t about)
{
    int64_t said = growth(w, type, body);
    int64_t before = (int64_t)state_memory(w->s);
    assert_int_equal(apply(w->s, &w->e, &w->m, 1, type, body), 0);
    int64_t grown = (int64_t)state_memory(w->s) - before;
    assert_in_range(said - about + NODE_MOST, 0, 2 * NODE_MOST);
    assert_in_range(grown - said + NODE_MOST, 0, 2 * NODE_MOST);
}

static void each_write_is_measured(void **state)
{
    struct world *w = *state;
    expect_growth(w, WIRE_CREATE, make_create(&w->m, "/a", big, 0), BIG);
    expect_growth(w, WIRE_CREATE2, make_create(&w->m, "/a/b", "", 0), 0);
    expect_growth(w, WIRE_CREATE_CONTAINER, make_create(&w->m, "/box", big, 4), BIG);
    expect_growth(w, WIRE_SET_DATA, make_set_data(&w->m, "/a", "small", -1), -BIG);
    expect_growth(w, WIRE_SET_DATA, make_set_data(&w->m, "/a/b", big, -1), BIG);
    expect_growth(w, WIRE_DELETE, make_delete(&w->m, "/a/b", -1), -BIG);
}

/* A list that another node has is shared; one that is new counts. */
static void a_list_counts_once(void **state)
{
    struct world *w = *state;
    world_create(w, "/a", "", 0);
    world_create(w, "/b", "", 0);
    maker_acl_reset(&w->m);
    char id[2000];
    memset(id, 'i', sizeof id - 1);
    id[1] = ':';
    id[sizeof id - 1] = '\0';
    maker_acl_add(&w->m, WIRE_PERM_ALL, "digest", id);
    maker_acl_add(&w->m, WIRE_PERM_ALL, "world", "anyone");
    assert_true(growth(w, WIRE_CREATE, make_create(&w->m, "/c", "", 0)) > 2000);
    expect_growth(w, WIRE_SET_ACL, make_set_acl(&w->m, "/a", -1), 2000);
    expect_growth(w, WIRE_SET_ACL, make_set_acl(&w->m, "/b", -1), 0);
    assert_true(growth(w, WIRE_CREATE, make_create(&w->m, "/c", "", 0)) < NODE_MOST);
}

/* Apply refuses these: they take nothing. */
static void what_fails_does_not_grow(void **state)
{
    struct world *w = *state;
    assert_int_equal(growth(w, WIRE_SET_DATA, make_set_data(&w->m, "/none", big, -1)), 0);
    assert_int_equal(growth(w, WIRE_DELETE, make_delete(&w->m, "/none", -1)), 0);
    assert_int_equal(growth(w, WIRE_SET_ACL, make_set_acl(&w->m, "/none", -1)), 0);
    assert_int_equal(growth(w, WIRE_CREATE, slice_str("no request")), 0);
    struct slice cut = make_create(&w->m, "/a", big, 0);
    cut.len--;
    assert_int_equal(growth(w, WIRE_CREATE, cut), 0);
    assert_int_equal(growth(w, WIRE_CHECK, make_delete(&w->m, "/", -1)), 0);
}

/* What a multi deletes before it creates is room for what it creates; what it deletes afterwards may be its own. */
static void a_multi_grows_by_its_parts(void **state)
{
    struct world *w = *state;
    world_create(w, "/old", big, 0);
    make_multi_begin(&w->m);
    make_multi_delete(&w->m, "/old", -1);
    make_multi_create(&w->m, WIRE_CREATE, "/new", big, 0);
    int64_t moved = growth(w, WIRE_MULTI, make_multi_end(&w->m));
    assert_in_range(moved + NODE_MOST, 0, 2 * NODE_MOST);

    make_multi_begin(&w->m);
    make_multi_create(&w->m, WIRE_CREATE, "/new", big, 0);
    make_multi_delete(&w->m, "/old", -1);
    make_multi_check(&w->m, "/", -1);
    assert_true(growth(w, WIRE_MULTI, make_multi_end(&w->m)) > BIG);

    make_multi_begin(&w->m);
    make_multi_set_data(&w->m, "/old", "", -1); /* a write that shrinks is no room */
    make_multi_create(&w->m, WIRE_CREATE, "/new", big, 0);
    struct slice body = make_multi_end(&w->m);
    assert_true(growth(w, WIRE_MULTI, body) > BIG);
    body.len -= 3;
    assert_int_equal(growth(w, WIRE_MULTI, body), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    memset(big, 'x', BIG);
    const struct CMUnitTest tests[] = {
        T(each_write_is_measured),
        T(a_list_counts_once),
        T(what_fails_does_not_grow),
        T(a_multi_grows_by_its_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
