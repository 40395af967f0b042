/* The connection core: reads with a sync right before them. */
#include "support/core_peer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void no_watch(struct conclave_client *client, enum conclave_event_type type,
                     const char *path, void *ctx)
{
}

static struct conclave_op read_of(const char *path)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    op.linearizable = true;
    return op;
}

static void submit(struct peer *p, const char *path, int id)
{
    struct conclave_op op = read_of(path);
    assert_int_equal(peer_submit(p, &op, id), 0);
}

static struct peer_frame expect_sync(struct peer *p, const char *path)
{
    struct peer_frame f = peer_expect(p, WIRE_SYNC);
    struct wire_reader rd = wire_reader_make(f.body);
    assert_true(slice_equal_str(wire_read_string(&rd), path));
    assert_int_equal(wire_left(&rd), 0);
    return f;
}

static void answer_sync(struct peer *p, const struct peer_frame *f, int32_t err)
{
    struct buf b;
    buf_init(&b, 0);
    if (err == 0) {
        wire_write_string(&b, slice_str("/a"));
    }
    peer_reply(p, f->xid, 2, err, buf_slice(&b));
    buf_finish(&b);
}

/* Both frames go at once, in this order, and the caller gets only the read's answer. */
static void test_order(void **state)
{
    struct peer p;
    peer_init(&p, "/app");
    peer_connect(&p, PEER_SESSION);
    submit(&p, "/a", 1);
    submit(&p, "/b", 2);
    struct peer_frame f[4];
    f[0] = expect_sync(&p, "/app/a");
    f[1] = peer_expect(&p, WIRE_EXISTS);
    f[2] = expect_sync(&p, "/app/b");
    f[3] = peer_expect(&p, WIRE_EXISTS);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(f[i].xid, f[0].xid + i);
    }
    answer_sync(&p, &f[0], 0);
    assert_int_equal(p.replies_count, 0);
    peer_answer_stat(&p, &f[1], 3);
    assert_int_equal(peer_reply_of(&p, 1)->error, 0);
    assert_true(peer_reply_of(&p, 1)->has_stat);
    answer_sync(&p, &f[2], 0);
    assert_int_equal(p.replies_count, 1);
    peer_reply(&p, f[3].xid, 3, CONCLAVE_NO_NODE, slice_make("", 0));
    assert_int_equal(peer_reply_of(&p, 2)->error, CONCLAVE_NO_NODE);
    assert_int_equal(p.core.link, LINK_UP);
    peer_finish(&p);
}

/* Made without a link: both are sent once there is one, with numbers of that link that wrap. */
static void test_queued(void **state)
{
    struct peer p;
    peer_init(&p, "");
    p.core.next_xid = INT32_MAX - 2;
    submit(&p, "/a", 1);
    submit(&p, "/", 2);
    peer_connect(&p, PEER_SESSION);
    const int32_t xids[] = {INT32_MAX - 2, INT32_MAX - 1, INT32_MAX, 1};
    for (int i = 0; i < 2; i++) {
        struct peer_frame sync = expect_sync(&p, i == 0 ? "/a" : "/");
        struct peer_frame read = peer_expect(&p, WIRE_EXISTS);
        assert_int_equal(sync.xid, xids[2 * i]);
        assert_int_equal(read.xid, xids[2 * i + 1]);
        answer_sync(&p, &sync, 0);
        peer_answer_stat(&p, &read, 3);
        assert_int_equal(peer_reply_of(&p, i + 1)->error, 0);
    }
    peer_finish(&p);
}

/* The caller gets an error of the sync at once, and once; the read's own answer sets no watch. */
static void test_sync_fails(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    struct conclave_op op = conclave_op_watch(CONCLAVE_OP_EXISTS, "/a", no_watch, (void *)7);
    op.linearizable = true;
    assert_int_equal(peer_submit(&p, &op, 1), 0);
    submit(&p, "/a", 2);
    struct peer_frame sync = expect_sync(&p, "/a");
    struct peer_frame read = peer_expect(&p, WIRE_EXISTS);
    struct peer_frame sync2 = expect_sync(&p, "/a");
    struct peer_frame read2 = peer_expect(&p, WIRE_EXISTS);
    answer_sync(&p, &sync, CONCLAVE_NO_AUTH);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_NO_AUTH);
    peer_answer_stat(&p, &read, 3);
    peer_event(&p, CONCLAVE_EVENT_DATA_CHANGED, "/a");
    assert_int_equal(p.replies_count, 1);
    assert_int_equal(p.watches_count, 0);
    answer_sync(&p, &sync2, 0);
    peer_answer_stat(&p, &read2, 3);
    assert_int_equal(peer_reply_of(&p, 2)->error, 0);
    peer_finish(&p);
}

