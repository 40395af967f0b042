/* The connection core: handshake, pings, dead links, re-attachment, loss, closing. */
#include "support/core_peer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void assert_states(const struct peer *p, const enum conclave_state *states, size_t count)
{
    assert_int_equal(p->states_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(conclave_state_name(p->states[i]), conclave_state_name(states[i]));
    }
}

#define ASSERT_STATES(p, ...)                                                                      \
    do {                                                                                           \
        const enum conclave_state expected_[] = {__VA_ARGS__};                                     \
        assert_states(p, expected_, sizeof expected_ / sizeof *expected_);                         \
    } while (0)

static void feed_connect(struct peer *p, int32_t timeout_ms, int64_t id, size_t passwd_len)
{
    struct buf b;
    buf_init(&b, 0);
    peer_put_connect(&b, timeout_ms, id, passwd_len);
    peer_feed(p, buf_slice(&b), 0);
    buf_finish(&b);
}

static struct wire_connect_request connect_request(struct peer *p)
{
    struct peer_frame f;
    p->sent_at = p->sent.len;
    core_link_up(&p->core, p->now_ns, 1000);
    assert_true(peer_take(p, &f, true));
    assert_int_equal(f.body.len, 45);
    struct wire_reader rd = wire_reader_make(f.body);
    struct wire_connect_request request;
    assert_int_equal(wire_decode_connect_request(&rd, &request), 0);
    return request;
}

static void submit_get(struct peer *p, int id)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/a", 0);
    assert_int_equal(peer_submit(p, &op, id), 0);
}

static void test_new_session(void **state)
{
    struct peer p;
    peer_init(&p, "");
    struct wire_connect_request request = connect_request(&p);
    assert_int_equal(request.session_id, 0);
    assert_int_equal(request.timeout_ms, PEER_TIMEOUT_MS);
    assert_int_equal(request.passwd.len, WIRE_PASSWD_LEN);
    feed_connect(&p, 6000, PEER_SESSION, WIRE_PASSWD_LEN);
    ASSERT_STATES(&p, CONCLAVE_STATE_CONNECTED);
    assert_int_equal(p.core.session_id, PEER_SESSION);
    assert_int_equal(p.core.timeout_ns, 6000000000);
    peer_finish(&p);
}

static void test_given_session_is_attached(void **state)
{
    struct core_options options = peer_options("");
    options.session_id = PEER_SESSION;
    memset(options.passwd, 7, sizeof options.passwd);
    struct peer p;
    peer_init_with(&p, &options);
    struct wire_connect_request request = connect_request(&p);
    assert_int_equal(request.session_id, PEER_SESSION);
    assert_int_equal(request.passwd.data[3], 7);
    feed_connect(&p, 6000, PEER_SESSION, WIRE_PASSWD_LEN);
    ASSERT_STATES(&p, CONCLAVE_STATE_CONNECTED);
    peer_finish(&p);
}

static void test_given_session_is_gone(void **state)
{
    struct core_options options = peer_options("");
    options.session_id = PEER_SESSION;
    struct peer p;
    peer_init_with(&p, &options);
    submit_get(&p, 1);
    connect_request(&p);
    feed_connect(&p, 0, 0, WIRE_PASSWD_LEN);
    assert_int_equal(p.core.link, LINK_NONE);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_SESSION_EXPIRED);
    peer_connect(&p, 77);
    ASSERT_STATES(&p, CONCLAVE_STATE_LOST, CONCLAVE_STATE_NEW_SESSION);
    peer_finish(&p);
}

static void test_bad_handshakes(void **state)
{
    struct peer p;
    peer_init(&p, "");
    connect_request(&p);
    feed_connect(&p, 6000, PEER_SESSION, 12); /* a password of the wrong length */
    assert_int_equal(p.core.link, LINK_NONE);
    assert_int_equal(p.core.link_error, CONCLAVE_EPROTO);
    connect_request(&p);
    peer_feed(&p, slice_make("\0\0\0\3abc", 7), 0);
    assert_int_equal(p.core.link_error, CONCLAVE_EPROTO);
    connect_request(&p);
    peer_feed(&p, slice_make("\xff\xff\xff\xff", 4), 0);
    assert_int_equal(p.core.link_error, CONCLAVE_EPROTO);
    peer_connect(&p, PEER_SESSION);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    connect_request(&p);
    feed_connect(&p, 6000, PEER_SESSION + 1, WIRE_PASSWD_LEN); /* another session than ours */
    assert_int_equal(p.core.link_error, CONCLAVE_EPROTO);
    ASSERT_STATES(&p, CONCLAVE_STATE_CONNECTED, CONCLAVE_STATE_SUSPENDED);
    peer_finish(&p);
}

