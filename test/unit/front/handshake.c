/* Sessions: new ones, old ones taken up again, refusals, timeouts, expiry, strangers on the port.
 * */
#include "support/service_harness.h"

#include "front/handshake.h"

static const uint8_t zeros[WIRE_PASSWD_LEN];

static struct slice no_passwd(void)
{
    return slice_make(zeros, sizeof zeros);
}

static void test_new_session(void **state)
{
    struct service_harness h;
    struct guest with;
    struct guest without;
    struct wire_connect_response a;
    struct wire_connect_response b;
    service_harness_init(&h, NULL);
    guest_init(&with, &h);
    guest_init(&without, &h);
    guest_connect(&with, 0, 10000, 0, no_passwd(), true);
    guest_connect(&without, 0, 10000, 0, no_passwd(), false);
    service_harness_settle(&h);

    /* The readOnly byte comes back only to who sent it. */
    assert_int_equal(guest_connected(&with, &a), 37);
    assert_int_equal(guest_connected(&without, &b), 36);
    assert_int_equal(a.timeout_ms, 10000);
    assert_int_equal((uint64_t)a.session_id >> 56, 7);
    assert_int_not_equal(a.session_id, b.session_id);
    assert_memory_not_equal(with.passwd, without.passwd, WIRE_PASSWD_LEN);
    assert_memory_not_equal(with.passwd, zeros, WIRE_PASSWD_LEN);
    assert_int_equal(session_tracker_count(h.service.sessions), 2);
    guest_finish(&with);
    guest_finish(&without);
    /* The connection's end is not the session's. */
    assert_int_equal(session_tracker_count(h.service.sessions), 2);
    service_harness_finish(&h);
}

static void test_timeout_clamped(void **state)
{
    struct service_harness h;
    const int32_t asked[] = {-5, 0, 4000, 39999, 40000, 40001, INT32_MAX};
    const int32_t granted[] = {4000, 4000, 4000, 39999, 40000, 40000, 40000};
    service_harness_init(&h, NULL);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct guest p;
        struct wire_connect_response r;
        guest_init(&p, &h);
        guest_connect(&p, 0, asked[i], 0, no_passwd(), true);
        service_harness_settle(&h);
        guest_connected(&p, &r);
        assert_int_equal(r.timeout_ms, granted[i]);
        guest_finish(&p);
    }
    service_harness_finish(&h);
}

static void test_reattach(void **state)
{
    struct service_harness h;
    struct guest old;
    struct guest fresh;
    struct wire_connect_response r;
    service_harness_init(&h, NULL);
    guest_open(&old, &h, 10000);
    int64_t id = old.c.session_id;
    guest_init(&fresh, &h);
    guest_connect(&fresh, 0, 10000, id, slice_make(old.passwd, WIRE_PASSWD_LEN), true);
    service_harness_turn(&h);
    guest_connected(&fresh, &r);
    assert_int_equal(r.session_id, id);
    assert_memory_equal(fresh.passwd, old.passwd, WIRE_PASSWD_LEN);
    assert_true(old.closed);
    assert_false(fresh.closed);

    /* The older connection's end takes nothing from the newer one. */
    guest_finish(&old);
    int32_t xid = guest_request(&fresh, WIRE_CREATE, body_create("/e", "", WIRE_MODE_EPHEMERAL));
    service_harness_settle(&h);
    guest_expect(&fresh, xid, 0);
    guest_finish(&fresh);
    service_harness_finish(&h);
}

/* A link is lost while its last writes are on their way: whoever takes the session up sees what became
 * of them, at his first read. What the old connection still has to say is not heard. */
