/* The connection core: requests, their order, timeouts and replies. */
#include "support/core_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int submit_exists(struct peer *p, int id, int64_t timeout_ms)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/a", 0);
    op.timeout_ms = timeout_ms;
    return peer_submit(p, &op, id);
}

static void test_order_is_checked(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    assert_int_equal(submit_exists(&p, 1, 0), 0);
    assert_int_equal(submit_exists(&p, 2, 0), 0);
    peer_expect(&p, WIRE_EXISTS);
    struct peer_frame second = peer_expect(&p, WIRE_EXISTS);
    peer_answer_stat(&p, &second, 3);
    assert_int_equal(p.core.link, LINK_NONE);
    assert_int_equal(p.core.link_error, CONCLAVE_EPROTO);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(peer_reply_of(&p, 2)->error, CONCLAVE_CONNECTION_LOSS);
    peer_finish(&p);
}

static void test_answer_to_nothing(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    peer_reply(&p, 1, 3, 0, slice_make("", 0));
    assert_int_equal(p.core.link_error, CONCLAVE_EPROTO);
    peer_connect(&p, PEER_SESSION);
    peer_reply(&p, WIRE_XID_SET_WATCHES, 3, 0, slice_make("", 0));
    assert_int_equal(p.core.link_error, CONCLAVE_EPROTO);
    peer_finish(&p);
}

static void test_xids_wrap(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    p.core.next_xid = INT32_MAX - 1;
    const int32_t xids[] = {INT32_MAX - 1, INT32_MAX, 1, 2};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(submit_exists(&p, i + 1, 0), 0);
    }
    for (int i = 0; i < 4; i++) {
        struct peer_frame f = peer_expect(&p, WIRE_EXISTS);
        assert_int_equal(f.xid, xids[i]);
        peer_answer_stat(&p, &f, 3);
        assert_int_equal(peer_reply_of(&p, i + 1)->error, 0);
    }
    peer_finish(&p);
}

/* A request that timed out on the link keeps its place: its late answer is not taken for the
 * next one's. */
static void test_timeouts(void **state)
{
    struct peer p;
    peer_init(&p, "");
    assert_int_equal(submit_exists(&p, 1, 100), 0);
    peer_advance_ms(&p, 99);
    assert_int_equal(peer_replies_of(&p, 1), 0);
    peer_advance_ms(&p, 1);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_OPERATION_TIMEOUT);
    peer_connect(&p, PEER_SESSION);
    assert_int_equal(submit_exists(&p, 2, 100), 0);
    assert_int_equal(submit_exists(&p, 3, CONCLAVE_FOREVER), 0);
    struct peer_frame late = peer_expect(&p, WIRE_EXISTS);
    struct peer_frame next = peer_expect(&p, WIRE_EXISTS);
    peer_advance_ms(&p, 100);
    assert_int_equal(peer_reply_of(&p, 2)->error, CONCLAVE_OPERATION_TIMEOUT);
    assert_int_equal(p.core.link, LINK_UP);
    peer_answer_stat(&p, &late, 3);
    peer_answer_stat(&p, &next, 3);
    assert_int_equal(peer_reply_of(&p, 3)->error, 0);
    assert_int_equal(submit_exists(&p, 4, 1), 0);
    peer_advance_ms(&p, 1);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    assert_int_equal(peer_reply_of(&p, 4)->error, CONCLAVE_OPERATION_TIMEOUT);
    peer_finish(&p);
}

static void test_watch_of_a_timed_out_read(void **state)
{
    struct core_options options = peer_options("");
    options.request_timeout_ms = 50;
    struct peer p;
    peer_init_with(&p, &options);
    peer_connect(&p, PEER_SESSION);
    peer_watch(&p, CONCLAVE_OP_EXISTS, "/a", 1);
    struct peer_frame f = peer_expect(&p, WIRE_EXISTS);
    peer_advance_ms(&p, 50);
    peer_answer_stat(&p, &f, 3);
    peer_event(&p, CONCLAVE_EVENT_DATA_CHANGED, "/a");
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_OPERATION_TIMEOUT);
    assert_int_equal(p.watches_count, 0);
    peer_finish(&p);
}

/* Requests made without a link are sent in their order once there is one. */
static void test_queue(void **state)
{
    struct peer p;
    peer_init(&p, "");
    for (int i = 1; i <= 100; i++) {
        assert_int_equal(submit_exists(&p, i, 0), 0);
    }
    peer_connect(&p, PEER_SESSION);
    for (int i = 1; i <= 100; i++) {
        struct peer_frame f = peer_expect(&p, WIRE_EXISTS);
        peer_answer_stat(&p, &f, i);
        assert_int_equal(p.replies[p.replies_count - 1].id, i);
        assert_true(p.replies[p.replies_count - 1].has_stat);
    }
    peer_finish(&p);
}

