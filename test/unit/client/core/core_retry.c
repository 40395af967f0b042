/* The connection core: which requests are repeated, when, how often, and what their last answer says. */
#include "support/core_peer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MIN_MS = 100, MAX_MS = 400, REPEATS = 4 };

static const struct conclave_retry_options policy = {
    sizeof policy,
    REPEATS,
    MIN_MS,
    MAX_MS,
};

static void begin(struct peer *p)
{
    struct core_options options = peer_options("");
    options.retry = policy;
    options.seed = 7;
    peer_init_with(p, &options);
    peer_connect(p, PEER_SESSION);
}

static struct conclave_op get_of(const char *path)
{
    return conclave_op_path(CONCLAVE_OP_GET, path, 0);
}

static void submit(struct peer *p, const struct conclave_op *op, int id)
{
    assert_int_equal(peer_submit(p, op, id), 0);
}

static void lose_link(struct peer *p)
{
    core_link_down(&p->core, p->now_ns, CONCLAVE_EDISCONNECTED);
}

static bool nothing_sent(struct peer *p)
{
    struct peer_frame f;
    return !peer_take(p, &f, false);
}

static void refuse(struct peer *p, const struct peer_frame *f, int error)
{
    peer_reply(p, f->xid, 2, error, slice_make("", 0));
}

/* Advances until the core sends; the time that took. */
static int64_t pause_ms(struct peer *p)
{
    int64_t ms = 0;
    while (core_output(&p->core).len == 0) {
        assert_true(++ms <= MAX_MS);
        peer_advance_ms(p, 1);
    }
    return ms;
}

static void test_a_read_survives_a_lost_link(void **state)
{
    struct peer p;
    struct conclave_op op = get_of("/a");
    begin(&p);
    submit(&p, &op, 1);
    peer_expect(&p, WIRE_GET_DATA);
    lose_link(&p);
    assert_int_equal(p.replies_count, 0);
    peer_connect(&p, PEER_SESSION);
    assert_true(nothing_sent(&p));
    assert_in_range(pause_ms(&p), MIN_MS / 2, MIN_MS);
    struct peer_frame f = peer_expect(&p, WIRE_GET_DATA);
    refuse(&p, &f, CONCLAVE_NO_NODE); /* an answer as any other */
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_NO_NODE);
    peer_finish(&p);
}

static void test_pauses_grow_and_repeats_end(void **state)
{
    static const int64_t pauses[REPEATS] = {MIN_MS, 2 * MIN_MS, MAX_MS, MAX_MS};
    struct peer p;
    struct conclave_op op = conclave_op_create("/a", "", 0, CONCLAVE_PERSISTENT);
    begin(&p);
    submit(&p, &op, 1);
    for (int i = 0; i < REPEATS; i++) {
        struct peer_frame f = peer_expect(&p, WIRE_CREATE2);
        refuse(&p, &f, CONCLAVE_THROTTLED);
        assert_int_equal(p.replies_count, 0);
        assert_in_range(pause_ms(&p), pauses[i] / 2, pauses[i]);
    }
    struct peer_frame f = peer_expect(&p, WIRE_CREATE2);
    refuse(&p, &f, CONCLAVE_THROTTLED);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_THROTTLED);
    peer_advance_ms(&p, MAX_MS);
    assert_true(nothing_sent(&p));
    peer_finish(&p);
}

static void test_the_timeout_is_the_deadline(void **state)
{
    struct peer p;
    struct conclave_op op = get_of("/a");
    op.timeout_ms = MIN_MS / 4; /* ends within the first pause */
    begin(&p);
    submit(&p, &op, 1);
    struct peer_frame f = peer_expect(&p, WIRE_GET_DATA);
    refuse(&p, &f, CONCLAVE_THROTTLED);
    peer_advance_ms(&p, MIN_MS / 4);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_OPERATION_TIMEOUT);
    peer_advance_ms(&p, MAX_MS);
    assert_true(nothing_sent(&p));
    assert_int_equal(peer_replies_of(&p, 1), 1);
    peer_finish(&p);
}

/* A conditional set whose first answer was lost: its last answer is a success only if this try was carried out. */
static void test_a_conditional_set(void **state)
{
    static const struct {
        int lost;  /* tries whose link was lost */
        int error; /* of the last try */
        int told;
    } cases[] = {
        {0, CONCLAVE_BAD_VERSION, CONCLAVE_BAD_VERSION},
        {1, 0, 0},
        {1, CONCLAVE_BAD_VERSION, CONCLAVE_CONNECTION_LOSS},
        {1, CONCLAVE_NO_NODE, CONCLAVE_CONNECTION_LOSS},
        {2, 0, 0},
        {2, CONCLAVE_BAD_VERSION, CONCLAVE_CONNECTION_LOSS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct peer p;
        struct conclave_op op = conclave_op_set("/a", "v", 1, 3);
        begin(&p);
        submit(&p, &op, 1);
        for (int n = 0; n < cases[i].lost; n++) {
            peer_expect(&p, WIRE_SET_DATA);
            lose_link(&p);
            peer_connect(&p, PEER_SESSION);
            pause_ms(&p);
        }
        struct peer_frame f = peer_expect(&p, WIRE_SET_DATA);
        if (cases[i].error == 0) {
            peer_answer_stat(&p, &f, 9);
        } else {
            refuse(&p, &f, cases[i].error);
        }
        assert_int_equal(peer_reply_of(&p, 1)->error, cases[i].told);
        peer_finish(&p);
    }
}

/* A refusal is no try: the error after it is the server's own. */
static void test_a_refused_set_is_certain(void **state)
{
    struct peer p;
    struct conclave_op op = conclave_op_set("/a", "v", 1, 3);
    begin(&p);
    submit(&p, &op, 1);
    struct peer_frame f = peer_expect(&p, WIRE_SET_DATA);
    refuse(&p, &f, CONCLAVE_SESSION_MOVED);
    pause_ms(&p);
    f = peer_expect(&p, WIRE_SET_DATA);
    refuse(&p, &f, CONCLAVE_BAD_VERSION);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_BAD_VERSION);
    peer_finish(&p);
}

