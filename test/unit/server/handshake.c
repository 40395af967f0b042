/* Sessions: new ones, old ones taken up again, refusals, timeouts, expiry, strangers on the port. */
#include "support/service_harness.h"

#include "server/handshake.h"

static const uint8_t zeros[WIRE_PASSWD_LEN];

static struct slice no_passwd(void)
{
    return slice_make(zeros, sizeof zeros);
}

static void test_new_session(void **state)
{
    (void)state;
    struct harness h;
    struct peer with;
    struct peer without;
    struct wire_connect_response a;
    struct wire_connect_response b;
    harness_init(&h, NULL);
    peer_init(&with, &h);
    peer_init(&without, &h);
    peer_connect(&with, 0, 10000, 0, no_passwd(), true);
    peer_connect(&without, 0, 10000, 0, no_passwd(), false);
    harness_settle(&h);

    /* The readOnly byte comes back only to who sent it. */
    assert_int_equal(peer_connected(&with, &a), 37);
    assert_int_equal(peer_connected(&without, &b), 36);
    assert_int_equal(a.timeout_ms, 10000);
    assert_int_equal((uint64_t)a.session_id >> 56, 7);
    assert_int_not_equal(a.session_id, b.session_id);
    assert_memory_not_equal(with.passwd, without.passwd, WIRE_PASSWD_LEN);
    assert_memory_not_equal(with.passwd, zeros, WIRE_PASSWD_LEN);
    assert_int_equal(session_tracker_count(h.service.sessions), 2);
    peer_finish(&with);
    peer_finish(&without);
    /* The connection's end is not the session's. */
    assert_int_equal(session_tracker_count(h.service.sessions), 2);
    harness_finish(&h);
}

static void test_timeout_clamped(void **state)
{
    (void)state;
    struct harness h;
    const int32_t asked[] = {-5, 0, 4000, 39999, 40000, 40001, INT32_MAX};
    const int32_t granted[] = {4000, 4000, 4000, 39999, 40000, 40000, 40000};
    harness_init(&h, NULL);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct peer p;
        struct wire_connect_response r;
        peer_init(&p, &h);
        peer_connect(&p, 0, asked[i], 0, no_passwd(), true);
        harness_settle(&h);
        peer_connected(&p, &r);
        assert_int_equal(r.timeout_ms, granted[i]);
        peer_finish(&p);
    }
    harness_finish(&h);
}

static void test_reattach(void **state)
{
    (void)state;
    struct harness h;
    struct peer old;
    struct peer fresh;
    struct wire_connect_response r;
    harness_init(&h, NULL);
    peer_open(&old, &h, 10000);
    int64_t id = old.c.session_id;
    peer_init(&fresh, &h);
    peer_connect(&fresh, 0, 10000, id, slice_make(old.passwd, WIRE_PASSWD_LEN), true);
    harness_turn(&h);
    peer_connected(&fresh, &r);
    assert_int_equal(r.session_id, id);
    assert_memory_equal(fresh.passwd, old.passwd, WIRE_PASSWD_LEN);
    assert_true(old.closed);
    assert_false(fresh.closed);

    /* The older connection's end takes nothing from the newer one. */
    peer_finish(&old);
    int32_t xid = peer_request(&fresh, WIRE_CREATE, body_create("/e", "", WIRE_MODE_EPHEMERAL));
    harness_settle(&h);
    peer_expect(&fresh, xid, 0);
    peer_finish(&fresh);
    harness_finish(&h);
}

/* Wrong password, wrong length, unknown id: the same answer, and the living connection does not notice. */
static void test_refused(void **state)
{
    (void)state;
    struct harness h;
    struct peer owner;
    harness_init(&h, NULL);
    peer_open(&owner, &h, 10000);
    uint8_t wrong[WIRE_PASSWD_LEN + 1];
    memcpy(wrong, owner.passwd, WIRE_PASSWD_LEN);
    wrong[WIRE_PASSWD_LEN] = 0;
    for (int i = 0; i < 5; i++) {
        struct peer p;
        struct wire_connect_response r;
        int64_t id = owner.c.session_id;
        struct slice passwd = slice_make(wrong, WIRE_PASSWD_LEN);
        wrong[15] = owner.passwd[15];
        if (i == 0) {
            wrong[15] ^= 1;
        } else if (i == 1) {
            passwd.len = WIRE_PASSWD_LEN + 1;
        } else if (i == 2) {
            passwd.len = 0;
        } else if (i == 3) {
            passwd = SLICE_NULL;
        } else {
            id++;
        }
        peer_init(&p, &h);
        peer_connect(&p, 0, 10000, id, passwd, true);
        harness_turn(&h);
        peer_connected(&p, &r);
        assert_int_equal(r.session_id, 0);
        assert_int_equal(r.timeout_ms, 0);
        assert_memory_equal(p.passwd, zeros, WIRE_PASSWD_LEN);
        assert_true(p.closed);
        peer_finish(&p);
    }
    assert_false(owner.closed);
    peer_request_xid(&owner, WIRE_XID_PING, WIRE_PING, slice_str(""));
    harness_turn(&h);
    peer_expect(&owner, WIRE_XID_PING, 0);
    peer_finish(&owner);
    harness_finish(&h);
}