static void test_reattach_behind_own_writes(void **state)
{
    for (int gone = 0; gone <= 1; gone++) { /* whether the server knows of the loss */
        struct service_harness h;
        struct guest old;
        struct guest fresh;
        struct wire_connect_response r;
        service_harness_init(&h, NULL);
        guest_open(&old, &h, 10000);
        int64_t id = old.c.session_id;
        int64_t zxid = state_zxid(h.service.state);
        struct slice passwd = slice_make(old.passwd, WIRE_PASSWD_LEN);
        guest_request(&old, WIRE_CREATE, body_create("/first", "", WIRE_MODE_EPHEMERAL));
        if (gone) {
            service_harness_turn(&h); /* the first is in the log, the second is being gathered */
        }
        guest_request(&old, WIRE_CREATE, body_create("/second", "", WIRE_MODE_EPHEMERAL));
        if (gone) {
            guest_finish(&old);
        }
        guest_init(&fresh, &h);
        guest_connect(&fresh, zxid, 10000, id, passwd, true);
        if (!gone) {
            guest_request(&old, WIRE_CREATE, body_create("/late", "", WIRE_MODE_EPHEMERAL));
        }
        service_harness_turn(&h);
        guest_expect_nothing(&fresh);
        assert_true(gone || old.closed);

        service_harness_settle(&h);
        guest_connected(&fresh, &r);
        assert_int_equal(r.session_id, id);
        assert_int_equal(state_zxid(h.service.state), zxid + 2); /* those two, and no other */
        int32_t sync = guest_request(&fresh, WIRE_SYNC, body_path_watch("/", false));
        int32_t first = guest_request(&fresh, WIRE_EXISTS, body_path_watch("/first", false));
        int32_t second = guest_request(&fresh, WIRE_EXISTS, body_path_watch("/second", false));
        int32_t late = guest_request(&fresh, WIRE_EXISTS, body_path_watch("/late", false));
        service_harness_turn(&h); /* nothing of it waits */
        guest_expect(&fresh, sync, 0);
        guest_expect(&fresh, first, 0);
        guest_expect(&fresh, second, 0);
        guest_expect(&fresh, late, CONCLAVE_NO_NODE);
        guest_finish(&fresh);
        if (!gone) {
            guest_finish(&old);
        }
        assert_int_equal(h.service.pipeline.outstanding, 0);
        service_harness_finish(&h);
    }
}

/* The same of a client that has written behind its request for the session, on a link that it gave up
 * before it was answered. */
static void test_reattach_overtakes_reattach(void **state)
{
    struct service_harness h;
    struct guest old;
    struct guest hasty;
    struct guest fresh;
    struct wire_connect_response r;
    service_harness_init(&h, NULL);
    guest_open(&old, &h, 10000);
    int64_t id = old.c.session_id;
    struct slice passwd = slice_make(old.passwd, WIRE_PASSWD_LEN);
    guest_request(&old, WIRE_CREATE, body_create("/a", "", WIRE_MODE_EPHEMERAL));
    service_harness_turn(&h);
    guest_init(&hasty, &h);
    guest_connect(&hasty, 0, 10000, id, passwd, true);
    guest_request(&hasty, WIRE_CREATE, body_create("/late", "", WIRE_MODE_EPHEMERAL));
    service_harness_turn(&h);
    guest_init(&fresh, &h);
    guest_connect(&fresh, 0, 10000, id, passwd, true);
    service_harness_settle(&h);
    assert_true(hasty.closed);
    guest_expect_nothing(&hasty);
    guest_connected(&fresh, &r);
    assert_int_equal(r.session_id, id);
    int32_t late = guest_request(&fresh, WIRE_EXISTS, body_path_watch("/late", false));
    int32_t again =
        guest_request(&fresh, WIRE_CREATE, body_create("/late", "", WIRE_MODE_EPHEMERAL));
    service_harness_settle(&h);
    guest_expect(&fresh, late, CONCLAVE_NO_NODE);
    guest_expect(&fresh, again, 0);
    guest_finish(&hasty);
    guest_finish(&fresh);
    guest_finish(&old);
    assert_int_equal(h.service.pipeline.outstanding, 0);
    service_harness_finish(&h);
}

/* The disk stands still while a session is taken up: its client tries again and again, and that counts
 * as life. */