static void test_what_is_not_repeated_after_a_lost_link(void **state)
{
    struct conclave_op set = conclave_op_set("/a", "v", 1, 3);
    const struct conclave_op ops[] = {
        conclave_op_create("/a", "", 0, CONCLAVE_PERSISTENT),
        conclave_op_create("/a-", "", 0, CONCLAVE_EPHEMERAL_SEQUENTIAL),
        conclave_op_path(CONCLAVE_OP_DELETE, "/a", 3),
        conclave_op_path(CONCLAVE_OP_DELETE, "/a", -1),
        conclave_op_set("/a", "v", 1, -1),
        conclave_op_multi(&set, 1),
    };
    int count = (int)(sizeof ops / sizeof ops[0]);
    struct peer p;
    struct peer_frame f;
    begin(&p);
    for (int i = 0; i < count; i++) {
        submit(&p, &ops[i], i + 1);
    }
    while (peer_take(&p, &f, false)) {}
    lose_link(&p);
    for (int i = 0; i < count; i++) {
        assert_int_equal(peer_reply_of(&p, i + 1)->error, CONCLAVE_CONNECTION_LOSS);
    }
    peer_connect(&p, PEER_SESSION);
    peer_advance_ms(&p, MAX_MS);
    assert_true(nothing_sent(&p));
    peer_finish(&p);
}

/* At the end of the session reads go on; what belongs to it does not, and a set that may have been carried out says so. */
static void test_the_session_ends(void **state)
{
    struct peer p;
    struct conclave_op get = get_of("/a");
    struct conclave_op set = conclave_op_set("/a", "v", 1, 3);
    struct conclave_op create = conclave_op_create("/a", "", 0, CONCLAVE_EPHEMERAL);
    begin(&p);
    submit(&p, &get, 1);
    submit(&p, &create, 2);
    submit(&p, &set, 3);
    peer_expect(&p, WIRE_GET_DATA);
    struct peer_frame f = peer_expect(&p, WIRE_CREATE2);
    peer_expect(&p, WIRE_SET_DATA);
    lose_link(&p);
    submit(&p, &get, 4); /* never sent in this session */
    assert_int_equal(peer_reply_of(&p, 2)->error, CONCLAVE_CONNECTION_LOSS);
    peer_advance_ms(&p, MIN_MS / 4);
    core_link_up(&p.core, p.now_ns, 1000);
    struct buf b;
    buf_init(&b, 0);
    peer_put_connect(&b, 0, 0, WIRE_PASSWD_LEN); /* the server does not know the session */
    peer_feed(&p, buf_slice(&b), 0);
    buf_finish(&b);
    assert_int_equal(p.core.state, CONCLAVE_STATE_LOST);
    assert_int_equal(peer_reply_of(&p, 3)->error, CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(p.replies_count, 2);
    peer_connect(&p, PEER_SESSION + 1);
    peer_advance_ms(&p, MAX_MS);
    f = peer_expect(&p, WIRE_GET_DATA);
    refuse(&p, &f, CONCLAVE_NO_NODE);
    f = peer_expect(&p, WIRE_GET_DATA);
    refuse(&p, &f, CONCLAVE_NO_NODE);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_NO_NODE);
    assert_int_equal(peer_reply_of(&p, 4)->error, CONCLAVE_NO_NODE);
    peer_finish(&p);
}

/* A create that pauses when its session ends is not made in the next one. */
static void test_a_pausing_create_ends_with_its_session(void **state)
{
    struct peer p;
    struct conclave_op create = conclave_op_create("/a", "", 0, CONCLAVE_EPHEMERAL);
    begin(&p);
    submit(&p, &create, 1);
    struct peer_frame f = peer_expect(&p, WIRE_CREATE2);
    refuse(&p, &f, CONCLAVE_THROTTLED);
    lose_link(&p);
    p.now_ns += (int64_t)PEER_TIMEOUT_MS * 1000000;
    core_link_up(&p.core, p.now_ns, 1000);
    lose_link(&p);
    assert_int_equal(p.core.state, CONCLAVE_STATE_LOST);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_SESSION_EXPIRED);
    peer_finish(&p);
}

