/* Nodes that go by themselves, and limits: TTLs, containers, quotas; reads of many; who may be told. */
#include "state/state_internal.h"
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char limits_path[] = "/zookeeper/quota/q/zookeeper_limits";
static const char stats_path[] = "/zookeeper/quota/q/zookeeper_stats";

static int32_t apply_with(struct world *w, uint32_t options, int32_t type, struct slice body)
{
    struct command c = {
        .session_id = 1, .type = type, .ids = maker_ids(&w->m), .body = body, .options = options};
    struct batch_header header = {.time_ms = 1000 + state_zxid(w->s) + 1};
    state_apply(w->s, &header, &c, &w->e);
    return w->e.err;
}

static int32_t create_ttl(struct world *w, const char *path, int32_t mode, int64_t ttl_ms)
{
    return apply_with(w, COMMAND_TTL, WIRE_CREATE_TTL, make_create_ttl(&w->m, path, mode, ttl_ms));
}

static void ttl_checks_in_order(void **state)
{
    struct world *w = *state;
    assert_int_equal(create_ttl(w, "bad", 7, 0), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(create_ttl(w, "bad", 0, 5), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(create_ttl(w, "bad", 0, -1), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(create_ttl(w, "/none/x", 5, 0), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(create_ttl(w, "/none/x", 5, -1), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(create_ttl(w, "/none/x", 5, TREE_TTL_MAX_MS + 1), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(create_ttl(w, "/none/x", 5, 1), CONCLAVE_NO_NODE);
    assert_int_equal(create_ttl(w, "/t", 5, TREE_TTL_MAX_MS), 0);
    assert_int_equal(world_stat(w, "/t").ephemeral_owner, 0);
    assert_int_equal(create_ttl(w, "/t", 5, 1), CONCLAVE_NODE_EXISTS);
    assert_int_equal(create_ttl(w, "/t/s-", 6, 1), 0);
    assert_string_equal(world_events(w), "1 /t/s-0000000000,4 /t");
    /* A plain create has no TTL to give. */
    assert_int_equal(apply_with(w, COMMAND_TTL, WIRE_CREATE, make_create(&w->m, "/p", "", 5)),
                     CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(apply_with(w, 0, WIRE_CREATE, make_create(&w->m, "/p", "", 5)),
                     CONCLAVE_UNIMPLEMENTED);
}

static void ttl_in_a_multi(void **state)
{
    struct world *w = *state;
    make_multi_begin(&w->m);
    make_multi_create_ttl(&w->m, "/t", 5, 9);
    make_multi_create_ttl(&w->m, "/plain", 0, -7);
    assert_int_equal(apply_with(w, COMMAND_TTL, WIRE_MULTI, make_multi_end(&w->m)), 0);
    struct wire_reader r = wire_reader_make(buf_slice(&w->e.reply));
    struct wire_multi_header h;
    struct wire_create2_response created;
    assert_int_equal(wire_decode_multi_header(&r, &h), 0);
    assert_int_equal(h.type, WIRE_CREATE2);
    assert_int_equal(wire_decode_create2_response(&r, &created), 0);
    assert_int_equal(wire_decode_multi_header(&r, &h), 0);
    assert_int_equal(h.type, WIRE_CREATE);
    struct state_stats stats;
    state_stats(w->s, &stats);
    assert_int_equal(stats.collectable, 1);

    make_multi_begin(&w->m);
    make_multi_create_ttl(&w->m, "/u", 5, 0);
    assert_int_equal(apply_with(w, COMMAND_TTL, WIRE_MULTI, make_multi_end(&w->m)), 0);
    r = wire_reader_make(buf_slice(&w->e.reply));
    assert_int_equal(wire_decode_multi_header(&r, &h), 0);
    assert_int_equal(h.err, CONCLAVE_BAD_ARGUMENTS);
}

struct found {
    char text[256];
    struct spent last;
    char last_path[64];
};

static void on_spent(void *ctx, const struct spent *spent)
{
    struct found *f = ctx;
    size_t n = strlen(f->text);
    snprintf(f->text + n, sizeof f->text - n, "%.*s ", SLICE_FMT(spent->path));
    snprintf(f->last_path, sizeof f->last_path, "%.*s", SLICE_FMT(spent->path));
    f->last = (struct spent){slice_str(f->last_path), spent->czxid, spent->mzxid};
}

static int32_t collect(struct world *w, const struct spent *spent)
{
    buf_reset(&w->m.body);
    spent_encode(&w->m.body, spent);
    return apply_with(w, 0, WIRE_DELETE_CONTAINER, buf_slice(&w->m.body));
}

static void what_is_spent(void **state)
{
    struct world *w = *state;
    struct found f = {.text = ""};
    assert_int_equal(create_ttl(w, "/t", 5, 100), 0);
    int64_t made_ms = world_stat(w, "/t").mtime;
    struct state_spent_rules rules = {.now_ms = made_ms + 100};
    assert_int_equal(state_spent_scan(w->s, &rules, 10, on_spent, &f), 1);
    assert_string_equal(f.text, ""); /* not before it is over */
    rules.now_ms++;
    assert_int_equal(state_spent_scan(w->s, &rules, 10, on_spent, &f), 1);
    assert_string_equal(f.text, "/t ");
    apply_with(w, 0, WIRE_CREATE_CONTAINER, make_create(&w->m, "/c", "", 4));
    f = (struct found){.text = ""};
    rules.never_used_ms = 1000000;
    assert_int_equal(state_spent_scan(w->s, &rules, 10, on_spent, &f), 2);
    assert_string_equal(f.text, "/t ");
    rules.now_ms += 1000000;
    f = (struct found){.text = ""};
    /* One by one: each look goes on where the last one ended. */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(state_spent_scan(w->s, &rules, 1, on_spent, &f), 1);
    }
    assert_string_equal(f.text, "/t /c /t /c ");
    world_create(w, "/c/x", "", 0);
    world_create(w, "/t/x", "", 0);
    f = (struct found){.text = ""};
    assert_int_equal(state_spent_scan(w->s, &rules, 10, on_spent, &f), 2);
    assert_string_equal(f.text, "");
}

static void collects_only_what_was_found(void **state)
{
    struct world *w = *state;
    struct found f = {.text = ""};
    struct state_spent_rules rules = {.now_ms = INT64_MAX / 2};
    assert_int_equal(create_ttl(w, "/t", 5, 100), 0);
    state_spent_scan(w->s, &rules, 10, on_spent, &f);
    struct spent spent = f.last;
    spent.mzxid--;
    assert_int_equal(collect(w, &spent), CONCLAVE_BAD_VERSION);
    spent = f.last;
    spent.czxid++;
    assert_int_equal(collect(w, &spent), CONCLAVE_BAD_VERSION);
    world_create(w, "/t/x", "", 0);
    assert_int_equal(collect(w, &f.last), CONCLAVE_NOT_EMPTY);
    world_delete(w, "/t/x", -1);
    assert_int_equal(collect(w, &f.last), 0);
    assert_string_equal(world_events(w), "2 /t,4 /");
    assert_int_equal(collect(w, &f.last), CONCLAVE_NO_NODE);
    /* A plain node is never taken, whatever the command says. */
    world_create(w, "/p", "", 0);
    int64_t zxid = world_stat(w, "/p").czxid;
    assert_int_equal(collect(w, &(struct spent){slice_str("/p"), zxid, zxid}),
                     CONCLAVE_BAD_VERSION);
    assert_int_equal(collect(w, &(struct spent){slice_str("/"), 0, 0}), CONCLAVE_BAD_VERSION);
    make_multi_begin(&w->m);
    wire_encode_multi_header(&w->m.body, &(struct wire_multi_header){20, false, -1});
    spent_encode(&w->m.body, &f.last);
    assert_int_equal(apply_with(w, 0, WIRE_MULTI, make_multi_end(&w->m)),
                     CONCLAVE_MARSHALLING_ERROR);
}

static void expect_data(struct world *w, const char *path, const char *text)
{
    assert_int_equal(world_read(w, WIRE_GET_DATA, path), 0);
    struct wire_reader r = wire_reader_make(buf_slice(&w->out));
    struct slice data = wire_read_buffer(&r);
    assert_true(slice_equal_str(data, text));
}

static void make_quota(struct world *w, const char *limits)
{
    assert_int_equal(world_create(w, "/q", "12", 0), 0);
    assert_int_equal(world_create(w, "/q/a", "345", 0), 0);
    assert_int_equal(world_create(w, "/zookeeper/quota/q", "", 0), 0);
    assert_int_equal(world_create(w, limits_path, limits, 0), 0);
    assert_int_equal(world_create(w, stats_path, "whatever", 0), 0);
}

static void quota_counts_follow(void **state)
{
    struct world *w = *state;
    make_quota(w, "count=-1,bytes=-1");
    expect_data(w, stats_path, "count=2,bytes=5");
    struct wire_stat before = world_stat(w, stats_path);
    world_create(w, "/q/b", "6789", 0);
    expect_data(w, stats_path, "count=3,bytes=9");
    assert_string_equal(world_events(w), "1 /q/b,4 /q");
    world_set(w, "/q/b", "", -1);
    expect_data(w, stats_path, "count=3,bytes=5");
    world_create(w, "/q/e", "12345", WIRE_MODE_EPHEMERAL);
    expect_data(w, stats_path, "count=4,bytes=10");
    world_delete(w, "/q/a", -1);
    expect_data(w, stats_path, "count=3,bytes=7");
    world_close(w, 1);
    world_session(w, 1);
    expect_data(w, stats_path, "count=2,bytes=2");
    world_create(w, "/qq", "x", 0);
    expect_data(w, stats_path, "count=2,bytes=2");
    struct wire_stat after = world_stat(w, stats_path);
    assert_int_equal(after.version, before.version);
    assert_int_equal(after.mzxid, before.mzxid);
    assert_int_equal(after.mtime, before.mtime);
    /* A multi that fails leaves no trace. */
    make_multi_begin(&w->m);
    make_multi_create(&w->m, WIRE_CREATE, "/q/c", "x", 0);
    make_multi_delete(&w->m, "/none", -1);
    apply_with(w, 0, WIRE_MULTI, make_multi_end(&w->m));
    expect_data(w, stats_path, "count=2,bytes=2");
    /* Without limits nobody counts. */
    world_delete(w, limits_path, -1);
    world_create(w, "/q/c", "x", 0);
    expect_data(w, stats_path, "count=2,bytes=2");
}

static int32_t create_within(struct world *w, const char *path, const char *data)
{
    return apply_with(w, COMMAND_QUOTA, WIRE_CREATE, make_create(&w->m, path, data, 0));
}

static void quota_limits(void **state)
{
    struct world *w = *state;
    static const struct {
        const char *limits;
        bool count_soft, count_hard, bytes_soft, bytes_hard;
    } rows[] = {
        {"count=2,bytes=5", true, false, true, false},
        {"count=3,bytes=6", false, false, false, false},
        {"count=-1,bytes=-1=;byteHardLimit=5;countHardLimit=2", false, true, false, true},
        {"count=1,bytes=1=;byteHardLimit=6;countHardLimit=3", false, false, false, false},
        {"countHardLimit=2", false, true, false, false},
        {"byteHardLimit=5", false, false, false, true},
        {"count=,bytes==;;countHardLimit=99999999999999999999", false, false, false, false},
        {"nonsense", false, false, false, false},
        {"", false, false, false, false},
    };
    make_quota(w, "");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        world_set(w, limits_path, rows[i].limits, -1);
        assert_int_equal(create_within(w, "/q/x", ""),
                         rows[i].count_hard ? CONCLAVE_QUOTA_EXCEEDED : 0);
        assert_int_equal(w->e.quota.exceeded, rows[i].count_hard || rows[i].count_soft);
        if (w->e.quota.exceeded) {
            assert_true(slice_equal_str(w->e.quota.path, "/q"));
            assert_int_equal(w->e.quota.hard, rows[i].count_hard);
            assert_false(w->e.quota.bytes);
            assert_int_equal(w->e.quota.amount, 3);
            assert_int_equal(w->e.quota.limit, 2);
        }
        assert_int_equal(world_delete(w, "/q/x", -1), rows[i].count_hard ? CONCLAVE_NO_NODE : 0);
        int32_t err =
            apply_with(w, COMMAND_QUOTA, WIRE_SET_DATA, make_set_data(&w->m, "/q/a", "3456", -1));
        assert_int_equal(err, rows[i].bytes_hard ? CONCLAVE_QUOTA_EXCEEDED : 0);
        assert_int_equal(w->e.quota.exceeded, rows[i].bytes_hard || rows[i].bytes_soft);
        world_set(w, "/q/a", "345", -1); /* not asked to enforce */
        expect_data(w, stats_path, "count=2,bytes=5");
    }
    /* The quota comes before the version, and behind the permission. */
    world_set(w, limits_path, "byteHardLimit=5", -1);
    assert_int_equal(
        apply_with(w, COMMAND_QUOTA, WIRE_SET_DATA, make_set_data(&w->m, "/q/a", "3456", 99)),
        CONCLAVE_QUOTA_EXCEEDED);
}

/* The deepest quota counts, and no other. */
static void quotas_below_each_other(void **state)
{
    struct world *w = *state;
    make_quota(w, "countHardLimit=2");
    world_create(w, "/zookeeper/quota/q/a", "", 0);
    world_create(w, "/zookeeper/quota/q/a/zookeeper_limits", "countHardLimit=9", 0);
    world_create(w, "/zookeeper/quota/q/a/zookeeper_stats", "", 0);
    assert_int_equal(create_within(w, "/q/a/x", "1"), 0);
    expect_data(w, stats_path, "count=2,bytes=5");
    expect_data(w, "/zookeeper/quota/q/a/zookeeper_stats", "count=2,bytes=4");
    assert_int_equal(create_within(w, "/q/b", ""), CONCLAVE_QUOTA_EXCEEDED);
}

static void add_read(struct world *w, int32_t type, const char *path)
{
    wire_encode_multi_header(&w->m.body, &(struct wire_multi_header){type, false, -1});
    wire_encode_get_data_request(&w->m.body,
                                 &(struct wire_get_data_request){slice_str(path), true});
}

static int multi_read(struct world *w)
{
    buf_reset(&w->out);
    return state_query(w->s, WIRE_MULTI_READ, maker_ids(&w->m), make_multi_end(&w->m), &w->out,
                       &w->watch);
}

static void multi_read_forms(void **state)
{
    struct world *w = *state;
    world_create(w, "/a", "xyz", 0);
    make_multi_begin(&w->m);
    assert_int_equal(multi_read(w), 0);
    assert_int_equal(w->out.len, 9);
    make_multi_begin(&w->m);
    add_read(w, WIRE_GET_DATA, "/none");
    add_read(w, WIRE_GET_CHILDREN, "/");
    add_read(w, WIRE_GET_DATA, "/a");
    assert_int_equal(multi_read(w), 0);
    assert_int_equal(w->watch.kind, STATE_WATCH_NONE);
    struct wire_reader r = wire_reader_make(buf_slice(&w->out));
    struct wire_multi_header h;
    struct wire_get_children_response children;
    struct wire_get_data_response data;
    assert_int_equal(wire_decode_multi_header(&r, &h), 0);
    assert_int_equal(h.type, -1);
    assert_int_equal(h.err, CONCLAVE_NO_NODE);
    assert_int_equal(wire_read_i32(&r), CONCLAVE_NO_NODE);
    assert_int_equal(wire_decode_multi_header(&r, &h), 0);
    assert_int_equal(h.type, WIRE_GET_CHILDREN);
    assert_int_equal(wire_decode_get_children_response(&r, &children), 0);
    assert_int_equal(children.children.count, 2);
    assert_int_equal(wire_decode_multi_header(&r, &h), 0);
    assert_int_equal(h.type, WIRE_GET_DATA);
    assert_int_equal(wire_decode_get_data_response(&r, &data), 0);
    assert_true(slice_equal_str(data.data, "xyz"));
    assert_int_equal(wire_decode_multi_header(&r, &h), 0);
    assert_true(h.done);
    assert_int_equal(wire_left(&r), 0);
    /* One part that is none of the two, or null, spoils all. */
    make_multi_begin(&w->m);
    add_read(w, WIRE_GET_DATA, "/a");
    add_read(w, WIRE_EXISTS, "/a");
    assert_int_equal(multi_read(w), CONCLAVE_MARSHALLING_ERROR);
    assert_int_equal(w->out.len, 0);
    make_multi_begin(&w->m);
    add_read(w, WIRE_GET_DATA, NULL);
    assert_int_equal(multi_read(w), CONCLAVE_MARSHALLING_ERROR);
}

static void multi_read_has_a_limit(void **state)
{
    struct world *w = *state;
    static char big[1 << 20];
    memset(big, 'x', sizeof big - 1);
    world_create(w, "/big", big, 0);
    make_multi_begin(&w->m);
    for (int i = 0; i < 15; i++) {
        add_read(w, WIRE_GET_DATA, "/big");
    }
    assert_int_equal(multi_read(w), 0);
    make_multi_begin(&w->m);
    for (int i = 0; i < 1000; i++) {
        add_read(w, WIRE_GET_DATA, "/big");
    }
    assert_int_equal(multi_read(w), CONCLAVE_SYSTEM_ERROR);
    assert_int_equal(w->out.len, 0);
    assert_true(w->out.cap < 4 * STATE_MULTI_READ_MAX);
}

static void events_know_who_may_read(void **state)
{
    struct world *w = *state;
    struct buf b;
    buf_init(&b, 0);
    wire_encode_id(&b, &(struct wire_id){slice_str("digest"), slice_str("u:1")});
    struct wire_vector owner = wire_vector_make(&b, 1);
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_ALL, "digest", "u:1");
    maker_ids_add(&w->m, "digest", "u:1");
    assert_int_equal(world_create(w, "/a", "", 0), 0);
    assert_int_equal(w->e.events_count, 2);
    assert_false(state_event_visible(&w->e.events[0], WIRE_VECTOR_NULL));
    assert_true(state_event_visible(&w->e.events[0], owner));
    assert_true(state_event_visible(&w->e.events[1], WIRE_VECTOR_NULL)); /* of "/" */
    assert_int_equal(world_create(w, "/a/b", "", 0), 0);
    assert_false(state_event_visible(&w->e.events[1], WIRE_VECTOR_NULL)); /* of /a */
    assert_int_equal(world_delete(w, "/a/b", -1), 0);
    assert_false(state_event_visible(&w->e.events[0], WIRE_VECTOR_NULL));
    assert_true(state_event_visible(&w->e.events[0], owner)); /* though the node is gone */
    assert_int_equal(world_set(w, "/a", "x", -1), 0);
    assert_false(state_event_visible(&w->e.events[0], WIRE_VECTOR_NULL));
    buf_finish(&b);
}

static void reconfig_says_what_it_is(void **state)
{
    struct world *w = *state;
    struct wire_reconfig_request r = {SLICE_NULL, SLICE_NULL, SLICE_NULL, -1};
    buf_reset(&w->m.body);
    wire_encode_reconfig_request(&w->m.body, &r);
    assert_int_equal(apply_with(w, COMMAND_RECONFIG, WIRE_RECONFIG, buf_slice(&w->m.body)),
                     CONCLAVE_UNIMPLEMENTED);
}

#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(ttl_checks_in_order),          T(ttl_in_a_multi),           T(what_is_spent),
        T(collects_only_what_was_found), T(quota_counts_follow),      T(quota_limits),
        T(quotas_below_each_other),      T(multi_read_forms),         T(multi_read_has_a_limit),
        T(events_know_who_may_read),     T(reconfig_says_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
