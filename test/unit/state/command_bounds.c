/* The cost limits of one command: refused before the log by a server's limits, and by apply's ceilings with
 * COMMAND_BOUNDED; a command of an older log is applied as it was. */
#include "state/command_bounds.h"

#include "base/hash.h"
#include "support/world.h"
#include "tree/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct command_bounds small = {
    .parts = 3,
    .path_bytes = 20,
    .path_depth = 3,
    .acl = {.entries = 4, .bytes = 100},
    .ids = 4,
};

static int check(struct world *w, int32_t type, struct slice body)
{
    return command_bounds_check(&small, type, body, maker_ids(&w->m));
}

static int32_t run_as(struct world *w, uint32_t options, int32_t type, struct slice body)
{
    struct batch_header header = {.time_ms = 1};
    struct command c = {.session_id = 1,
                        .cxid = 1,
                        .type = type,
                        .options = options,
                        .ids = maker_ids(&w->m),
                        .body = body};
    state_apply(w->s, &header, &c, &w->e);
    return w->e.err;
}

static void a_path_is_bounded(void **state)
{
    struct world *w = *state;
    assert_int_equal(check(w, WIRE_CREATE, make_create(&w->m, "/a/b/c", "", 0)), 0);
    assert_int_equal(check(w, WIRE_CREATE, make_create(&w->m, "/a/b/c/d", "", 0)),
                     CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(check(w, WIRE_CREATE2, make_create(&w->m, "/0123456789012345678", "", 0)), 0);
    assert_int_equal(check(w, WIRE_CREATE2, make_create(&w->m, "/01234567890123456789", "", 0)),
                     CONCLAVE_BAD_ARGUMENTS);
    /* A number of eleven characters may follow. */
    assert_int_equal(check(w, WIRE_CREATE, make_create(&w->m, "/01234567", "", 2)), 0);
    assert_int_equal(check(w, WIRE_CREATE, make_create(&w->m, "/012345678", "", 2)),
                     CONCLAVE_BAD_ARGUMENTS);
    /* An existing node may be changed and deleted. */
    assert_int_equal(check(w, WIRE_DELETE, make_delete(&w->m, "/a/b/c/d/e/f/g/h/i/j/k", -1)), 0);
    assert_int_equal(
        check(w, WIRE_SET_DATA, make_set_data(&w->m, "/a/b/c/d/e/f/g/h/i/j/k", "", -1)), 0);
}

static void the_parts_of_a_multi_are_bounded(void **state)
{
    struct world *w = *state;
    for (int parts = 3; parts <= 4; parts++) {
        make_multi_begin(&w->m);
        for (int i = 0; i < parts; i++) {
            make_multi_check(&w->m, "/", -1);
        }
        assert_int_equal(check(w, WIRE_MULTI, make_multi_end(&w->m)),
                         parts == 3 ? 0 : CONCLAVE_BAD_ARGUMENTS);
    }
    make_multi_begin(&w->m);
    make_multi_create(&w->m, WIRE_CREATE, "/a/b/c/d", "", 0);
    assert_int_equal(check(w, WIRE_MULTI, make_multi_end(&w->m)), CONCLAVE_BAD_ARGUMENTS);
}

static void an_acl_is_bounded_with_auth_replaced(void **state)
{
    struct world *w = *state;
    maker_ids_add(&w->m, "ip", "127.0.0.1"); /* not among the ids that replace auth */
    maker_ids_add(&w->m, "digest", "u:one");
    maker_ids_add(&w->m, "digest", "u:two");
    buf_reset(&w->m.acl);
    w->m.acl_count = 0;
    maker_acl_add(&w->m, 1, "auth", "");
    maker_acl_add(&w->m, 2, "auth", "");
    assert_int_equal(check(w, WIRE_CREATE, make_create(&w->m, "/a", "", 0)), 0);
    assert_int_equal(check(w, WIRE_SET_ACL, make_set_acl(&w->m, "/a", -1)), 0);
    maker_acl_add(&w->m, 4, "auth", ""); /* six entries */
    assert_int_equal(check(w, WIRE_CREATE, make_create(&w->m, "/a", "", 0)), CONCLAVE_INVALID_ACL);
    assert_int_equal(check(w, WIRE_SET_ACL, make_set_acl(&w->m, "/a", -1)), CONCLAVE_INVALID_ACL);
    buf_reset(&w->m.acl);
    w->m.acl_count = 0;
    char id[101];
    memset(id, 'x', 100);
    id[100] = '\0';
    maker_acl_add(&w->m, 1, "digest", id);
    assert_int_equal(check(w, WIRE_CREATE, make_create(&w->m, "/a", "", 0)), CONCLAVE_INVALID_ACL);
}

/* Few bytes of request make no more than 16 times as many of lists, beside what one list may have. */
static void the_lists_of_a_multi_are_bounded_together(void **state)
{
    struct world *w = *state;
    struct command_bounds wide = {
        .parts = 1000, .path_bytes = 100, .path_depth = 10, .acl = {100, 1000}, .ids = 32};
    char id[900];
    memset(id, 'i', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    maker_ids_add(&w->m, "digest", id);
    buf_reset(&w->m.acl);
    w->m.acl_count = 0;
    maker_acl_add(&w->m, 31, "auth", "");
    int refused_at = 0;
    for (int parts = 1; parts <= 20 && refused_at == 0; parts++) {
        make_multi_begin(&w->m);
        for (int i = 0; i < parts; i++) {
            make_multi_create(&w->m, WIRE_CREATE, "/a", "", 0);
        }
        struct slice body = make_multi_end(&w->m);
        if (command_bounds_check(&wide, WIRE_MULTI, body, maker_ids(&w->m)) != 0) {
            assert_true((size_t)parts * 900 > 1000 + 16 * body.len - 1000);
            refused_at = parts;
        }
    }
    assert_int_not_equal(refused_at, 0);
    assert_true(refused_at > 1);
}

static void apply_has_ceilings_of_its_own(void **state)
{
    struct world *w = *state;
    size_t len = BOUNDS_PATH_BYTES + 1;
    char *path = calloc(1, len + 1);
    assert_non_null(path);
    memset(path, 'p', len);
    path[0] = '/';
    assert_int_equal(run_as(w, COMMAND_BOUNDED, WIRE_CREATE, make_create(&w->m, path, "", 0)),
                     CONCLAVE_BAD_ARGUMENTS);
    /* An older log has such things; its replay gives the state that it gave. */
    assert_int_equal(run_as(w, 0, WIRE_CREATE, make_create(&w->m, path, "", 0)), 0);
    assert_int_equal(run_as(w, COMMAND_BOUNDED, WIRE_SET_DATA, make_set_data(&w->m, path, "x", -1)),
                     0);
    assert_int_equal(run_as(w, COMMAND_BOUNDED, WIRE_DELETE, make_delete(&w->m, path, -1)), 0);
    free(path);

    make_multi_begin(&w->m);
    for (int i = 0; i < BOUNDS_PARTS + 1; i++) {
        make_multi_check(&w->m, "/", -1);
    }
    struct slice body = make_multi_end(&w->m);
    assert_int_equal(run_as(w, 0, WIRE_MULTI, body), 0);
    assert_int_equal(run_as(w, COMMAND_BOUNDED, WIRE_MULTI, body), CONCLAVE_BAD_ARGUMENTS);

    buf_reset(&w->m.acl);
    w->m.acl_count = 0;
    for (int i = 0; i < BOUNDS_ACL_ENTRIES + 1; i++) {
        char id[32];
        snprintf(id, sizeof id, "u:%d", i);
        maker_acl_add(&w->m, 31, "digest", id);
    }
    body = make_create(&w->m, "/acl", "", 0);
    assert_int_equal(run_as(w, COMMAND_BOUNDED, WIRE_CREATE, body), CONCLAVE_INVALID_ACL);
    assert_int_equal(run_as(w, 0, WIRE_CREATE, body), 0);
}

/* A list is borrowed by the events, not copied into each. */
static void events_do_not_grow_with_lists(void **state)
{
    struct world *w = *state;
    buf_reset(&w->m.acl);
    w->m.acl_count = 0;
    maker_acl_add(&w->m, 31, "world", "anyone");
    for (int i = 0; i < 1000; i++) {
        char id[32];
        snprintf(id, sizeof id, "u:%d", i);
        maker_acl_add(&w->m, 1, "digest", id);
    }
    world_create(w, "/a", "", 0);
    maker_acl_add(&w->m, 2, "digest", "one:more");
    world_create(w, "/b", "", 0);
    maker_acl_add(&w->m, 4, "digest", "and:more");
    world_create(w, "/c", "", 0);
    maker_acl_reset(&w->m);
    make_multi_begin(&w->m);
    for (int i = 0; i < 30; i++) {
        make_multi_set_data(&w->m, i % 3 == 0 ? "/a" : i % 3 == 1 ? "/b" : "/c", "x", -1);
    }
    assert_int_equal(apply(w->s, &w->e, &w->m, 1, WIRE_MULTI, make_multi_end(&w->m)), 0);
    assert_int_equal(w->e.events_count, 30);
    assert_int_equal(w->e.paths.len, 60);
    assert_int_equal(w->e.events[29].acl.count, 1003);
    /* Of a node that is gone, too. */
    assert_int_equal(world_delete(w, "/c", -1), 0);
    assert_int_equal(w->e.events[0].acl.count, 1003);
    assert_true(state_event_permitted(w->s, &w->e.events[0], 1, WIRE_VECTOR_NULL));
}

static void limits_and_counts_of_quotas_are_short_and_of_a_subtree(void **state)
{
    static const char *const bad[] = {"/zookeeper/quota/zookeeper_stats",
                                      "/zookeeper/quota/zookeeper_limits"};
    struct world *w = *state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(run_as(w, COMMAND_BOUNDED, WIRE_CREATE, make_create(&w->m, bad[i], "", 0)),
                         CONCLAVE_BAD_ARGUMENTS);
        assert_int_equal(run_as(w, 0, WIRE_CREATE, make_create(&w->m, bad[i], "", 0)), 0);
    }
    char text[BOUNDS_QUOTA_TEXT + 2];
    memset(text, ',', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    world_create(w, "/zookeeper/quota/a", "", 0);
    assert_int_equal(run_as(w, COMMAND_BOUNDED, WIRE_CREATE,
                            make_create(&w->m, "/zookeeper/quota/a/zookeeper_limits", text, 0)),
                     CONCLAVE_BAD_ARGUMENTS);
    text[sizeof text - 2] = '\0';
    assert_int_equal(run_as(w, COMMAND_BOUNDED, WIRE_CREATE,
                            make_create(&w->m, "/zookeeper/quota/a/zookeeper_limits", text, 0)),
                     0);
}

/* The counts of a new quota come from figures that are kept, and are what a walk would find. */
static void a_quota_begins_with_what_is_there(void **state)
{
    struct world *w = *state;
    world_create(w, "/a", "12345", 0);
    world_create(w, "/a/b", "123", 0);
    world_create(w, "/a/b/c", "1", 0);
    world_create(w, "/a/d", "12", 0);
    world_set(w, "/a/b/c", "1234567", -1);
    make_multi_begin(&w->m); /* taken back */
    make_multi_create(&w->m, WIRE_CREATE, "/a/e", "xxxx", 0);
    make_multi_set_data(&w->m, "/a/d", "yyyyyyyy", -1);
    make_multi_delete(&w->m, "/a/b/c", -1);
    make_multi_check(&w->m, "/missing", -1);
    (void)apply(w->s, &w->e, &w->m, 1, WIRE_MULTI, make_multi_end(&w->m));
    world_delete(w, "/a/d", -1);
    world_create(w, "/zookeeper/quota/a", "", 0);
    world_create(w, "/zookeeper/quota/a/zookeeper_limits", "count=10", 0);
    world_create(w, "/zookeeper/quota/a/zookeeper_stats", "", 0);
    assert_int_equal(world_read(w, WIRE_GET_DATA, "/zookeeper/quota/a/zookeeper_stats"), 0);
    struct wire_reader r = wire_reader_make(buf_slice(&w->out));
    assert_true(slice_equal_str(wire_read_buffer(&r), "count=3,bytes=15"));
}

static void the_nodes_of_a_session_are_bounded_by_their_paths(void **state)
{
    struct world *w = *state;
    size_t len = BOUNDS_PATH_BYTES;
    char *path = calloc(1, len + 1);
    assert_non_null(path);
    memset(path, 'e', len);
    path[0] = '/';
    int32_t rc = 0;
    int made = 0;
    for (; rc == 0 && made < 2000; made++) {
        snprintf(path + len - 5, 6, "%05d", made);
        rc = run_as(w, COMMAND_BOUNDED, WIRE_CREATE,
                    make_create(&w->m, path, "", WIRE_MODE_EPHEMERAL));
    }
    assert_int_equal(rc, CONCLAVE_QUOTA_EXCEEDED);
    assert_int_equal(made, BOUNDS_EPHEMERAL_BYTES / BOUNDS_PATH_BYTES + 1);
    /* Room again with one less. */
    snprintf(path + len - 5, 6, "%05d", 7);
    assert_int_equal(world_delete(w, path, -1), 0);
    assert_int_equal(
        run_as(w, COMMAND_BOUNDED, WIRE_CREATE, make_create(&w->m, path, "", WIRE_MODE_EPHEMERAL)),
        0);
    assert_int_equal(world_close(w, 1), 0);
    free(path);
}

static struct wire_reconfig_request joining(const char *text)
{
    return (struct wire_reconfig_request){.joining_servers = slice_str(text), .cur_config_id = -1};
}

static void a_reconfig_names_no_more_servers_than_there_can_be(void **state)
{
    char text[2 * BOUNDS_MEMBERS + 8];
    size_t len = 0;
    for (int i = 0; i < BOUNDS_MEMBERS; i++) {
        text[len++] = 'x';
        text[len++] = ',';
    }
    text[len] = '\0';
    struct wire_reconfig_request r = joining(text);
    assert_true(command_bounds_reconfig(&r));
    text[len] = 'y';
    text[len + 1] = '\0';
    r = joining(text);
    assert_false(command_bounds_reconfig(&r));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_path_is_bounded),
        TEST(the_parts_of_a_multi_are_bounded),
        TEST(an_acl_is_bounded_with_auth_replaced),
        TEST(the_lists_of_a_multi_are_bounded_together),
        TEST(apply_has_ceilings_of_its_own),
        TEST(events_do_not_grow_with_lists),
        TEST(limits_and_counts_of_quotas_are_short_and_of_a_subtree),
        TEST(a_quota_begins_with_what_is_there),
        TEST(the_nodes_of_a_session_are_bounded_by_their_paths),
        TEST(a_reconfig_names_no_more_servers_than_there_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
