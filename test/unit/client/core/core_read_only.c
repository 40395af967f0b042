/* The connection core on a server without a quorum: it reads, has no session, and goes on looking. */
#include "support/core_peer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void init(struct peer *p, bool read_only)
{
    struct core_options options = peer_options("");
    options.read_only = read_only;
    peer_init_with(p, &options);
}

/* The flag at the end of the connect request. */
static bool asks_for_read_only(struct peer *p)
{
    struct peer_frame f;
    p->sent_at = p->sent.len;
    core_link_up(&p->core, p->now_ns, 1000);
    assert_true(peer_take(p, &f, true));
    assert_int_equal(f.body.len, 45);
    return f.body.data[44] != 0;
}

static void feed_connect(struct peer *p, int64_t id, bool read_only)
{
    struct buf b;
    uint8_t passwd[WIRE_PASSWD_LEN] = {9};
    struct wire_connect_response response = {.timeout_ms = PEER_TIMEOUT_MS,
                                             .session_id = id,
                                             .passwd = slice_make(passwd, sizeof passwd)};
    buf_init(&b, 0);
    size_t start = wire_frame_begin(&b);
    wire_encode_connect_response(&b, &response);
    wire_write_boolean(&b, read_only);
    wire_frame_end(&b, start);
    peer_feed(p, buf_slice(&b), 0);
    buf_finish(&b);
}

static void submit(struct peer *p, const char *path, int id, bool counted)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    assert_int_equal(peer_submit_as(p, &op, id, counted), 0);
}

/* Programs read, recipes wait; no session is known; with a quorum it is a first session. */
static void test_reads_and_goes_on(void **state)
{
    struct peer p;
    init(&p, true);
    submit(&p, "/recipe", 1, false);
    submit(&p, "/a", 2, true);
    assert_true(asks_for_read_only(&p));
    feed_connect(&p, PEER_SESSION, true);
    assert_int_equal(p.core.state, CONCLAVE_STATE_READ_ONLY);
    assert_int_equal(p.core.session_id, 0);
    struct peer_frame f = peer_expect(&p, WIRE_EXISTS);
    peer_answer_stat(&p, &f, 5);
    assert_int_equal(peer_reply_of(&p, 2)->error, 0);
    submit(&p, "/b", 3, true);
    f = peer_expect(&p, WIRE_EXISTS);
    peer_reply(&p, f.xid, 5, CONCLAVE_NOT_READ_ONLY, slice_make("", 0));
    assert_int_equal(peer_reply_of(&p, 3)->error, CONCLAVE_NOT_READ_ONLY);
    assert_false(peer_take(&p, &f, false));
    assert_int_equal(peer_replies_of(&p, 1), 0);

    peer_advance_ms(&p, 1000); /* it looks for another server */
    assert_int_equal(p.core.link, LINK_NONE);
    assert_int_equal(p.core.state, CONCLAVE_STATE_CONNECTING);
    assert_true(asks_for_read_only(&p));
    feed_connect(&p, PEER_SESSION + 1, false);
    assert_int_equal(p.core.state, CONCLAVE_STATE_CONNECTED);
    assert_int_equal(p.core.session_id, PEER_SESSION + 1);
    f = peer_expect(&p, WIRE_EXISTS);
    peer_answer_stat(&p, &f, 6);
    assert_int_equal(peer_reply_of(&p, 1)->error, 0);
    peer_finish(&p);
}

/* The link is given up less and less often, not under a request, and pings go on. */
static void test_looks_less_and_less_often(void **state)
{
    struct peer p;
    init(&p, true);
    for (int64_t wait_ms = 1000; wait_ms <= 64000; wait_ms *= 2) {
        int64_t expected_ms = wait_ms < 60000 ? wait_ms : 60000;
        (void)asks_for_read_only(&p);
        feed_connect(&p, PEER_SESSION, true);
        for (int64_t t = 0; t < expected_ms - 1; t += 1000) {
            struct peer_frame f;
            peer_advance_ms(&p, t + 1000 < expected_ms ? 1000 : 999);
            assert_int_equal(p.core.link, LINK_UP);
            while (peer_take(&p, &f, false)) {
                peer_reply(&p, WIRE_XID_PING, 1, 0, slice_make("", 0));
            }
        }
        submit(&p, "/a", (int)wait_ms, true);
        peer_advance_ms(&p, 2);
        assert_int_equal(p.core.link, LINK_UP);
        struct peer_frame f = peer_expect(&p, WIRE_EXISTS);
        peer_answer_stat(&p, &f, 5);
        peer_advance_ms(&p, 1);
        assert_int_equal(p.core.link, LINK_NONE);
    }
    peer_finish(&p);
}

/* A session that may live is never shown to such a server, nor believed if it took it. */
static void test_a_session_is_not_for_it(void **state)
{
    struct peer p;
    init(&p, true);
    (void)asks_for_read_only(&p);
    feed_connect(&p, PEER_SESSION, false);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    assert_int_equal(p.core.state, CONCLAVE_STATE_SUSPENDED);
    peer_advance_ms(&p, 5000);
    assert_false(asks_for_read_only(&p));
    feed_connect(&p, PEER_SESSION, true);
    assert_int_equal(p.core.link, LINK_NONE);
    assert_int_equal(p.core.state, CONCLAVE_STATE_SUSPENDED);
    peer_advance_ms(&p, PEER_TIMEOUT_MS - 5000);
    assert_int_equal(p.core.state, CONCLAVE_STATE_LOST); /* by the last answer of a quorum */
    assert_true(asks_for_read_only(&p));
    feed_connect(&p, PEER_SESSION + 1, true);
    assert_int_equal(p.core.state, CONCLAVE_STATE_READ_ONLY);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    (void)asks_for_read_only(&p);
    feed_connect(&p, PEER_SESSION + 2, false);
    assert_int_equal(p.core.state, CONCLAVE_STATE_NEW_SESSION);
    peer_finish(&p);
}

static void test_not_asked_for(void **state)
{
    struct peer p;
    init(&p, false);
    assert_false(asks_for_read_only(&p));
    feed_connect(&p, PEER_SESSION, true);
    assert_int_equal(p.core.link, LINK_NONE);
    assert_int_equal(p.states_count, 0);
    peer_finish(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_and_goes_on),
        cmocka_unit_test(test_looks_less_and_less_often),
        cmocka_unit_test(test_a_session_is_not_for_it),
        cmocka_unit_test(test_not_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