/* The core counts the requests that it holds: sent, waiting, or timed out without an answer yet. */
static void test_limit_of_requests(void **state)
{
    struct core_options options = peer_options("");
    options.max_pending = 3;
    struct peer p;
    peer_init_with(&p, &options);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(submit_exists(&p, i, i == 1 ? 50 : 0), 0);
    }
    assert_int_equal(submit_exists(&p, 4, 0), CONCLAVE_ETOOMANY);
    peer_advance_ms(&p, 50); /* the first has waited for a link in vain: it is gone */
    assert_int_equal(p.core.pending, 2);
    assert_int_equal(submit_exists(&p, 5, 100), 0);
    assert_int_equal(submit_exists(&p, 6, 0), CONCLAVE_ETOOMANY);

    peer_connect(&p, PEER_SESSION);
    struct peer_frame f[3];
    for (int i = 0; i < 3; i++) {
        f[i] = peer_expect(&p, WIRE_EXISTS);
    }
    peer_advance_ms(&p, 100); /* 5 times out, but the server still owes its answer */
    assert_int_equal(peer_reply_of(&p, 5)->error, CONCLAVE_OPERATION_TIMEOUT);
    assert_int_equal(submit_exists(&p, 7, 0), CONCLAVE_ETOOMANY);
    for (int i = 0; i < 3; i++) {
        peer_answer_stat(&p, &f[i], 3 + i);
        assert_int_equal(p.core.pending, 2 - i);
    }

    assert_int_equal(submit_exists(&p, 8, 0), 0);
    assert_int_equal(submit_exists(&p, 9, 0), 0);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    assert_int_equal(p.core.pending, 0);
    peer_finish(&p);
}

/* Those of the recipes go on, whatever the program does. */
static void test_limit_spares_recipes(void **state)
{
    struct core_options options = peer_options("");
    options.max_pending = 1;
    struct peer p;
    peer_init_with(&p, &options);
    assert_int_equal(submit_exists(&p, 1, 0), 0);
    assert_int_equal(submit_exists(&p, 2, 0), CONCLAVE_ETOOMANY);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/a", 0);
    struct client_request *r;
    assert_int_equal(request_create(&op, &r), 0);
    r->ctx = (void *)(intptr_t)3;
    assert_int_equal(core_submit(&p.core, &op, r, p.now_ns), 0);
    assert_int_equal(p.core.pending, 1);
    peer_finish(&p);
}

/* A create that goes out a second time, in its older form, counts once. */
static void test_limit_and_older_servers(void **state)
{
    struct core_options options = peer_options("");
    options.max_pending = 1;
    struct peer p;
    peer_init_with(&p, &options);
    peer_connect(&p, PEER_SESSION);
    struct conclave_op op = conclave_op_create("/a", "", 0, CONCLAVE_PERSISTENT);
    assert_int_equal(peer_submit(&p, &op, 1), 0);
    struct peer_frame f = peer_expect(&p, WIRE_CREATE2);
    peer_reply(&p, f.xid, 3, CONCLAVE_UNIMPLEMENTED, SLICE_NULL);
    assert_int_equal(p.core.pending, 1);
    assert_int_equal(submit_exists(&p, 2, 0), CONCLAVE_ETOOMANY);
    peer_connect(&p, PEER_SESSION);
    f = peer_expect(&p, WIRE_CREATE);
    peer_reply(&p, f.xid, 4, CONCLAVE_NODE_EXISTS, SLICE_NULL);
    assert_int_equal(p.core.pending, 0);
    assert_int_equal(submit_exists(&p, 2, 0), 0);
    peer_finish(&p);
}

/* A reply beyond the limit is thrown away as it comes; the link and the other requests live on. */
static void test_oversized_reply(void **state)
{
    struct core_options options = peer_options("");
    options.max_reply = 1000;
    for (size_t piece = 1; piece <= 700; piece += 233) {
        struct peer p;
        peer_init_with(&p, &options);
        peer_connect(&p, PEER_SESSION);
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, "/a", 0);
        assert_int_equal(peer_submit(&p, &op, 1), 0);
        assert_int_equal(submit_exists(&p, 2, 0), 0);
        struct peer_frame get = peer_expect(&p, WIRE_GET_DATA);
        struct peer_frame exists = peer_expect(&p, WIRE_EXISTS);
        struct buf b;
        buf_init(&b, 0);
        uint8_t big[5000] = {0};
        peer_put_reply(&b, get.xid, 3, 0, slice_make(big, sizeof big));
        peer_feed(&p, buf_slice(&b), piece);
        buf_finish(&b);
        assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_ETOOBIG);
        peer_answer_stat(&p, &exists, 3);
        assert_int_equal(peer_reply_of(&p, 2)->error, 0);
        assert_int_equal(p.core.link, LINK_UP);
        peer_finish(&p);
    }
}