static void test_reattach_keeps_the_session(void **state)
{
    struct service_harness h;
    struct guest old;
    struct guest tries[4];
    struct wire_connect_response r;
    service_harness_init(&h, NULL);
    guest_open(&old, &h, 4000);
    int64_t id = old.c.session_id;
    struct slice passwd = slice_make(old.passwd, WIRE_PASSWD_LEN);
    guest_request(&old, WIRE_CREATE, body_create("/a", "", WIRE_MODE_EPHEMERAL));
    service_harness_turn(&h);
    for (int i = 0; i < 4; i++) {
        for (int step = 0; step < 6; step++) {
            service_harness_advance(&h, 500);
        }
        guest_init(&tries[i], &h);
        guest_connect(&tries[i], 0, 4000, id, passwd, true);
        if (i > 0) {
            guest_finish(&tries[i - 1]); /* its answer did not come in time */
        }
    }
    service_harness_settle(&h);
    guest_connected(&tries[3], &r);
    assert_int_equal(r.session_id, id);
    assert_int_equal(session_tracker_count(h.service.sessions), 1);
    assert_false(tries[3].closed);
    guest_finish(&tries[3]);
    guest_finish(&old);
    service_harness_finish(&h);
}

/* Wrong password, wrong length, unknown id: the same answer, and the living connection does not
 * notice. */
static void test_refused(void **state)
{
    struct service_harness h;
    struct guest owner;
    service_harness_init(&h, NULL);
    guest_open(&owner, &h, 10000);
    uint8_t wrong[WIRE_PASSWD_LEN + 1];
    memcpy(wrong, owner.passwd, WIRE_PASSWD_LEN);
    wrong[WIRE_PASSWD_LEN] = 0;
    for (int i = 0; i < 5; i++) {
        struct guest p;
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
        guest_init(&p, &h);
        guest_connect(&p, 0, 10000, id, passwd, true);
        service_harness_turn(&h);
        guest_connected(&p, &r);
        assert_int_equal(r.session_id, 0);
        assert_int_equal(r.timeout_ms, 0);
        assert_memory_equal(p.passwd, zeros, WIRE_PASSWD_LEN);
        assert_true(p.closed);
        guest_finish(&p);
    }
    assert_false(owner.closed);
    guest_request_xid(&owner, WIRE_XID_PING, WIRE_PING, slice_str(""));
    service_harness_turn(&h);
    guest_expect(&owner, WIRE_XID_PING, 0);
    guest_finish(&owner);
    service_harness_finish(&h);
}

static void test_zxid_ahead(void **state)
{
    struct service_harness h;
    struct guest owner;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&owner, &h, 10000);
    guest_init(&p, &h);
    guest_connect(&p, state_zxid(h.service.state) + 1, 10000, owner.c.session_id,
                  slice_make(owner.passwd, WIRE_PASSWD_LEN), true);
    service_harness_turn(&h);
    guest_expect_nothing(&p);
    assert_true(p.closed);
    assert_false(owner.closed);
    guest_finish(&p);
    guest_finish(&owner);
    service_harness_finish(&h);
}

static void test_bad_first_frames(void **state)
{
    struct service_harness h;
    const char *const strangers[] = {"GET / HTTP/1.1\r\n\r\n", "ruok", "\xff\xff\xff\xff",
                                     "\x16\x03\x01\x02\x00", "\x7f\xff\xff\xff"};
    service_harness_init(&h, NULL);
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        struct guest p;
        guest_init(&p, &h);
        guest_send(&p, slice_make(strangers[i], i == 3 ? 5 : strlen(strangers[i])));
        service_harness_turn(&h);
        assert_true(p.closed);
        guest_expect_nothing(&p);
        guest_finish(&p);
    }
    for (size_t len = 0; len < 44; len++) {
        struct guest p;
        uint8_t body[44] = {0};
        body[27] = 16; /* length of the password */
        guest_init(&p, &h);
        guest_send_frame(&p, slice_make(body, len));
        service_harness_settle(&h);
        assert_true(p.closed);
        guest_finish(&p);
    }
    assert_string_equal(handshake_name_stranger(0x47455420), "HTTP on the client port");
    assert_null(handshake_name_stranger(-1));
    assert_int_equal(session_tracker_count(h.service.sessions), 0);
    service_harness_finish(&h);
}

