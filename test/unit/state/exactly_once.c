/* Repeated writes: which answers of a session are remembered, for how long, and where. */
#include "state/snapshot_format.h"
#include "state/state_internal.h"
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { CLIENT = 100, MANY = 1000, MANY_BYTES = 1 << 20 };

static int32_t send_from(struct world *w, int64_t origin, int32_t type, struct slice body,
                         int32_t number, int32_t unanswered)
{
    struct batch_header header = {.origin = origin, .sequence = 1, .previous = 0, .time_ms = 5};
    struct command c = {.session_id = CLIENT,
                        .cxid = 7,
                        .type = type,
                        .ids = maker_ids(&w->m),
                        .body = body,
                        .options = COMMAND_NUMBERED | COMMAND_RECONFIG,
                        .number = number,
                        .unanswered = unanswered};
    state_apply(w->s, &header, &c, &w->e);
    assert_true(state_digest_now(w->s) == state_digest(w->s));
    return w->e.err;
}

/* A write that nothing before it waits for. */
static int32_t send(struct world *w, int32_t type, struct slice body, int32_t number)
{
    return send_from(w, 2, type, body, number, number);
}

static int32_t session_command(struct world *w, int64_t origin, int32_t type, int32_t count_max,
                               int32_t bytes_max)
{
    struct batch_header header = {.origin = origin, .sequence = 1, .previous = 0, .time_ms = 5};
    make_session(&w->m, CLIENT, 4000);
    if (count_max != 0) {
        wire_write_i32(&w->m.body, count_max);
        wire_write_i32(&w->m.body, bytes_max);
    }
    struct command c = {.session_id = CLIENT, .type = type, .body = buf_slice(&w->m.body)};
    state_apply(w->s, &header, &c, &w->e);
    assert_true(state_digest_now(w->s) == state_digest(w->s));
    return w->e.err;
}

static void begin(struct world *w, int32_t count_max, int32_t bytes_max)
{
    assert_int_equal(session_command(w, 2, WIRE_CREATE_SESSION, count_max, bytes_max), 0);
}

static struct state_results results(const struct world *w)
{
    struct state_results ret;
    assert_true(state_results(w->s, CLIENT, &ret));
    return ret;
}

static int32_t children(struct world *w, const char *path)
{
    return world_stat(w, path).num_children;
}

static int32_t create_in_sequence(struct world *w, int32_t number, int32_t unanswered)
{
    return send_from(w, 2, WIRE_CREATE2, make_create(&w->m, "/q/n-", "x", 2), number, unanswered);
}

static void the_first_answer_comes_again(void **state)
{
    struct world *w = *state;
    begin(w, MANY, MANY_BYTES);
    assert_int_equal(send(w, WIRE_CREATE, make_create(&w->m, "/q", "", 0), 1), 0);
    assert_int_equal(create_in_sequence(w, 2, 2), 0);
    assert_false(w->e.repeated);
    int64_t zxid = w->e.zxid;
    struct buf first;
    buf_init(&first, 0);
    buf_append_slice(&first, buf_slice(&w->e.reply));
    assert_int_equal(create_in_sequence(w, 3, 2), 0);
    int64_t newest = state_zxid(w->s);

    assert_int_equal(create_in_sequence(w, 2, 2), 0);
    assert_true(w->e.repeated);
    assert_int_equal(w->e.zxid, zxid);
    assert_true(slice_equal(buf_slice(&w->e.reply), buf_slice(&first)));
    assert_int_equal(w->e.events_count, 0);
    assert_int_equal(w->e.session_change, STATE_SESSION_SAME);
    assert_int_equal(state_zxid(w->s), newest);
    assert_int_equal(children(w, "/q"), 2);
    buf_finish(&first);
}

/* A failed write fails again, though it would succeed by now; and the other way round. */
static void an_error_is_an_answer(void **state)
{
    struct world *w = *state;
    begin(w, MANY, MANY_BYTES);
    assert_int_equal(send(w, WIRE_DELETE, make_delete(&w->m, "/a", -1), 1), CONCLAVE_NO_NODE);
    assert_int_equal(world_create(w, "/a", "", 0), 0);
    assert_int_equal(send(w, WIRE_DELETE, make_delete(&w->m, "/a", -1), 1), CONCLAVE_NO_NODE);
    assert_int_equal(world_read(w, WIRE_EXISTS, "/a"), 0);
    assert_int_equal(send(w, WIRE_SET_DATA, make_set_data(&w->m, "/a", "1", 0), 2), 0);
    assert_int_equal(send(w, WIRE_SET_DATA, make_set_data(&w->m, "/a", "1", 0), 2), 0);
    assert_int_equal(world_stat(w, "/a").version, 1);
}