static void test_silent_handshake_ends(void **state)
{
    struct peer p;
    peer_init(&p, "");
    connect_request(&p);
    peer_advance_ms(&p, 999);
    assert_int_equal(p.core.link, LINK_HANDSHAKE);
    peer_advance_ms(&p, 1);
    assert_int_equal(p.core.link, LINK_NONE);
    assert_int_equal(p.core.link_error, CONCLAVE_ETIMEDOUT);
    peer_finish(&p);
}

/* Pings keep both sides satisfied; without answers the link is dead after two thirds of the
 * timeout. */
static void test_pings_and_dead_link(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    for (int i = 0; i < 50; i++) {
        peer_advance_ms(&p, 1999);
        struct peer_frame f;
        assert_false(peer_take(&p, &f, false));
        peer_advance_ms(&p, 1);
        f = peer_expect(&p, WIRE_PING);
        assert_int_equal(f.xid, WIRE_XID_PING);
        peer_reply(&p, WIRE_XID_PING, 9, 0, slice_make("", 0));
    }
    assert_int_equal(p.core.last_zxid, 9);
    peer_advance_ms(&p, 5999);
    assert_int_equal(p.core.link, LINK_UP);
    peer_advance_ms(&p, 1);
    assert_int_equal(p.core.link, LINK_NONE);
    ASSERT_STATES(&p, CONCLAVE_STATE_CONNECTED, CONCLAVE_STATE_SUSPENDED);
    peer_finish(&p);
}

/* The last thing answered was sent at 0; pings went out later, but nobody knows whether they
 * arrived. */
static void test_lost_by_the_clock(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    peer_advance_ms(&p, 6000);
    assert_int_equal(p.core.link, LINK_NONE);
    submit_get(&p, 1);
    peer_advance_ms(&p, PEER_TIMEOUT_MS - 6000 - 1);
    ASSERT_STATES(&p, CONCLAVE_STATE_CONNECTED, CONCLAVE_STATE_SUSPENDED);
    assert_int_equal(peer_replies_of(&p, 1), 0);
    peer_advance_ms(&p, 1);
    ASSERT_STATES(&p, CONCLAVE_STATE_CONNECTED, CONCLAVE_STATE_SUSPENDED, CONCLAVE_STATE_LOST);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_SESSION_EXPIRED);
    submit_get(&p, 2); /* for the next session */
    assert_int_equal(connect_request(&p).session_id, 0);
    feed_connect(&p, 6000, 99, WIRE_PASSWD_LEN);
    assert_int_equal(p.states[3], CONCLAVE_STATE_NEW_SESSION);
    struct peer_frame f = peer_expect(&p, WIRE_EXISTS);
    peer_answer_stat(&p, &f, 5);
    assert_int_equal(peer_reply_of(&p, 2)->error, 0);
    peer_finish(&p);
}

/* LOST is told while the handshake hangs; when it succeeds after all, the old session is closed,
 * not used. */
static void test_late_reattachment_is_refused(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    peer_advance_ms(&p, 8000);
    assert_int_equal(connect_request(&p).session_id, PEER_SESSION);
    peer_advance_ms(&p, 1000 - 1);
    p.core.link_deadline_ns += 1000000000;
    peer_advance_ms(&p, 1);
    assert_int_equal(p.states[p.states_count - 1], CONCLAVE_STATE_LOST);
    submit_get(&p, 1);
    feed_connect(&p, PEER_TIMEOUT_MS, PEER_SESSION, WIRE_PASSWD_LEN);
    assert_int_equal(p.core.link, LINK_FAREWELL);
    struct peer_frame f = peer_expect(&p, WIRE_CLOSE_SESSION);
    peer_reply(&p, f.xid, 8, 0, slice_make("", 0));
    assert_int_equal(p.core.link, LINK_NONE);
    assert_int_equal(connect_request(&p).session_id, 0);
    feed_connect(&p, PEER_TIMEOUT_MS, 99, WIRE_PASSWD_LEN);
    ASSERT_STATES(&p, CONCLAVE_STATE_CONNECTED, CONCLAVE_STATE_SUSPENDED, CONCLAVE_STATE_LOST,
                  CONCLAVE_STATE_NEW_SESSION);
    peer_expect(&p, WIRE_EXISTS);
    peer_finish(&p);
}

