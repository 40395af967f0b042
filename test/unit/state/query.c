/* Reads: replies, errors, the watches they ask for, and what a watch missed while away. */
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void expect_watch(const struct world *w, int kind, const char *path)
{
    assert_int_equal(w->watch.kind, kind);
    if (kind != STATE_WATCH_NONE) {
        assert_true(slice_equal_str(w->watch.path, path));
    }
}

static void exists(void **state)
{
    struct world *w = *state;
    assert_int_equal(world_read(w, WIRE_EXISTS, "/none"), CONCLAVE_NO_NODE);
    expect_watch(w, STATE_WATCH_DATA, "/none");
    assert_int_equal(w->out.len, 0);
    assert_int_equal(world_read(w, WIRE_EXISTS, ""), 0); /* the root, as in ZooKeeper */
    assert_int_equal(world_read(w, WIRE_EXISTS, "foo"), CONCLAVE_NO_NODE);
    assert_int_equal(world_read(w, WIRE_EXISTS, NULL), CONCLAVE_MARSHALLING_ERROR);
    expect_watch(w, STATE_WATCH_NONE, "");
    static const uint8_t with_nul[] = "\0\0\0\3/\0a\1";
    struct slice body = slice_make(with_nul, sizeof with_nul - 1);
    buf_reset(&w->out);
    assert_int_equal(state_query(w->s, WIRE_EXISTS, WIRE_VECTOR_NULL, body, &w->out, &w->watch),
                     CONCLAVE_BAD_ARGUMENTS);
    expect_watch(w, STATE_WATCH_NONE, "");
    assert_int_equal(state_query(w->s, WIRE_GET_DATA, WIRE_VECTOR_NULL, body, &w->out, &w->watch),
                     CONCLAVE_NO_NODE);
    body.len--;
    assert_int_equal(state_query(w->s, WIRE_EXISTS, WIRE_VECTOR_NULL, body, &w->out, &w->watch),
                     CONCLAVE_MARSHALLING_ERROR);
    assert_int_equal(state_query(w->s, WIRE_GET_DATA, WIRE_VECTOR_NULL, body, &w->out, &w->watch),
                     CONCLAVE_MARSHALLING_ERROR);
}

static void get_data(void **state)
{
    struct world *w = *state;
    struct wire_get_data_response response;
    world_create(w, "/a", "hello", 0);
    world_create(w, "/null", NULL, 0);
    world_create(w, "/empty", "", 0);
    assert_int_equal(world_read(w, WIRE_GET_DATA, "/a"), 0);
    expect_watch(w, STATE_WATCH_DATA, "/a");
    struct wire_reader r = wire_reader_make(buf_slice(&w->out));
    assert_int_equal(wire_decode_get_data_response(&r, &response), 0);
    assert_true(slice_equal_str(response.data, "hello"));
    assert_int_equal(response.stat.data_length, 5);
    assert_int_equal(wire_left(&r), 0);
    world_read(w, WIRE_GET_DATA, "/null");
    r = wire_reader_make(buf_slice(&w->out));
    assert_int_equal(wire_decode_get_data_response(&r, &response), 0);
    assert_true(slice_is_null(response.data));
    world_read(w, WIRE_GET_DATA, "/empty");
    r = wire_reader_make(buf_slice(&w->out));
    assert_int_equal(wire_decode_get_data_response(&r, &response), 0);
    assert_false(slice_is_null(response.data));
    assert_int_equal(world_read(w, WIRE_GET_DATA, "/none"), CONCLAVE_NO_NODE);
    expect_watch(w, STATE_WATCH_NONE, "");
}

static void appends_behind_what_is_there(void **state)
{
    struct world *w = *state;
    struct state_watch watch;
    world_create(w, "/a", "x", 0);
    buf_append_str(&w->out, "header");
    struct slice body = make_read(&w->m, "/a", false);
    assert_int_equal(state_query(w->s, WIRE_GET_DATA, WIRE_VECTOR_NULL, body, &w->out, &watch), 0);
    assert_int_equal(w->out.len, 6 + 4 + 1 + 68);
    assert_int_equal(watch.kind, STATE_WATCH_NONE);
    assert_memory_equal(w->out.data, "header", 6);

    struct buf small;
    buf_init(&small, 30);
    buf_append_str(&small, "header");
    assert_int_equal(state_query(w->s, WIRE_GET_DATA, WIRE_VECTOR_NULL, body, &small, &watch),
                     CONCLAVE_SYSTEM_ERROR);
    assert_int_equal(small.len, 6);
    buf_finish(&small);
}

static void get_children(void **state)
{
    struct world *w = *state;
    struct wire_get_children2_response response;
    struct slice name;
    world_create(w, "/a", "", 0);
    assert_int_equal(world_read(w, WIRE_GET_CHILDREN, "/a"), 0);
    assert_int_equal(w->out.len, 4);
    expect_watch(w, STATE_WATCH_CHILD, "/a");
    world_create(w, "/a/one", "", 0);
    world_create(w, "/a/two", "", 0);
    assert_int_equal(world_read(w, WIRE_GET_CHILDREN2, "/a"), 0);
    expect_watch(w, STATE_WATCH_CHILD, "/a");
    struct wire_reader r = wire_reader_make(buf_slice(&w->out));
    assert_int_equal(wire_decode_get_children2_response(&r, &response), 0);
    assert_int_equal(response.children.count, 2);
    assert_true(wire_next_string(&response.children, &name));
    assert_true(slice_equal_str(name, "one"));
    assert_true(wire_next_string(&response.children, &name));
    assert_true(slice_equal_str(name, "two"));
    assert_int_equal(response.stat.num_children, 2);
    assert_int_equal(world_read(w, WIRE_GET_CHILDREN, "/none"), CONCLAVE_NO_NODE);
    expect_watch(w, STATE_WATCH_NONE, "");
}