static struct slice increment(struct world *w)
{
    make_multi_begin(&w->m);
    make_multi_set_data(&w->m, "/n", "x", -1);
    make_multi_create(&w->m, WIRE_CREATE2, "/n/c-", "", 2);
    return make_multi_end(&w->m);
}

static void a_transaction_is_one_write(void **state)
{
    struct world *w = *state;
    begin(w, MANY, MANY_BYTES);
    assert_int_equal(world_create(w, "/n", "", 0), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(send(w, WIRE_MULTI, increment(w), 1), 0);
        assert_int_equal(w->e.repeated, i > 0);
        assert_true(w->e.reply.len > 100);
    }
    assert_int_equal(world_stat(w, "/n").version, 1);
    assert_int_equal(children(w, "/n"), 1);
}

/* The client moved from server 2 to server 3: what 2 still has of it is not carried out and not
 * remembered, so that it is carried out when 3 brings it. */
static void what_stayed_behind_is_no_first_time(void **state)
{
    struct world *w = *state;
    begin(w, MANY, MANY_BYTES);
    assert_int_equal(send(w, WIRE_CREATE, make_create(&w->m, "/q", "", 0), 1), 0);
    assert_int_equal(create_in_sequence(w, 2, 2), 0);
    assert_int_equal(session_command(w, 3, COMMAND_ATTACH_SESSION, MANY, MANY_BYTES), 0);
    assert_int_equal(create_in_sequence(w, 3, 2), CONCLAVE_SESSION_MOVED);
    assert_int_equal(create_in_sequence(w, 2, 2), CONCLAVE_SESSION_MOVED);
    assert_int_equal(children(w, "/q"), 1);
    struct slice body = make_create(&w->m, "/q/n-", "x", 2);
    assert_int_equal(send_from(w, 3, WIRE_CREATE2, body, 2, 2), 0);
    assert_true(w->e.repeated);
    body = make_create(&w->m, "/q/n-", "x", 2);
    assert_int_equal(send_from(w, 3, WIRE_CREATE2, body, 3, 2), 0);
    assert_false(w->e.repeated);
    assert_int_equal(children(w, "/q"), 2);
}