/* The link goes with both answers to come, between the two, and after a sync that failed. */
static void test_link_is_cut(void **state)
{
    struct peer p;
    peer_init(&p, "");
    for (int id = 1; id <= 3; id++) {
        peer_connect(&p, PEER_SESSION);
        submit(&p, "/a", id);
        struct peer_frame sync = expect_sync(&p, "/a");
        peer_expect(&p, WIRE_EXISTS);
        if (id > 1) {
            answer_sync(&p, &sync, id == 2 ? 0 : CONCLAVE_UNIMPLEMENTED);
        }
        core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
        assert_int_equal(peer_reply_of(&p, id)->error,
                         id == 3 ? CONCLAVE_UNIMPLEMENTED : CONCLAVE_CONNECTION_LOSS);
        assert_int_equal(p.core.pending, 0);
    }
    /* Nothing of them is sent again. */
    peer_connect(&p, PEER_SESSION);
    struct peer_frame f;
    assert_false(peer_take(&p, &f, false));
    peer_finish(&p);
}

/* The time runs out before the sync's answer, and between the two. */
static void test_timeouts(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    for (int id = 1; id <= 2; id++) {
        struct conclave_op op = read_of("/a");
        op.timeout_ms = 100;
        assert_int_equal(peer_submit(&p, &op, id), 0);
        struct peer_frame sync = expect_sync(&p, "/a");
        struct peer_frame read = peer_expect(&p, WIRE_EXISTS);
        if (id == 1) {
            peer_advance_ms(&p, 100);
            answer_sync(&p, &sync, CONCLAVE_NO_AUTH); /* too late for the caller */
        } else {
            answer_sync(&p, &sync, 0);
            peer_advance_ms(&p, 100);
        }
        assert_int_equal(peer_reply_of(&p, id)->error, CONCLAVE_OPERATION_TIMEOUT);
        peer_answer_stat(&p, &read, 3);
        assert_int_equal(p.core.pending, 0);
        assert_int_equal(p.core.link, LINK_UP);
    }
    peer_finish(&p);
}

/* A read's answer in place of the sync's, and the sync's twice: not of this protocol. */
static void test_wrong_order(void **state)
{
    struct peer p;
    peer_init(&p, "");
    for (int id = 1; id <= 2; id++) {
        peer_connect(&p, PEER_SESSION);
        submit(&p, "/a", id);
        struct peer_frame sync = expect_sync(&p, "/a");
        struct peer_frame read = peer_expect(&p, WIRE_EXISTS);
        if (id == 1) {
            peer_answer_stat(&p, &read, 3);
        } else {
            answer_sync(&p, &sync, 0);
            answer_sync(&p, &sync, 0);
        }
        assert_int_equal(p.core.link_error, CONCLAVE_EPROTO);
        assert_int_equal(peer_reply_of(&p, id)->error, CONCLAVE_CONNECTION_LOSS);
    }
    peer_finish(&p);
}