static void test_too_big_to_send(void **state)
{
    struct core_options options = peer_options("");
    options.max_request = 1000;
    struct peer p;
    peer_init_with(&p, &options);
    uint8_t big[1000] = {0};
    struct conclave_op op = conclave_op_set("/a", big, sizeof big, -1);
    assert_int_equal(peer_submit(&p, &op, 1), CONCLAVE_ETOOBIG);
    peer_connect(&p, PEER_SESSION);
    assert_int_equal(peer_submit(&p, &op, 1), CONCLAVE_ETOOBIG);
    struct peer_frame f;
    assert_false(peer_take(&p, &f, false));
    op.data_len = 900;
    assert_int_equal(peer_submit(&p, &op, 1), 0);
    peer_expect(&p, WIRE_SET_DATA);
    peer_finish(&p);
}

static void answer_path(struct peer *p, const struct peer_frame *f, const char *path, bool stat)
{
    struct buf b;
    buf_init(&b, 0);
    wire_write_string(&b, slice_str(path));
    if (stat) {
        peer_put_stat(&b, 7);
    }
    peer_reply(p, f->xid, 7, 0, buf_slice(&b));
    buf_finish(&b);
}

/* A server from before create2: create is sent on the next link instead, and from then on. */
static void test_create_without_create2(void **state)
{
    struct peer p;
    peer_init(&p, "/r");
    peer_connect(&p, PEER_SESSION);
    struct conclave_op op = conclave_op_create("/a-", "v", 1, CONCLAVE_EPHEMERAL_SEQUENTIAL);
    assert_int_equal(peer_submit(&p, &op, 1), 0);
    assert_int_equal(submit_exists(&p, 2, 0), 0);
    struct peer_frame f = peer_expect(&p, WIRE_CREATE2);
    peer_reply(&p, f.xid, 3, CONCLAVE_UNIMPLEMENTED, slice_make("", 0));
    assert_int_equal(p.core.link, LINK_NONE);
    assert_int_equal(peer_reply_of(&p, 2)->error, CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(peer_replies_of(&p, 1), 0);
    peer_connect(&p, PEER_SESSION);
    f = peer_expect(&p, WIRE_CREATE);
    answer_path(&p, &f, "/r/a-0000000001", false);
    assert_string_equal(peer_reply_of(&p, 1)->path, "/a-0000000001");
    assert_false(peer_reply_of(&p, 1)->has_stat);
    assert_int_equal(peer_submit(&p, &op, 3), 0);
    f = peer_expect(&p, WIRE_CREATE);
    answer_path(&p, &f, "/elsewhere", false); /* not below the chroot: nonsense */
    assert_int_equal(peer_reply_of(&p, 3)->error, CONCLAVE_EPROTO);
    assert_int_equal(p.core.link, LINK_NONE);
    peer_finish(&p);
}

static void test_create2(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    for (int i = 1; i <= 2; i++) {
        struct conclave_op op = conclave_op_create("/c", NULL, 0, CONCLAVE_PERSISTENT);
        assert_int_equal(peer_submit(&p, &op, i), 0);
        struct peer_frame f = peer_expect(&p, WIRE_CREATE2);
        answer_path(&p, &f, "/c", true);
        assert_true(peer_reply_of(&p, i)->has_stat);
        assert_string_equal(peer_reply_of(&p, i)->path, "/c");
    }
    struct conclave_op op = conclave_op_create("/d", NULL, 0, CONCLAVE_CONTAINER);
    assert_int_equal(peer_submit(&p, &op, 3), 0);
    struct peer_frame f = peer_expect(&p, WIRE_CREATE_CONTAINER);
    answer_path(&p, &f, "/d", true);
    assert_int_equal(peer_reply_of(&p, 3)->error, 0);
    peer_finish(&p);
}

static void put_result(struct buf *b, int32_t type, int32_t err)
{
    struct wire_multi_header header = {type, false, err};
    wire_encode_multi_header(b, &header);
}

static void answer_multi(struct peer *p, const struct peer_frame *f, struct buf *b)
{
    struct wire_multi_header end = {-1, true, -1};
    wire_encode_multi_header(b, &end);
    peer_reply(p, f->xid, 9, 0, buf_slice(b));
    buf_finish(b);
}

static void test_multi(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    const struct conclave_op parts[] = {
        conclave_op_path(CONCLAVE_OP_CHECK, "/a", 3),
        conclave_op_create("/b", "v", 1, CONCLAVE_PERSISTENT),
        conclave_op_set("/c", "w", 1, 2),
        conclave_op_path(CONCLAVE_OP_DELETE, "/d", -1),
    };
    struct conclave_op op = conclave_op_multi(parts, 4);
    assert_int_equal(peer_submit(&p, &op, 1), 0);
    struct peer_frame f = peer_expect(&p, WIRE_MULTI);
    struct buf b;
    buf_init(&b, 0);
    put_result(&b, WIRE_CHECK, 0);
    put_result(&b, WIRE_CREATE, 0);
    wire_write_string(&b, slice_str("/b"));
    put_result(&b, WIRE_SET_DATA, 0);
    peer_put_stat(&b, 9);
    put_result(&b, WIRE_DELETE, 0);
    answer_multi(&p, &f, &b);
    assert_int_equal(peer_reply_of(&p, 1)->error, 0);
    assert_int_equal(peer_reply_of(&p, 1)->count, 4);

    assert_int_equal(peer_submit(&p, &op, 2), 0);
    f = peer_expect(&p, WIRE_MULTI);
    const int32_t errors[] = {0, CONCLAVE_NODE_EXISTS, CONCLAVE_RUNTIME_INCONSISTENCY,
                              CONCLAVE_RUNTIME_INCONSISTENCY};
    for (int i = 0; i < 4; i++) {
        put_result(&b, WIRE_ERROR, errors[i]);
        wire_write_i32(&b, errors[i]);
    }
    answer_multi(&p, &f, &b);
    assert_int_equal(peer_reply_of(&p, 2)->error, CONCLAVE_NODE_EXISTS);
    assert_int_equal(p.core.link, LINK_UP);

    assert_int_equal(peer_submit(&p, &op, 3), 0); /* fewer results than parts */
    f = peer_expect(&p, WIRE_MULTI);
    put_result(&b, WIRE_CHECK, 0);
    answer_multi(&p, &f, &b);
    assert_int_equal(peer_reply_of(&p, 3)->error, CONCLAVE_EPROTO);
    assert_int_equal(p.core.link, LINK_NONE);
    peer_finish(&p);
}

static void test_null_and_empty_data(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, "/a", 0);
    for (int i = 0; i < 2; i++) {
        struct client_request *r;
        assert_int_equal(request_create(&op, &r), 0);
        struct buf b;
        buf_init(&b, 0);
        wire_write_buffer(&b, i == 0 ? SLICE_NULL : slice_make("", 0));
        peer_put_stat(&b, 1);
        assert_int_equal(request_decode(r, buf_slice(&b), slice_str("")), 0);
        assert_int_equal(r->reply.data_len, 0);
        assert_true((r->reply.data == NULL) == (i == 0));
        struct conclave_reply *taken = request_take_reply(r);
        request_unref(r);
        assert_non_null(taken);
        assert_true(taken->has_stat && taken->stat.czxid == 1);
        conclave_reply_free(taken);
        buf_finish(&b);
    }
    peer_finish(&p);
}