static void expect_acl(struct world *w, int32_t perms, const char *id)
{
    struct wire_get_acl_response response;
    struct wire_acl acl;
    assert_int_equal(world_read(w, WIRE_GET_ACL, "/a"), 0);
    expect_watch(w, STATE_WATCH_NONE, "");
    struct wire_reader r = wire_reader_make(buf_slice(&w->out));
    assert_int_equal(wire_decode_get_acl_response(&r, &response), 0);
    assert_true(wire_next_acl(&response.acl, &acl));
    assert_int_equal(acl.perms, perms);
    assert_true(slice_equal_str(acl.id.id, id));
}

static void get_acl(void **state)
{
    struct world *w = *state;
    world_create(w, "/a", "", 0);
    expect_acl(w, 31, "anyone");
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, 31, "digest", "u:p");
    maker_acl_add(&w->m, WIRE_PERM_READ, "world", "anyone");
    assert_int_equal(world_set_acl(w, "/a", -1), 0);
    expect_acl(w, 31, "u:x");
    maker_ids_add(&w->m, "digest", "u:p");
    expect_acl(w, 31, "u:p");
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_ADMIN, "digest", "u:p");
    assert_int_equal(world_set_acl(w, "/a", -1), 0);
    expect_acl(w, WIRE_PERM_ADMIN, "u:p");
    assert_int_equal(world_read(w, WIRE_GET_DATA, "/a"), CONCLAVE_NO_AUTH);
    assert_int_equal(world_read(w, WIRE_EXISTS, "/a"), CONCLAVE_NO_AUTH);
    expect_watch(w, STATE_WATCH_NONE, "");
    maker_ids_reset(&w->m);
    assert_int_equal(world_read(w, WIRE_GET_ACL, "/a"), CONCLAVE_NO_AUTH);
}

static void sync_and_others(void **state)
{
    struct world *w = *state;
    assert_int_equal(world_read(w, WIRE_SYNC, "no path at all"), 0);
    struct wire_reader r = wire_reader_make(buf_slice(&w->out));
    assert_true(slice_equal_str(wire_read_string(&r), "no path at all"));
    assert_int_equal(world_read(w, WIRE_PING, "/"), CONCLAVE_UNIMPLEMENTED);
    assert_int_equal(world_read(w, WIRE_CREATE, "/"), CONCLAVE_UNIMPLEMENTED);
}

static int rewatch(struct world *w, enum state_rewatch kind, const char *path, int64_t zxid)
{
    return state_rewatch(w->s, kind, WIRE_VECTOR_NULL, slice_str(path), zxid);
}

static void rewatching(void **state)
{
    struct world *w = *state;
    world_create(w, "/a", "", 0);
    int64_t z1 = w->e.zxid;
    world_set(w, "/a", "x", -1);
    int64_t z2 = w->e.zxid;
    world_create(w, "/a/b", "", 0);
    int64_t z3 = w->e.zxid;
    assert_int_equal(rewatch(w, STATE_REWATCH_DATA, "/a", z1), WIRE_EVENT_NODE_DATA_CHANGED);
    assert_int_equal(rewatch(w, STATE_REWATCH_DATA, "/a", z2), 0);
    assert_int_equal(rewatch(w, STATE_REWATCH_DATA, "/x", z3), WIRE_EVENT_NODE_DELETED);
    assert_int_equal(rewatch(w, STATE_REWATCH_EXIST, "/a", z3), WIRE_EVENT_NODE_CREATED);
    assert_int_equal(rewatch(w, STATE_REWATCH_EXIST, "/x", z3), 0);
    assert_int_equal(rewatch(w, STATE_REWATCH_CHILD, "/a", z2), WIRE_EVENT_NODE_CHILDREN_CHANGED);
    assert_int_equal(rewatch(w, STATE_REWATCH_CHILD, "/a", z3), 0);
    assert_int_equal(rewatch(w, STATE_REWATCH_CHILD, "/x", z3), WIRE_EVENT_NODE_DELETED);
}

/* Whether and when it changed is nobody's business who may not read it. */
static void rewatching_tells_nothing_without_read(void **state)
{
    static const enum state_rewatch kinds[] = {STATE_REWATCH_DATA, STATE_REWATCH_EXIST,
                                               STATE_REWATCH_CHILD};
    struct world *w = *state;
    buf_reset(&w->m.acl);
    w->m.acl_count = 0;
    maker_acl_add(&w->m, WIRE_PERM_ALL & ~WIRE_PERM_READ, "world", "anyone");
    maker_acl_add(&w->m, WIRE_PERM_READ, "digest", "u:p");
    world_create(w, "/secret", "", 0);
    world_create(w, "/secret/child", "", 0);
    world_set(w, "/secret", "x", -1);
    maker_ids_add(&w->m, "digest", "u:p");
    for (size_t i = 0; i < 3; i++) {
        state_caller_begin(w->s);
        assert_int_equal(rewatch(w, kinds[i], "/secret", 0), 0);
        state_caller_begin(w->s);
        assert_int_not_equal(
            state_rewatch(w->s, kinds[i], maker_ids(&w->m), slice_str("/secret"), 0), 0);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(exists),
        T(get_data),
        T(appends_behind_what_is_there),
        T(get_children),
        T(get_acl),
        T(sync_and_others),
        T(rewatching),
        T(rewatching_tells_nothing_without_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