static void test_limit_counts_both(void **state)
{
    struct core_options options = peer_options("");
    options.max_pending = 3;
    struct peer p;
    peer_init_with(&p, &options);
    peer_connect(&p, PEER_SESSION);
    submit(&p, "/a", 1);
    struct conclave_op op = read_of("/a");
    assert_int_equal(p.core.pending, 2);
    assert_int_equal(peer_submit(&p, &op, 2), CONCLAVE_ETOOMANY);
    struct peer_frame sync = expect_sync(&p, "/a");
    struct peer_frame read = peer_expect(&p, WIRE_EXISTS);
    answer_sync(&p, &sync, 0);
    assert_int_equal(p.core.pending, 1);
    submit(&p, "/a", 3);
    op.linearizable = false;
    assert_int_equal(peer_submit(&p, &op, 4), CONCLAVE_ETOOMANY);
    peer_answer_stat(&p, &read, 3);
    assert_int_equal(p.core.pending, 2);
    assert_int_equal(peer_submit(&p, &op, 5), 0);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    assert_int_equal(p.core.pending, 0);

    /* Waiting for a link in vain it goes with both, too. */
    op.linearizable = true;
    op.timeout_ms = 10;
    assert_int_equal(peer_submit(&p, &op, 6), 0);
    assert_int_equal(p.core.pending, 2);
    peer_advance_ms(&p, 10);
    assert_int_equal(p.core.pending, 0);
    peer_finish(&p);
}

/* What has no path that must be there is behind a sync of the root. */
static void test_paths(void **state)
{
    struct peer p;
    peer_init(&p, "/app");
    peer_connect(&p, PEER_SESSION);
    struct conclave_op part = conclave_op_path(CONCLAVE_OP_GET, "/a", 0);
    struct conclave_op op = conclave_op_multi(&part, 1);
    op.type = CONCLAVE_OP_MULTI_READ;
    op.linearizable = true;
    assert_int_equal(peer_submit(&p, &op, 1), 0);
    expect_sync(&p, "/app");
    peer_expect(&p, WIRE_MULTI_READ);
    op = conclave_op_path(CONCLAVE_OP_GET_EPHEMERALS, "/a/", 0);
    op.linearizable = true;
    assert_int_equal(peer_submit(&p, &op, 2), 0);
    expect_sync(&p, "/app");
    peer_expect(&p, WIRE_GET_EPHEMERALS);
    op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, "/a", 0);
    op.linearizable = true;
    assert_int_equal(peer_submit(&p, &op, 3), 0);
    expect_sync(&p, "/app/a");
    peer_expect(&p, WIRE_GET_CHILDREN2);
    peer_finish(&p);
}

static void test_too_big_to_send(void **state)
{
    struct core_options options = peer_options("");
    options.max_request = 40;
    struct peer p;
    peer_init_with(&p, &options);
    struct conclave_op parts[4];
    for (int i = 0; i < 4; i++) {
        parts[i] = conclave_op_path(CONCLAVE_OP_GET, "/a", 0);
    }
    struct conclave_op op = conclave_op_multi(parts, 4);
    op.type = CONCLAVE_OP_MULTI_READ;
    op.linearizable = true;
    assert_int_equal(peer_submit(&p, &op, 1), CONCLAVE_ETOOBIG);
    peer_connect(&p, PEER_SESSION);
    assert_int_equal(peer_submit(&p, &op, 1), CONCLAVE_ETOOBIG);
    struct peer_frame f;
    assert_false(peer_take(&p, &f, false)); /* no sync without its read */
    submit(&p, "/a", 2);
    expect_sync(&p, "/a");
    peer_expect(&p, WIRE_EXISTS);
    peer_finish(&p);
}

static void test_bad_ops(void **state)
{
    const enum conclave_op_type writes[] = {CONCLAVE_OP_CREATE, CONCLAVE_OP_DELETE,
                                            CONCLAVE_OP_SET,    CONCLAVE_OP_SET_ACL,
                                            CONCLAVE_OP_SYNC,   CONCLAVE_OP_WHO_AM_I};
    struct conclave_op op;
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
        op = conclave_op_path(writes[i], "/a", 0);
        assert_int_equal(op_check(&op), 0);
        op.linearizable = true;
        assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    }
    struct conclave_op part = conclave_op_path(CONCLAVE_OP_GET, "/a", 0);
    op = conclave_op_multi(&part, 1);
    op.type = CONCLAVE_OP_MULTI_READ;
    op.linearizable = true;
    assert_int_equal(op_check(&op), 0);
    part.linearizable = true;
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_queued),
        cmocka_unit_test(test_sync_fails),
        cmocka_unit_test(test_link_is_cut),
        cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_wrong_order),
        cmocka_unit_test(test_limit_counts_both),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_too_big_to_send),
        cmocka_unit_test(test_bad_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