static void test_no_new_session_when_not_wanted(void **state)
{
    struct core_options options = peer_options("");
    options.new_session = false;
    struct peer p;
    peer_init_with(&p, &options);
    peer_connect(&p, PEER_SESSION);
    peer_advance_ms(&p, PEER_TIMEOUT_MS);
    assert_false(core_wants_link(&p.core));
    submit_get(&p, 1);
    assert_int_equal(peer_replies_of(&p, 1), 0); /* not before submit has returned */
    assert_int_equal(core_deadline_ns(&p.core), 0);
    peer_advance_ms(&p, 0);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_SESSION_EXPIRED);
    ASSERT_STATES(&p, CONCLAVE_STATE_CONNECTED, CONCLAVE_STATE_SUSPENDED, CONCLAVE_STATE_LOST);
    peer_finish(&p);
}

static void test_reconnect_keeps_the_session(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    submit_get(&p, 1);
    struct peer_frame f = peer_expect(&p, WIRE_EXISTS);
    peer_answer_stat(&p, &f, 42);
    submit_get(&p, 2);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    assert_int_equal(peer_reply_of(&p, 2)->error, CONCLAVE_CONNECTION_LOSS);
    submit_get(&p, 3);
    struct wire_connect_request request = connect_request(&p);
    assert_int_equal(request.session_id, PEER_SESSION);
    assert_int_equal(request.last_zxid_seen, 42);
    assert_int_equal(request.passwd.data[0], 0x5a);
    feed_connect(&p, PEER_TIMEOUT_MS, PEER_SESSION, WIRE_PASSWD_LEN);
    ASSERT_STATES(&p, CONCLAVE_STATE_CONNECTED, CONCLAVE_STATE_SUSPENDED,
                  CONCLAVE_STATE_RECONNECTED);
    f = peer_expect(&p, WIRE_EXISTS);
    peer_answer_stat(&p, &f, 43);
    assert_int_equal(peer_reply_of(&p, 3)->error, 0);
    peer_finish(&p);
}

/* Servers that know less than we have seen drop us without a word: after a while a new session
 * gives in. */
static void test_amnesia_of_the_ensemble(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    peer_reply(&p, WIRE_XID_PING, 500, 0, slice_make("", 0));
    peer_advance_ms(&p, PEER_TIMEOUT_MS);
    int tries = 0;
    while (connect_request(&p).last_zxid_seen != 0) {
        core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
        assert_true(++tries < 20);
    }
    assert_int_equal(tries, 6);
    peer_finish(&p);
}

static void test_auth_is_repeated(void **state)
{
    struct peer p;
    peer_init(&p, "");
    assert_int_equal(core_add_auth(&p.core, "digest", slice_str("u:p")), 0);
    submit_get(&p, 1);
    peer_connect(&p, PEER_SESSION);
    struct peer_frame f = peer_expect(&p, WIRE_AUTH);
    assert_int_equal(f.xid, WIRE_XID_AUTH);
    struct wire_reader rd = wire_reader_make(f.body);
    struct wire_auth_packet packet;
    assert_int_equal(wire_decode_auth_packet(&rd, &packet), 0);
    assert_true(slice_equal_str(packet.scheme, "digest") && slice_equal_str(packet.auth, "u:p"));
    peer_expect(&p, WIRE_EXISTS);
    assert_int_equal(core_add_auth(&p.core, "digest", slice_str("v:q")), 0);
    peer_expect(&p, WIRE_AUTH);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    peer_connect(&p, PEER_SESSION);
    peer_expect(&p, WIRE_AUTH);
    peer_expect(&p, WIRE_AUTH);
    peer_finish(&p);
}