static void test_no_handshake_in_time(void **state)
{
    struct service_harness h;
    struct guest idle;
    struct guest served;
    service_harness_init(&h, NULL);
    guest_init(&idle, &h);
    guest_open(&served, &h, 40000);
    assert_true(service_deadline(&h.service) <= h.now_ms + 10000);
    for (int i = 0; i < 101; i++) {
        service_harness_advance(&h, 99);
    }
    service_harness_turn(&h);
    assert_false(idle.closed);
    service_harness_advance(&h, 1);
    service_harness_turn(&h);
    assert_true(idle.closed);
    assert_false(served.closed);
    guest_finish(&idle);
    guest_finish(&served);
    service_harness_finish(&h);
}

/* A silent session goes in (timeout, timeout + tick], with its ephemerals and its connection. */
static void test_expiry(void **state)
{
    struct service_harness h;
    struct guest silent;
    struct guest lively;
    service_harness_init(&h, NULL);
    guest_open(&silent, &h, 10000);
    guest_open(&lively, &h, 10000);
    guest_request(&silent, WIRE_CREATE, body_create("/e", "", WIRE_MODE_EPHEMERAL));
    service_harness_settle(&h);
    guest_expect(&silent, 1, 0);
    int64_t quiet_since = h.now_ms;
    guest_request(&lively, WIRE_EXISTS, body_path_watch("/e", true));
    service_harness_settle(&h);
    guest_expect(&lively, 1, 0);
    while (!silent.closed) {
        assert_true(h.now_ms <= quiet_since + 12000);
        int64_t next = service_deadline(&h.service);
        service_harness_advance(&h, next > h.now_ms ? next - h.now_ms : 1);
        guest_request_xid(&lively, WIRE_XID_PING, WIRE_PING, slice_str(""));
        service_harness_settle(&h);
    }
    assert_true(h.now_ms > quiet_since + 10000);
    guest_expect_nothing(&silent);
    struct frame f;
    do {
        assert_true(guest_next(&lively, &f));
    } while (f.xid != WIRE_XID_NOTIFICATION);
    assert_int_equal(f.zxid, state_zxid(h.service.state));
    assert_int_equal(session_tracker_count(h.service.sessions), 1);
    assert_false(lively.closed);
    guest_finish(&silent);
    guest_finish(&lively);
    service_harness_finish(&h);
}

/* The server's own standstill is not the clients' silence. */
static void test_stall_is_given_back(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 4000);
    service_harness_advance(&h, 60000);
    service_harness_settle(&h);
    assert_false(p.closed);
    assert_int_equal(h.service.metrics->stale_sessions_expired, 0);
    for (int i = 0; i < 8; i++) {
        service_harness_advance(&h, 1000);
        service_harness_settle(&h);
    }
    assert_true(p.closed);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* Once, also to who is heard from before the tick that was missed. */
static void test_stall_is_given_back_once(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 4000);
    h.now_ms += 60000;
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    for (int i = 0; i < 8; i++) {
        service_harness_advance(&h, 1000);
        service_harness_settle(&h);
        assert_true(i >= 4 || !p.closed);
    }
    assert_true(p.closed);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* Also a standstill of less than a tick, wherever it falls between two beats and before a session's due
 * tick: a client that pings every third of its timeout and comes back at once keeps its session. */
static void test_short_stall_is_given_back(void **state)
{
    for (int phase = 0; phase < 2000; phase += 50) {
        struct service_harness h;
        struct guest p;
        service_harness_init(&h, NULL);
        h.now_ms += phase;
        guest_open(&p, &h, 4000);
        for (int64_t until = h.now_ms + 1300; h.now_ms < until;) {
            service_harness_advance(&h, 10);
            service_harness_settle(&h);
        }
        service_harness_advance(&h, 3300);
        service_harness_settle(&h);
        for (int i = 0; i < 50; i++) {
            service_harness_advance(&h, 10);
            service_harness_settle(&h);
        }
        assert_int_equal(session_tracker_count(h.service.sessions), 1);
        guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
        service_harness_settle(&h);
        assert_false(p.closed);
        guest_finish(&p);
        service_harness_finish(&h);
    }
}

