/* multi: all or nothing, each part sees the earlier ones, and the forms of its reply. */
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int32_t run(struct world *w)
{
    return apply(w->s, &w->e, &w->m, 1, WIRE_MULTI, make_multi_end(&w->m));
}

/* Reads one result header of the reply. */
static struct wire_multi_header result(struct wire_reader *r)
{
    struct wire_multi_header h;
    assert_int_equal(wire_decode_multi_header(r, &h), 0);
    return h;
}

static void expect_end(struct wire_reader *r)
{
    struct wire_multi_header h = result(r);
    assert_int_equal(h.type, -1);
    assert_true(h.done);
    assert_int_equal(h.err, -1);
    assert_int_equal(wire_left(r), 0);
}

/* The reply says these errors, in the form of a failed multi. */
static void expect_errors(struct world *w, const int32_t *errs, size_t count)
{
    struct wire_reader r = wire_reader_make(buf_slice(&w->e.reply));
    assert_int_equal(w->e.err, 0);
    assert_int_equal(w->e.events_count, 0);
    for (size_t i = 0; i < count; i++) {
        struct wire_multi_header h = result(&r);
        assert_int_equal(h.type, -1);
        assert_false(h.done);
        assert_int_equal(h.err, errs[i]);
        assert_int_equal(wire_read_i32(&r), errs[i]);
    }
    expect_end(&r);
}

static void all_forms_of_results(void **state)
{
    struct world *w = *state;
    world_create(w, "/old", "", 0);
    make_multi_begin(&w->m);
    make_multi_create(&w->m, WIRE_CREATE, "/a", "", 0);
    make_multi_create(&w->m, WIRE_CREATE2, "/a/b", "xyz", 0);
    make_multi_create(&w->m, WIRE_CREATE, "/c", "", WIRE_MODE_CONTAINER);
    make_multi_set_data(&w->m, "/a", "new", 0);
    make_multi_check(&w->m, "/a", 1);
    make_multi_delete(&w->m, "/old", -1);
    assert_int_equal(run(w), 0);
    assert_string_equal(world_events(w), "1 /a,4 /,1 /a/b,4 /a,1 /c,4 /,3 /a,2 /old,4 /");

    struct wire_reader r = wire_reader_make(buf_slice(&w->e.reply));
    struct wire_stat stat;
    assert_int_equal(result(&r).type, WIRE_CREATE);
    assert_true(slice_equal_str(wire_read_string(&r), "/a"));
    assert_int_equal(result(&r).type, WIRE_CREATE2);
    assert_true(slice_equal_str(wire_read_string(&r), "/a/b"));
    assert_int_equal(wire_decode_stat(&r, &stat), 0);
    assert_int_equal(stat.data_length, 3);
    /* A container's mode makes a container of it, whose result has a stat. */
    assert_int_equal(result(&r).type, WIRE_CREATE2);
    assert_true(slice_equal_str(wire_read_string(&r), "/c"));
    assert_int_equal(wire_decode_stat(&r, &stat), 0);
    assert_int_equal(result(&r).type, WIRE_SET_DATA);
    assert_int_equal(wire_decode_stat(&r, &stat), 0);
    assert_int_equal(stat.version, 1);
    assert_int_equal(stat.num_children, 1);
    assert_int_equal(stat.czxid, w->e.zxid);
    assert_int_equal(result(&r).type, WIRE_CHECK);
    assert_int_equal(result(&r).type, WIRE_DELETE);
    expect_end(&r);
}

static void empty(void **state)
{
    struct world *w = *state;
    make_multi_begin(&w->m);
    assert_int_equal(run(w), 0);
    expect_errors(w, NULL, 0);
}

static void failure_undoes_everything(void **state)
{
    struct world *w = *state;
    world_create(w, "/a", "data", 0);
    world_create(w, "/a/child", "", WIRE_MODE_EPHEMERAL);
    world_create(w, "/a/next", "", 0);
    struct state_stats before;
    struct state_stats after;
    state_stats(w->s, &before);
    world_read(w, WIRE_GET_CHILDREN2, "/a");
    struct buf children = w->out;
    buf_init(&w->out, 0);
    make_multi_begin(&w->m);
    make_multi_set_data(&w->m, "/a", "other", -1);
    make_multi_delete(&w->m, "/a/child", -1);
    make_multi_create(&w->m, WIRE_CREATE, "/a/child", "", 0);
    make_multi_create(&w->m, WIRE_CREATE, "/a/seq", "", 2);
    make_multi_set_data(&w->m, "/a/child", "deep", -1);
    make_multi_create(&w->m, WIRE_CREATE, "/a/child/x", "", 0);
    make_multi_delete(&w->m, "/a/child/x", -1);
    make_multi_delete(&w->m, "/a/next", -1);
    make_multi_check(&w->m, "/a", 99);
    make_multi_create(&w->m, WIRE_CREATE, "/never", "", 0);
    assert_int_equal(run(w), 0);
    static const int32_t errs[] = {
        0, 0, 0, 0, 0, 0, 0, 0, CONCLAVE_BAD_VERSION, CONCLAVE_RUNTIME_INCONSISTENCY};
    expect_errors(w, errs, 10);
    state_stats(w->s, &after);
    assert_memory_equal(&before, &after, sizeof before);
    world_read(w, WIRE_GET_CHILDREN2, "/a");
    assert_true(slice_equal(buf_slice(&children), buf_slice(&w->out)));
    buf_finish(&children);
    assert_int_equal(world_stat(w, "/a/child").ephemeral_owner, 1);
    assert_int_equal(world_create(w, "/a/seq", "", 2), 0);
    struct wire_reader r = wire_reader_make(buf_slice(&w->e.reply));
    assert_true(slice_equal_str(wire_read_string(&r), "/a/seq0000000002"));
    assert_int_equal(world_close(w, 1), 0);
    assert_string_equal(world_events(w), "2 /a/child,4 /a");
}