static void test_auth_failed_is_final(void **state)
{
    struct peer p;
    peer_init(&p, "");
    assert_int_equal(core_add_auth(&p.core, "sesame", slice_str("x")), 0);
    submit_get(&p, 1);
    peer_connect(&p, PEER_SESSION);
    peer_reply(&p, WIRE_XID_AUTH, 0, CONCLAVE_AUTH_FAILED, slice_make("", 0));
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_AUTH_FAILED);
    submit_get(&p, 2);
    peer_advance_ms(&p, 0);
    assert_int_equal(peer_reply_of(&p, 2)->error, CONCLAVE_AUTH_FAILED);
    assert_false(core_wants_link(&p.core));
    ASSERT_STATES(&p, CONCLAVE_STATE_CONNECTED, CONCLAVE_STATE_AUTH_FAILED);
    peer_finish(&p);
}

static void test_close_tells_the_server(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    submit_get(&p, 1);
    core_close(&p.core, p.now_ns, 1000);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/a", 0);
    assert_int_equal(peer_submit(&p, &op, 2), CONCLAVE_ECLOSED);
    struct peer_frame f = peer_expect(&p, WIRE_EXISTS);
    int32_t xid = f.xid;
    f = peer_expect(&p, WIRE_CLOSE_SESSION);
    struct peer_frame get = {.xid = xid};
    peer_answer_stat(&p, &get, 3);
    assert_int_equal(peer_reply_of(&p, 1)->error, 0); /* answered before the end: the truth */
    peer_reply(&p, f.xid, 4, 0, slice_make("", 0));
    ASSERT_STATES(&p, CONCLAVE_STATE_CONNECTED, CONCLAVE_STATE_CLOSED);
    peer_finish(&p);
}

static void test_close_while_suspended(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    submit_get(&p, 1);
    core_close(&p.core, p.now_ns, 5000);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_ECLOSED);
    assert_true(core_wants_link(&p.core));
    peer_connect(&p, PEER_SESSION);
    struct peer_frame f = peer_expect(&p, WIRE_CLOSE_SESSION);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED); /* was it heard? ask */
    assert_int_not_equal(p.core.state, CONCLAVE_STATE_CLOSED);
    connect_request(&p);
    feed_connect(&p, 0, 0, WIRE_PASSWD_LEN);
    assert_int_equal(p.core.state, CONCLAVE_STATE_CLOSED);
    (void)f;
    peer_finish(&p);
}

static void test_close_gives_up_in_time(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    submit_get(&p, 1);
    core_close(&p.core, p.now_ns, 500);
    peer_advance_ms(&p, 499);
    assert_int_equal(p.core.state, CONCLAVE_STATE_CONNECTED);
    peer_advance_ms(&p, 1);
    assert_int_equal(p.core.state, CONCLAVE_STATE_CLOSED);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_ECLOSED);
    peer_finish(&p);
}

/* The client was about to go to another server: it stays until its session has ended. */
static void test_close_calls_off_a_move(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    submit_get(&p, 1);
    (void)peer_expect(&p, WIRE_EXISTS);
    core_leave(&p.core, p.now_ns);
    core_close(&p.core, p.now_ns, 5000);
    struct peer_frame f = peer_expect(&p, WIRE_CLOSE_SESSION);
    peer_advance_ms(&p, 2000);
    assert_int_equal(p.core.link, LINK_UP);
    peer_reply(&p, f.xid - 1, 3, CONCLAVE_NO_NODE, slice_make("", 0));
    peer_reply(&p, f.xid, 4, 0, slice_make("", 0));
    ASSERT_STATES(&p, CONCLAVE_STATE_CONNECTED, CONCLAVE_STATE_CLOSED);
    peer_finish(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_session),
        cmocka_unit_test(test_given_session_is_attached),
        cmocka_unit_test(test_given_session_is_gone),
        cmocka_unit_test(test_bad_handshakes),
        cmocka_unit_test(test_silent_handshake_ends),
        cmocka_unit_test(test_pings_and_dead_link),
        cmocka_unit_test(test_lost_by_the_clock),
        cmocka_unit_test(test_late_reattachment_is_refused),
        cmocka_unit_test(test_no_new_session_when_not_wanted),
        cmocka_unit_test(test_reconnect_keeps_the_session),
        cmocka_unit_test(test_amnesia_of_the_ensemble),
        cmocka_unit_test(test_auth_is_repeated),
        cmocka_unit_test(test_auth_failed_is_final),
        cmocka_unit_test(test_close_tells_the_server),
        cmocka_unit_test(test_close_while_suspended),
        cmocka_unit_test(test_close_gives_up_in_time),
        cmocka_unit_test(test_close_calls_off_a_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