static void test_zxid_ahead(void **state)
{
    (void)state;
    struct harness h;
    struct peer owner;
    struct peer p;
    harness_init(&h, NULL);
    peer_open(&owner, &h, 10000);
    peer_init(&p, &h);
    peer_connect(&p, state_zxid(h.service.state) + 1, 10000, owner.c.session_id,
                 slice_make(owner.passwd, WIRE_PASSWD_LEN), true);
    harness_turn(&h);
    peer_expect_nothing(&p);
    assert_true(p.closed);
    assert_false(owner.closed);
    peer_finish(&p);
    peer_finish(&owner);
    harness_finish(&h);
}

static void test_bad_first_frames(void **state)
{
    (void)state;
    struct harness h;
    const char *const strangers[] = {"GET / HTTP/1.1\r\n\r\n", "ruok", "\xff\xff\xff\xff",
                                     "\x16\x03\x01\x02\x00", "\x7f\xff\xff\xff"};
    harness_init(&h, NULL);
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        struct peer p;
        peer_init(&p, &h);
        peer_send(&p, slice_make(strangers[i], i == 3 ? 5 : strlen(strangers[i])));
        harness_turn(&h);
        assert_true(p.closed);
        peer_expect_nothing(&p);
        peer_finish(&p);
    }
    for (size_t len = 0; len < 44; len++) {
        struct peer p;
        uint8_t body[44] = {0};
        body[27] = 16; /* length of the password */
        peer_init(&p, &h);
        peer_send_frame(&p, slice_make(body, len));
        harness_settle(&h);
        assert_true(p.closed);
        peer_finish(&p);
    }
    assert_string_equal(handshake_name_stranger(0x47455420), "HTTP on the client port");
    assert_null(handshake_name_stranger(-1));
    assert_int_equal(session_tracker_count(h.service.sessions), 0);
    harness_finish(&h);
}

static void test_no_handshake_in_time(void **state)
{
    (void)state;
    struct harness h;
    struct peer idle;
    struct peer served;
    harness_init(&h, NULL);
    peer_init(&idle, &h);
    peer_open(&served, &h, 40000);
    assert_true(service_deadline(&h.service) <= h.now_ms + 10000);
    for (int i = 0; i < 9; i++) {
        harness_advance(&h, 1111);
    }
    harness_turn(&h);
    assert_false(idle.closed);
    harness_advance(&h, 1);
    harness_turn(&h);
    assert_true(idle.closed);
    assert_false(served.closed);
    peer_finish(&idle);
    peer_finish(&served);
    harness_finish(&h);
}

/* A silent session goes in (timeout, timeout + tick], with its ephemerals and its connection. */
static void test_expiry(void **state)
{
    (void)state;
    struct harness h;
    struct peer silent;
    struct peer lively;
    harness_init(&h, NULL);
    peer_open(&silent, &h, 10000);
    peer_open(&lively, &h, 10000);
    peer_request(&silent, WIRE_CREATE, body_create("/e", "", WIRE_MODE_EPHEMERAL));
    harness_settle(&h);
    peer_expect(&silent, 1, 0);
    int64_t quiet_since = h.now_ms;
    peer_request(&lively, WIRE_EXISTS, body_path_watch("/e", true));
    harness_settle(&h);
    peer_expect(&lively, 1, 0);
    while (!silent.closed) {
        assert_true(h.now_ms <= quiet_since + 12000);
        int64_t next = service_deadline(&h.service);
        harness_advance(&h, next > h.now_ms ? next - h.now_ms : 1);
        peer_request_xid(&lively, WIRE_XID_PING, WIRE_PING, slice_str(""));
        harness_settle(&h);
    }
    assert_true(h.now_ms > quiet_since + 10000);
    peer_expect_nothing(&silent);
    struct frame f;
    do {
        assert_true(peer_next(&lively, &f));
    } while (f.xid != WIRE_XID_NOTIFICATION);
    assert_int_equal(f.zxid, state_zxid(h.service.state));
    assert_int_equal(session_tracker_count(h.service.sessions), 1);
    assert_false(lively.closed);
    peer_finish(&silent);
    peer_finish(&lively);
    harness_finish(&h);
}