static void test_bad_ops(void **state)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_CHECK, "/a", 0);
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    op = conclave_op_path(CONCLAVE_OP_GET, "a", 0);
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    op = conclave_op_path((enum conclave_op_type)77, "/a", 0);
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    op = conclave_op_create("/a", NULL, 5, CONCLAVE_PERSISTENT);
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    op = conclave_op_create("/a", NULL, 0, (enum conclave_create_mode)9);
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    op = conclave_op_create("/a/", NULL, 0, CONCLAVE_PERSISTENT);
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    op = conclave_op_create("/a/", NULL, 0, CONCLAVE_PERSISTENT_SEQUENTIAL);
    assert_int_equal(op_check(&op), 0);
    struct conclave_op read = conclave_op_path(CONCLAVE_OP_GET, "/a", 0);
    op = conclave_op_multi(&read, 1);
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    op = conclave_op_multi(NULL, 0);
    assert_int_equal(op_check(&op), 0);
    op.timeout_ms = -2;
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    assert_int_equal(op_check(NULL), CONCLAVE_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_is_checked),
        cmocka_unit_test(test_answer_to_nothing),
        cmocka_unit_test(test_xids_wrap),
        cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_watch_of_a_timed_out_read),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_limit_of_requests),
        cmocka_unit_test(test_limit_spares_recipes),
        cmocka_unit_test(test_limit_and_older_servers),
        cmocka_unit_test(test_oversized_reply),
        cmocka_unit_test(test_too_big_to_send),
        cmocka_unit_test(test_create_without_create2),
        cmocka_unit_test(test_create2),
        cmocka_unit_test(test_multi),
        cmocka_unit_test(test_null_and_empty_data),
        cmocka_unit_test(test_bad_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