static void test_closing_ends_a_pause(void **state)
{
    struct peer p;
    struct conclave_op op = get_of("/a");
    begin(&p);
    submit(&p, &op, 1);
    struct peer_frame f = peer_expect(&p, WIRE_GET_DATA);
    refuse(&p, &f, CONCLAVE_THROTTLED);
    core_close(&p.core, p.now_ns, 1000);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_ECLOSED);
    f = peer_expect(&p, WIRE_CLOSE_SESSION);
    refuse(&p, &f, 0);
    peer_finish(&p);
}

/* A request has its own policy, or the client's; those of recipes have none. */
static void test_whose_policy(void **state)
{
    struct peer p;
    struct conclave_retry_options never = policy;
    struct conclave_retry_options bad = policy;
    struct conclave_op op = get_of("/a");
    begin(&p);
    never.max_repeats = 0;
    op.retry = &never;
    submit(&p, &op, 1);
    op.retry = NULL;
    assert_int_equal(peer_submit_as(&p, &op, 2, false), 0);
    submit(&p, &op, 3);
    lose_link(&p);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(peer_reply_of(&p, 2)->error, CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(peer_replies_of(&p, 3), 0);
    bad.pause_min_ms = MAX_MS + 1;
    op.retry = &bad;
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    bad = policy;
    bad.size = 0;
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    peer_finish(&p);
}

/* A read is repeated together with the sync before it, whichever of the two was refused. */
static void test_linearizable(void **state)
{
    for (int refused = 0; refused < 2; refused++) {
        struct peer p;
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/a", 0);
        struct buf path;
        begin(&p);
        buf_init(&path, 0);
        wire_write_string(&path, slice_str("/a"));
        op.linearizable = true;
        submit(&p, &op, 1);
        struct peer_frame sync = peer_expect(&p, WIRE_SYNC);
        struct peer_frame read = peer_expect(&p, WIRE_EXISTS);
        peer_reply(&p, sync.xid, 2, refused == 0 ? CONCLAVE_THROTTLED : 0, buf_slice(&path));
        if (refused == 0) {
            peer_answer_stat(&p, &read, 3);
        } else {
            refuse(&p, &read, CONCLAVE_THROTTLED);
        }
        assert_int_equal(p.replies_count, 0);
        pause_ms(&p);
        sync = peer_expect(&p, WIRE_SYNC);
        read = peer_expect(&p, WIRE_EXISTS);
        peer_reply(&p, sync.xid, 4, 0, buf_slice(&path));
        peer_answer_stat(&p, &read, 5);
        assert_int_equal(peer_reply_of(&p, 1)->error, 0);
        buf_finish(&path);
        peer_finish(&p);
    }
}

/* The watch of a repeated read is set once, by the answer that is told. */
static void test_a_watch(void **state)
{
    struct peer p;
    begin(&p);
    peer_watch(&p, CONCLAVE_OP_EXISTS, "/a", 1);
    peer_expect(&p, WIRE_EXISTS);
    lose_link(&p);
    peer_connect(&p, PEER_SESSION);
    assert_true(nothing_sent(&p)); /* no watch to set again */
    pause_ms(&p);
    struct peer_frame f = peer_expect(&p, WIRE_EXISTS);
    peer_answer_stat(&p, &f, 3);
    peer_event(&p, CONCLAVE_EVENT_DATA_CHANGED, "/a");
    assert_int_equal(peer_watches_of(&p, 1), 1);
    peer_finish(&p);
}

/* Requests that pause count against the limit. */
static void test_pausing_requests_count(void **state)
{
    struct peer p;
    struct conclave_op op = get_of("/a");
    struct core_options options = peer_options("");
    options.retry = policy;
    options.max_pending = 1;
    peer_init_with(&p, &options);
    peer_connect(&p, PEER_SESSION);
    submit(&p, &op, 1);
    struct peer_frame f = peer_expect(&p, WIRE_GET_DATA);
    refuse(&p, &f, CONCLAVE_THROTTLED);
    assert_int_equal(peer_submit(&p, &op, 2), CONCLAVE_ETOOMANY);
    pause_ms(&p);
    f = peer_expect(&p, WIRE_GET_DATA);
    refuse(&p, &f, CONCLAVE_NO_NODE);
    submit(&p, &op, 3);
    peer_finish(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_read_survives_a_lost_link),
        cmocka_unit_test(test_pauses_grow_and_repeats_end),
        cmocka_unit_test(test_the_timeout_is_the_deadline),
        cmocka_unit_test(test_a_conditional_set),
        cmocka_unit_test(test_a_refused_set_is_certain),
        cmocka_unit_test(test_what_is_not_repeated_after_a_lost_link),
        cmocka_unit_test(test_the_session_ends),
        cmocka_unit_test(test_a_pausing_create_ends_with_its_session),
        cmocka_unit_test(test_closing_ends_a_pause),
        cmocka_unit_test(test_whose_policy),
        cmocka_unit_test(test_linearizable),
        cmocka_unit_test(test_a_watch),
        cmocka_unit_test(test_pausing_requests_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