static void what_was_answered_is_forgotten(void **state)
{
    struct world *w = *state;
    struct state_stats stats;
    begin(w, MANY, MANY_BYTES);
    assert_int_equal(send(w, WIRE_CREATE, make_create(&w->m, "/q", "", 0), 1), 0);
    for (int32_t i = 2; i < 10; i++) {
        assert_int_equal(create_in_sequence(w, i, i < 7 ? 1 : i - 2), 0);
        assert_int_equal(results(w).count, i < 7 ? i : 3);
    }
    state_stats(w->s, &stats);
    assert_int_equal(stats.results, 3);
    assert_true(stats.results_bytes > 3 * sizeof(struct once_result));
    assert_int_equal(results(w).last, 9);
    assert_int_equal(create_in_sequence(w, 4, 7), CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(children(w, "/q"), 8);
}

/* Never more than was agreed on; the newest is there always. */
static void limits_hold(void **state)
{
    struct world *w = *state;
    begin(w, 3, 200);
    assert_int_equal(send(w, WIRE_CREATE, make_create(&w->m, "/q", "", 0), 1), 0);
    for (int32_t i = 2; i < 6; i++) {
        assert_int_equal(send_from(w, 2, WIRE_DELETE, make_delete(&w->m, "/no", -1), i, 1),
                         CONCLAVE_NO_NODE);
    }
    assert_int_equal(results(w).count, 3);
    assert_int_equal(send_from(w, 2, WIRE_DELETE, make_delete(&w->m, "/no", -1), 2, 1),
                     CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(send_from(w, 2, WIRE_DELETE, make_delete(&w->m, "/no", -1), 3, 1),
                     CONCLAVE_NO_NODE);
    assert_true(w->e.repeated);
    make_multi_begin(&w->m);
    for (int i = 0; i < 10; i++) {
        make_multi_create(&w->m, WIRE_CREATE2, "/q/n-", "", 2);
    }
    assert_int_equal(send_from(w, 2, WIRE_MULTI, make_multi_end(&w->m), 6, 1), 0);
    assert_true(w->e.reply.len > 200);
    assert_int_equal(results(w).count, 1);
    assert_int_equal(send_from(w, 2, WIRE_MULTI, increment(w), 6, 1), 0);
    assert_true(w->e.repeated);
    assert_int_equal(children(w, "/q"), 10);
}

/* One that was refused at the door leaves a gap. When it comes again, behind what followed it, it is
 * as little carried out as the first time. */
static void a_gap_was_not_carried_out(void **state)
{
    struct world *w = *state;
    begin(w, MANY, MANY_BYTES);
    assert_int_equal(send(w, WIRE_CREATE, make_create(&w->m, "/q", "", 0), 1), 0);
    assert_int_equal(create_in_sequence(w, 3, 2), 0);
    assert_int_equal(create_in_sequence(w, 2, 2), CONCLAVE_THROTTLED);
    assert_int_equal(create_in_sequence(w, 3, 2), 0);
    assert_true(w->e.repeated);
    assert_int_equal(children(w, "/q"), 1);
}

static void numbers_wrap(void **state)
{
    struct world *w = *state;
    begin(w, MANY, MANY_BYTES);
    assert_int_equal(world_create(w, "/q", "", 0), 0);
    assert_int_equal(create_in_sequence(w, INT32_MAX - 3, INT32_MAX - 3), 0);
    for (uint32_t i = 0; i < 8; i++) {
        int32_t number = (int32_t)((uint32_t)INT32_MAX - 2 + i);
        assert_int_equal(create_in_sequence(w, number, INT32_MAX - 2), 0);
        assert_false(w->e.repeated);
    }
    assert_int_equal(results(w).last, INT32_MIN + 4);
    for (uint32_t i = 0; i < 8; i++) {
        int32_t number = (int32_t)((uint32_t)INT32_MAX - 2 + i);
        assert_int_equal(create_in_sequence(w, number, INT32_MAX - 2), 0);
        assert_true(w->e.repeated);
    }
    assert_int_equal(create_in_sequence(w, INT32_MIN + 5, INT32_MIN + 1), 0);
    assert_int_equal(results(w).count, 5);
    assert_int_equal(create_in_sequence(w, INT32_MAX, INT32_MIN + 1), CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(children(w, "/q"), 10);
}

/* Who does not ask any more is not remembered any more; what begins anew has another name. */
static void only_for_who_asks(void **state)
{
    struct world *w = *state;
    struct state_results ret;
    struct state_stats stats;
    begin(w, 0, 0);
    assert_false(state_results(w->s, CLIENT, &ret));
    assert_int_equal(send(w, WIRE_CREATE, make_create(&w->m, "/q", "", 0), 1),
                     CONCLAVE_SESSION_MOVED);
    assert_int_equal(world_read(w, WIRE_EXISTS, "/q"), CONCLAVE_NO_NODE);
    assert_int_equal(session_command(w, 2, COMMAND_ATTACH_SESSION, 5, 6), 0);
    assert_int_equal(results(w).count_max, 5);
    int64_t born = results(w).born;
    assert_int_equal(send(w, WIRE_CREATE, make_create(&w->m, "/q", "", 0), 1), 0);
    assert_int_equal(session_command(w, 2, COMMAND_ATTACH_SESSION, 7, 8), 0);
    assert_int_equal(results(w).count_max, 7);
    assert_int_equal(results(w).bytes_max, 8);
    assert_int_equal(results(w).count, 1);
    assert_int_equal(results(w).born, born);
    assert_int_equal(session_command(w, 2, COMMAND_ATTACH_SESSION, 0, 0), 0);
    assert_false(state_results(w->s, CLIENT, &ret));
    assert_int_equal(session_command(w, 2, COMMAND_ATTACH_SESSION, 7, 8), 0);
    assert_int_equal(results(w).last, 0);
    assert_true(results(w).born > born);

    assert_int_equal(create_in_sequence(w, 1, 1), 0);
    world_close(w, CLIENT);
    assert_false(state_results(w->s, CLIENT, &ret));
    state_stats(w->s, &stats);
    assert_int_equal(stats.results, 0);
    assert_int_equal(stats.results_bytes, 0);
    assert_int_equal(create_in_sequence(w, 1, 1), CONCLAVE_SESSION_EXPIRED);
    assert_true(state_digest_now(w->s) == state_digest(w->s));
}

static void wishes_that_make_no_sense_are_refused(void **state)
{
    struct world *w = *state;
    struct state_session session;
    assert_int_equal(session_command(w, 2, WIRE_CREATE_SESSION, -1, 1), CONCLAVE_MARSHALLING_ERROR);
    assert_int_equal(session_command(w, 2, WIRE_CREATE_SESSION, 1, 0), CONCLAVE_MARSHALLING_ERROR);
    assert_false(state_session_find(w->s, CLIENT, &session));
    begin(w, 3, 4);
    assert_int_equal(session_command(w, 3, COMMAND_ATTACH_SESSION, 1, -1),
                     CONCLAVE_MARSHALLING_ERROR);
    assert_int_equal(results(w).count_max, 3);
    assert_true(state_session_find(w->s, CLIENT, &session));
    assert_int_equal(session.owner, 2);
}

/* Takes the state through a snapshot. */
static void through_a_snapshot(struct world *w)
{
    struct state *restored;
    uint64_t digest = state_digest(w->s);
    struct state_stats before;
    struct state_stats after;
    state_stats(w->s, &before);
    buf_reset(&w->out);
    assert_int_equal(state_snapshot_begin(w->s), 0);
    while (state_snapshot_step(w->s, 100, &w->out) == 1) {}
    assert_int_equal(state_restore(buf_slice(&w->out), &hash_key_fixed, &restored), 0);
    assert_true(state_digest(restored) == digest);
    assert_true(state_digest_now(restored) == digest);
    state_stats(restored, &after);
    assert_int_equal(after.results, before.results);
    assert_int_equal(after.results_bytes, before.results_bytes);
    state_destroy(w->s);
    w->s = restored;
}

static void snapshots_have_them(void **state)
{
    struct world *w = *state;
    begin(w, 4, 1000);
    through_a_snapshot(w);
    assert_int_equal(send(w, WIRE_CREATE, make_create(&w->m, "/q", "", 0), 1), 0);
    assert_int_equal(create_in_sequence(w, 2, 1), 0);
    assert_int_equal(send_from(w, 2, WIRE_DELETE, make_delete(&w->m, "/no", -1), 4, 1),
                     CONCLAVE_NO_NODE);
    int64_t born = results(w).born;
    through_a_snapshot(w);
    assert_int_equal(results(w).born, born);
    assert_int_equal(results(w).count, 3);
    assert_int_equal(create_in_sequence(w, 2, 1), 0);
    assert_true(w->e.repeated);
    assert_true(w->e.reply.len > 0);
    assert_int_equal(create_in_sequence(w, 3, 1), CONCLAVE_THROTTLED);
    assert_int_equal(create_in_sequence(w, 5, 5), 0);
    through_a_snapshot(w);
    assert_int_equal(create_in_sequence(w, 4, 4), CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(children(w, "/q"), 2);
}

/* A snapshot of the version before differs in nothing but that there are none. */
static void the_version_before_is_read(void **state)
{
    struct world *w = *state;
    struct state *restored = NULL;
    for (int with = 0; with < 2; with++) {
        buf_reset(&w->out);
        assert_int_equal(state_snapshot_begin(w->s), 0);
        assert_int_equal(state_snapshot_step(w->s, 1 << 20, &w->out), 0);
        uint8_t *at = w->out.data;
        at[11] = SNAPSHOT_VERSION - 1;
        size_t len = w->out.len - SNAPSHOT_HEADER_LEN - SNAPSHOT_BLOCK_HEAD - SNAPSHOT_BLOCK_TAIL;
        struct slice records = slice_make(at + SNAPSHOT_HEADER_LEN + SNAPSHOT_BLOCK_HEAD, len);
        uint64_t sum = snapshot_chain(hash_bytes(at, SNAPSHOT_HEADER_LEN), records);
        w->out.len -= SNAPSHOT_BLOCK_TAIL;
        buf_append_i64(&w->out, (int64_t)sum);
        assert_int_equal(state_restore(buf_slice(&w->out), &hash_key_fixed, &restored),
                         with ? CONCLAVE_ECORRUPT : 0);
        begin(w, 4, 1000);
    }
    state_destroy(restored);
}

#define ONE "127.0.0.1:2881:3881:participant;127.0.0.1:2181"
#define TWO "127.0.0.1:2882:3882:participant;127.0.0.1:2182"
#define THREE "127.0.0.1:2883:3883:participant;127.0.0.1:2183"

static void configure(struct world *w, size_t count)
{
    struct state_member members[] = {
        {1, STATE_VOTER, ONE}, {2, STATE_VOTER, TWO}, {3, STATE_VOTER, THREE}};
    state_configure(w->s, members, count, &w->e);
}

static int32_t reconfig_from(struct world *w, int64_t origin, int32_t number)
{
    struct wire_reconfig_request r = {SLICE_NULL, slice_str("3"), SLICE_NULL, -1};
    buf_reset(&w->m.body);
    wire_encode_reconfig_request(&w->m.body, &r);
    return send_from(w, origin, WIRE_RECONFIG, buf_slice(&w->m.body), number, number);
}

/* A reconfig is answered when its end is reached: there, where it was asked for last. */
static void a_reconfig_under_way_is_waited_for_again(void **state)
{
    struct world *w = *state;
    configure(w, 3);
    maker_ids_add(&w->m, "super", "");
    begin(w, MANY, MANY_BYTES);
    assert_int_equal(reconfig_from(w, 2, 1), 0);
    assert_true(w->e.deferred);
    through_a_snapshot(w);
    assert_int_equal(session_command(w, 3, COMMAND_ATTACH_SESSION, MANY, MANY_BYTES), 0);
    assert_int_equal(reconfig_from(w, 3, 1), 0);
    assert_true(w->e.deferred);
    assert_true(w->e.repeated);
    configure(w, 2);
    assert_true(w->e.resumed.is);
    assert_int_equal(w->e.resumed.origin, 3);
    int64_t zxid = w->e.zxid;
    size_t len = w->e.reply.len;
    assert_true(len > 0);
    assert_true(state_digest_now(w->s) == state_digest(w->s));
    assert_int_equal(session_command(w, 2, COMMAND_ATTACH_SESSION, MANY, MANY_BYTES), 0);
    assert_int_equal(reconfig_from(w, 2, 1), 0);
    assert_false(w->e.deferred);
    assert_true(w->e.repeated);
    assert_int_equal(w->e.zxid, zxid);
    assert_int_equal(w->e.reply.len, len);
}

static void a_reconfig_that_was_given_up_is_told_so_again(void **state)
{
    struct world *w = *state;
    struct state_reconfig under_way;
    configure(w, 3);
    maker_ids_add(&w->m, "super", "");
    begin(w, MANY, MANY_BYTES);
    assert_int_equal(reconfig_from(w, 2, 1), 0);
    assert_true(state_reconfig(w->s, &under_way));
    buf_reset(&w->m.body);
    reconfig_end_encode(&w->m.body, under_way.zxid, CONCLAVE_NEW_CONFIG_NO_QUORUM);
    apply(w->s, &w->e, &w->m, 0, COMMAND_RECONFIG_END, buf_slice(&w->m.body));
    assert_true(w->e.resumed.is);
    assert_int_equal(reconfig_from(w, 2, 1), CONCLAVE_NEW_CONFIG_NO_QUORUM);
    assert_true(w->e.repeated);
    assert_false(state_reconfig(w->s, &under_way));
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_first_answer_comes_again),
        TEST(an_error_is_an_answer),
        TEST(a_transaction_is_one_write),
        TEST(what_stayed_behind_is_no_first_time),
        TEST(what_was_answered_is_forgotten),
        TEST(limits_hold),
        TEST(a_gap_was_not_carried_out),
        TEST(numbers_wrap),
        TEST(only_for_who_asks),
        TEST(wishes_that_make_no_sense_are_refused),
        TEST(snapshots_have_them),
        TEST(the_version_before_is_read),
        TEST(a_reconfig_under_way_is_waited_for_again),
        TEST(a_reconfig_that_was_given_up_is_told_so_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