static void parts_see_earlier_ones(void **state)
{
    struct world *w = *state;
    make_multi_begin(&w->m);
    make_multi_create(&w->m, WIRE_CREATE, "/p", "", 0);
    make_multi_create(&w->m, WIRE_CREATE, "/p/s", "", 2);
    make_multi_create(&w->m, WIRE_CREATE, "/p/s", "", 2);
    make_multi_delete(&w->m, "/p/s0000000000", 0);
    make_multi_delete(&w->m, "/p/s0000000001", 0);
    make_multi_delete(&w->m, "/p", 0);
    make_multi_create(&w->m, WIRE_CREATE, "/p", "again", 1);
    assert_int_equal(run(w), 0);
    assert_int_equal(w->e.events_count, 14);
    assert_int_equal(world_stat(w, "/p").cversion, 0);
    assert_int_equal(world_stat(w, "/p").ephemeral_owner, 1);
}

static void first_part_fails(void **state)
{
    struct world *w = *state;
    make_multi_begin(&w->m);
    make_multi_create(&w->m, WIRE_CREATE, "bad", "", 0);
    make_multi_delete(&w->m, "/none", -1);
    run(w);
    static const int32_t bad_path[] = {CONCLAVE_BAD_ARGUMENTS, CONCLAVE_RUNTIME_INCONSISTENCY};
    expect_errors(w, bad_path, 2);

    make_multi_begin(&w->m);
    make_multi_check(&w->m, "/", -1);
    apply(w->s, &w->e, &w->m, 77, WIRE_MULTI, make_multi_end(&w->m));
    static const int32_t session[] = {CONCLAVE_SESSION_EXPIRED};
    expect_errors(w, session, 1);
}

static void malformed_requests(void **state)
{
    struct world *w = *state;
    uint64_t digest = state_digest(w->s);
    int64_t zxid = state_zxid(w->s);

    make_multi_begin(&w->m); /* a mode that is none */
    make_multi_create(&w->m, WIRE_CREATE, "/a", "", 0);
    make_multi_create(&w->m, WIRE_CREATE, "/b", "", 7);
    assert_int_equal(run(w), CONCLAVE_MARSHALLING_ERROR);

    make_multi_begin(&w->m); /* a mode with a TTL in a record without one */
    make_multi_create(&w->m, WIRE_CREATE, "/t", "", WIRE_MODE_PERSISTENT_TTL);
    assert_int_equal(run(w), CONCLAVE_MARSHALLING_ERROR);

    make_multi_begin(&w->m); /* a null list of permissions */
    make_multi_create(&w->m, WIRE_CREATE, "/a", "", 0);
    w->m.acl_count = -1;
    make_multi_create(&w->m, WIRE_CREATE, "/b", "", 0);
    w->m.acl_count = 1;
    assert_int_equal(run(w), CONCLAVE_MARSHALLING_ERROR);

    make_multi_begin(&w->m); /* a null path */
    make_multi_create(&w->m, WIRE_CREATE, "/a", "", 0);
    make_multi_set_data(&w->m, NULL, "", -1);
    assert_int_equal(run(w), CONCLAVE_MARSHALLING_ERROR);

    make_multi_begin(&w->m); /* a null id, found when the part is done */
    make_multi_create(&w->m, WIRE_CREATE, "/a", "", 0);
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, 31, "digest", NULL);
    make_multi_create(&w->m, WIRE_CREATE, "/b", "", 0);
    assert_int_equal(run(w), CONCLAVE_MARSHALLING_ERROR);

    static const int32_t types[] = {WIRE_GET_DATA, WIRE_SET_ACL, WIRE_MULTI, 999};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        make_multi_begin(&w->m);
        make_multi_check(&w->m, "/", -1);
        buf_put_i32(&w->m.body, 0, types[i]);
        assert_int_equal(run(w), CONCLAVE_MARSHALLING_ERROR);
    }
    assert_int_equal(state_zxid(w->s), zxid + 9);
    assert_int_equal(w->e.reply.len, 0);
    assert_int_equal(world_read(w, WIRE_EXISTS, "/a"), CONCLAVE_NO_NODE);
    assert_true(state_digest(w->s) != digest); /* the zxid went on */
}

static void cut_anywhere(void **state)
{
    struct world *w = *state;
    make_multi_begin(&w->m);
    make_multi_create(&w->m, WIRE_CREATE2, "/a", "data", 0);
    make_multi_check(&w->m, "/a", 0);
    struct slice body = make_multi_end(&w->m);
    for (size_t n = 0; n < body.len; n++) {
        assert_int_equal(apply(w->s, &w->e, &w->m, 1, WIRE_MULTI, slice_make(body.data, n)),
                         CONCLAVE_MARSHALLING_ERROR);
    }
    assert_int_equal(apply(w->s, &w->e, &w->m, 1, WIRE_MULTI, body), 0);
    assert_int_equal(w->e.events_count, 2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(all_forms_of_results),
        T(empty),
        T(failure_undoes_everything),
        T(parts_see_earlier_ones),
        T(first_part_fails),
        T(malformed_requests),
        T(cut_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