/* The server's own standstill is not the clients' silence. */
static void test_stall_is_given_back(void **state)
{
    (void)state;
    struct harness h;
    struct peer p;
    harness_init(&h, NULL);
    peer_open(&p, &h, 4000);
    harness_advance(&h, 60000);
    harness_settle(&h);
    assert_false(p.closed);
    assert_int_equal(h.service.stats.sessions_expired, 0);
    for (int i = 0; i < 8; i++) {
        harness_advance(&h, 1000);
        harness_settle(&h);
    }
    assert_true(p.closed);
    peer_finish(&p);
    harness_finish(&h);
}

static void test_session_limit(void **state)
{
    (void)state;
    struct harness h;
    struct peer first;
    struct peer second;
    struct server_limits limits = server_limits_default();
    limits.sessions_max = 1;
    harness_init(&h, &limits);
    peer_open(&first, &h, 4000);
    peer_init(&second, &h);
    peer_connect(&second, 0, 4000, 0, no_passwd(), true);
    harness_settle(&h);
    assert_true(second.closed);
    peer_finish(&first);
    peer_finish(&second);
    harness_finish(&h);
}

/* The client leaves while its session is being made: nobody is answered, the session expires. */
static void test_gone_while_creating(void **state)
{
    (void)state;
    struct harness h;
    struct peer p;
    harness_init(&h, NULL);
    peer_init(&p, &h);
    peer_connect(&p, 0, 4000, 0, no_passwd(), true);
    peer_request(&p, WIRE_EXISTS, body_path_watch("/", false)); /* must wait for the session */
    harness_turn(&h);
    assert_int_equal(p.c.stage, CONNECTION_CREATING);
    peer_finish(&p);
    harness_settle(&h);
    assert_int_equal(session_tracker_count(h.service.sessions), 1);
    for (int i = 0; i < 7; i++) {
        harness_advance(&h, 1000);
        harness_settle(&h);
    }
    assert_int_equal(session_tracker_count(h.service.sessions), 0);
    assert_int_equal(h.service.pipeline.outstanding, 0);
    harness_finish(&h);
}

/* Replayed entries make no watches, no timers and no replies; afterwards each session has its full timeout. */
static void test_replay(void **state)
{
    (void)state;
    struct harness h;
    struct harness again;
    struct peer p;
    struct peer back;
    struct wire_connect_response r;
    struct buf copy;
    harness_init(&h, NULL);
    peer_init(&p, &h);
    peer_connect(&p, 0, 4000, 0, no_passwd(), true);
    service_turn(&h.service);
    buf_init(&copy, 0);
    buf_append_slice(&copy, buf_slice(&h.log[0]));
    harness_settle(&h);
    peer_connected(&p, &r);

    harness_init(&again, NULL);
    again.service.serving = false;
    assert_int_equal(service_apply(&again.service, buf_slice(&copy)), 0);
    assert_int_equal(session_tracker_count(again.service.sessions), 0);
    assert_int_equal(service_begin(&again.service), 0);
    assert_int_equal(session_tracker_count(again.service.sessions), 1);
    peer_init(&back, &again);
    peer_connect(&back, 1, 4000, r.session_id, slice_make(p.passwd, WIRE_PASSWD_LEN), true);
    harness_turn(&again);
    peer_connected(&back, &r);
    assert_int_not_equal(r.session_id, 0);
    assert_int_equal(service_apply(&again.service, slice_str("junk")), CONCLAVE_ECORRUPT);
    buf_finish(&copy);
    peer_finish(&back);
    peer_finish(&p);
    harness_finish(&again);
    harness_finish(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_session),
        cmocka_unit_test(test_timeout_clamped),
        cmocka_unit_test(test_reattach),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_zxid_ahead),
        cmocka_unit_test(test_bad_first_frames),
        cmocka_unit_test(test_no_handshake_in_time),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_stall_is_given_back),
        cmocka_unit_test(test_session_limit),
        cmocka_unit_test(test_gone_while_creating),
        cmocka_unit_test(test_replay),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    body_finish();
    return failed;
}