static void test_session_limit(void **state)
{
    struct service_harness h;
    struct guest first;
    struct guest second;
    struct client_limits limits = client_limits_default();
    limits.sessions_max = 1;
    service_harness_init(&h, &limits);
    guest_open(&first, &h, 4000);
    guest_init(&second, &h);
    guest_connect(&second, 0, 4000, 0, no_passwd(), true);
    service_harness_settle(&h);
    assert_true(second.closed);
    guest_finish(&first);
    guest_finish(&second);
    service_harness_finish(&h);
}

/* The client leaves while its session is being made: nobody is answered, the session expires. */
static void test_gone_while_creating(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_init(&p, &h);
    guest_connect(&p, 0, 4000, 0, no_passwd(), true);
    guest_request(&p, WIRE_EXISTS, body_path_watch("/", false)); /* must wait for the session */
    service_harness_turn(&h);
    assert_int_equal(p.c.stage, CONNECTION_CREATING);
    guest_finish(&p);
    service_harness_settle(&h);
    assert_int_equal(session_tracker_count(h.service.sessions), 1);
    for (int i = 0; i < 7; i++) {
        service_harness_advance(&h, 1000);
        service_harness_settle(&h);
    }
    assert_int_equal(session_tracker_count(h.service.sessions), 0);
    assert_int_equal(h.service.pipeline.outstanding, 0);
    service_harness_finish(&h);
}

/* Replayed entries make no watches, no timers and no replies; afterwards each session has its full
 * timeout. */
static void test_replay(void **state)
{
    struct service_harness h;
    struct service_harness again;
    struct guest p;
    struct guest back;
    struct wire_connect_response r;
    struct buf copy;
    service_harness_init(&h, NULL);
    guest_init(&p, &h);
    guest_connect(&p, 0, 4000, 0, no_passwd(), true);
    service_turn(&h.service);
    buf_init(&copy, 0);
    buf_append_slice(&copy, buf_slice(&h.log[0]));
    service_harness_settle(&h);
    guest_connected(&p, &r);

    service_harness_init(&again, NULL);
    again.service.serving = false;
    assert_int_equal(service_harness_take(&again.service, buf_slice(&copy)), 0);
    assert_int_equal(session_tracker_count(again.service.sessions), 0);
    assert_int_equal(service_begin(&again.service), 0);
    assert_int_equal(session_tracker_count(again.service.sessions), 1);
    guest_init(&back, &again);
    guest_connect(&back, 1, 4000, r.session_id, slice_make(p.passwd, WIRE_PASSWD_LEN), true);
    service_harness_turn(&again);
    guest_connected(&back, &r);
    assert_int_not_equal(r.session_id, 0);
    assert_int_equal(service_harness_take(&again.service, slice_str("junk")), CONCLAVE_ECORRUPT);
    buf_finish(&copy);
    guest_finish(&back);
    guest_finish(&p);
    service_harness_finish(&again);
    service_harness_finish(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_session),
        cmocka_unit_test(test_timeout_clamped),
        cmocka_unit_test(test_reattach),
        cmocka_unit_test(test_reattach_behind_own_writes),
        cmocka_unit_test(test_reattach_overtakes_reattach),
        cmocka_unit_test(test_reattach_keeps_the_session),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_zxid_ahead),
        cmocka_unit_test(test_bad_first_frames),
        cmocka_unit_test(test_no_handshake_in_time),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_stall_is_given_back),
        cmocka_unit_test(test_stall_is_given_back_once),
        cmocka_unit_test(test_short_stall_is_given_back),
        cmocka_unit_test(test_session_limit),
        cmocka_unit_test(test_gone_while_creating),
        cmocka_unit_test(test_replay),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    body_finish();
    return failed;
}
