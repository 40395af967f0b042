/* A server's place in its ensemble, as its clients feel it: reads that wait for a quorum, no answers
 * without a leader, sessions judged by the leader alone. */
#include "support/service_harness.h"

#include "base/log.h"

static void follow(struct service_harness *h)
{
    service_harness_join(h);
    assert_int_equal(leadership_set(&h->service, false), 0);
}

/* A sync is answered when its ticket is confirmed, and what is behind it waits with it. */
static void test_sync_waits_for_its_ticket(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    follow(&h);
    int32_t before = guest_request(&p, WIRE_EXISTS, body_path_watch("/", false));
    int32_t sync = guest_request(&p, WIRE_SYNC, body_path_watch("/", false));
    int32_t after = guest_request(&p, WIRE_EXISTS, body_path_watch("/", false));
    assert_int_equal(h.tickets, 0); /* taken at the end of the turn, after all that came in it */
    service_harness_settle(&h);
    assert_int_equal(h.tickets, 1);
    guest_expect(&p, before, 0);
    guest_expect_nothing(&p);

    leadership_confirmed(&h.service, 1);
    service_harness_settle(&h);
    guest_expect(&p, sync, 0);
    guest_expect(&p, after, 0);
    leadership_confirmed(&h.service, 1); /* reported again: nothing waits */
    guest_finish(&p);
    service_harness_finish(&h);
}

/* Who asks while a ticket is out waits for the next one: it may have been taken too early for him. All
 * who ask meanwhile share that one. */
static void test_one_round_is_shared(void **state)
{
    struct service_harness h;
    struct guest p[3];
    int32_t sync[3];
    service_harness_init(&h, NULL);
    for (size_t i = 0; i < 3; i++) {
        guest_open(&p[i], &h, 10000);
    }
    follow(&h);
    for (size_t i = 0; i < 3; i++) {
        sync[i] = guest_request(&p[i], WIRE_SYNC, body_path_watch("/", false));
        service_harness_settle(&h);
    }
    assert_int_equal(h.tickets, 1);
    leadership_confirmed(&h.service, 1);
    service_harness_settle(&h);
    assert_int_equal(h.tickets, 2);
    guest_expect(&p[0], sync[0], 0);
    guest_expect_nothing(&p[1]);
    guest_expect_nothing(&p[2]);
    leadership_confirmed(&h.service, 2);
    service_harness_settle(&h);
    guest_expect(&p[1], sync[1], 0);
    guest_expect(&p[2], sync[2], 0);
    assert_int_equal(h.tickets, 2);
    for (size_t i = 0; i < 3; i++) {
        guest_finish(&p[i]);
    }
    service_harness_finish(&h);
}

/* With linearizableReads every read is confirmed, pings are not; a read behind a write waits for
 * both. */
static void test_linearizable_reads(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    service_harness_join(&h);
    h.service.standing.linearizable = true;
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    int32_t create = guest_request(&p, WIRE_CREATE, body_create("/a", "1", 0));
    int32_t get = guest_request(&p, WIRE_GET_DATA, body_path_watch("/a", false));
    service_harness_settle(&h);
    guest_expect(&p, WIRE_XID_PING, 0);
    guest_expect(&p, create, 0);
    guest_expect_nothing(&p);
    leadership_confirmed(&h.service, h.tickets);
    service_harness_settle(&h);
    guest_expect(&p, get, 0);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* A write behind a sync may be applied before the ticket is confirmed. That proves as much: the sync and what
 * stands in front of the write are answered, before the write and from the state before it. */
static void test_a_write_proves_what_is_in_front(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    follow(&h);
    int32_t sync = guest_request(&p, WIRE_SYNC, body_path_watch("/", false));
    int32_t before = guest_request(&p, WIRE_EXISTS, body_path_watch("/a", false));
    int32_t write = guest_request(&p, WIRE_CREATE, body_create("/a", "", 0));
    int32_t after = guest_request(&p, WIRE_EXISTS, body_path_watch("/a", false));
    int32_t later = guest_request(&p, WIRE_SYNC, body_path_watch("/", false));
    service_harness_settle(&h); /* applies it; no ticket is confirmed */
    guest_expect(&p, sync, 0);
    guest_expect(&p, before, CONCLAVE_NO_NODE);
    guest_expect(&p, write, 0);
    guest_expect(&p, after, 0);
    guest_expect_nothing(&p);
    leadership_confirmed(&h.service, h.tickets);
    service_harness_settle(&h);
    guest_expect(&p, later, 0);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* A connection that goes while its read waits is forgotten. */
static void test_confirmed_too_late(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    follow(&h);
    guest_request(&p, WIRE_SYNC, body_path_watch("/", false));
    service_harness_settle(&h);
    guest_finish(&p);
    leadership_confirmed(&h.service, 1);
    assert_int_equal(h.service.pipeline.outstanding, 0);
    service_harness_finish(&h);
}

/* Time passes without a beat. */
static void stand_still(struct service_harness *h, int64_t ms)
{
    h->now_ms += ms;
}

/* Without a leader nothing is answered, pings neither; after two ticks clients are sent away. */
static void test_no_contact(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 30000);
    follow(&h);
    int64_t tick_ms = h.service.limits.tick_ms;
    stand_still(&h, tick_ms + 1);
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    int32_t get = guest_request(&p, WIRE_EXISTS, body_path_watch("/", false));
    service_harness_settle(&h);
    guest_expect_nothing(&p);
    assert_false(p.closed);

    leadership_contact(&h.service, h.now_ms - 5);
    leadership_contact(&h.service, h.now_ms - 5000); /* an older one, heard of later */
    service_harness_settle(&h);
    guest_expect(&p, WIRE_XID_PING, 0);
    guest_expect(&p, get, 0);

    stand_still(&h, 2 * tick_ms);
    leadership_look_at_contact(&h.service);
    service_harness_settle(&h);
    assert_true(p.closed);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* An answer made during contact that has not left the server yet waits for contact, too. */
static void test_answers_wait_for_contact(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 30000);
    follow(&h);
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    stand_still(&h, h.service.limits.tick_ms + 1);
    service_harness_settle(&h);
    guest_expect_nothing(&p);
    leadership_contact(&h.service, h.now_ms);
    service_harness_settle(&h);
    guest_expect(&p, WIRE_XID_PING, 0);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* The leader may have ended a session that was silent for its whole timeout: no answer, whether the request
 * comes then or the answer is due then. The client takes its session up again, and the log decides. */
static void test_too_long_silent(void **state)
{
    for (int late = 0; late < 2; late++) {
        struct service_harness h;
        struct guest p;
        service_harness_init(&h, NULL);
        guest_open(&p, &h, 4000);
        follow(&h);
        stand_still(&h, 3999 + !late);
        leadership_contact(&h.service, h.now_ms);
        guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
        if (late) {
            service_harness_settle(&h);
            guest_expect(&p, WIRE_XID_PING, 0);
            stand_still(&h, 3999);
            leadership_contact(&h.service, h.now_ms);
            guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
            stand_still(&h, 4000);
            leadership_contact(&h.service, h.now_ms);
        }
        service_harness_settle(&h);
        guest_expect_nothing(&p);
        assert_true(p.closed);
        guest_finish(&p);
        service_harness_finish(&h);
    }
}

/* An event is no sign of life of who hears it. */
static void test_events_keep_nobody_alive(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest other;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 4000);
    guest_open(&other, &h, 40000);
    int32_t watch = guest_request(&p, WIRE_EXISTS, body_path_watch("/a", true));
    service_harness_settle(&h);
    guest_expect(&p, watch, CONCLAVE_NO_NODE);
    for (int i = 0; i < 7; i++) {
        service_harness_advance(&h, 500);
    }
    guest_request(&other, WIRE_CREATE, body_create("/a", "", 0));
    service_harness_settle(&h);
    guest_expect_event(&p, WATCH_NODE_CREATED, "/a", state_zxid(h.service.state));
    service_harness_advance(&h, 500);
    assert_int_equal(session_tracker_count(h.service.sessions), 2);
    service_harness_advance(&h, 51);
    service_harness_settle(&h);
    assert_int_equal(session_tracker_count(h.service.sessions), 1);
    guest_finish(&p);
    guest_finish(&other);
    service_harness_finish(&h);
}

/* The end of a session is on its way through the log: nobody is answered any more, and who takes the
 * session up again comes behind it. */
static void test_the_end_is_on_its_way(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest again;
    struct wire_connect_response response;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 4000);
    for (int i = 0; i < 9; i++) {
        service_harness_advance(&h, 500);
    }
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    guest_init(&again, &h);
    guest_connect(&again, 0, 4000, p.c.session_id, slice_make(p.passwd, WIRE_PASSWD_LEN), true);
    service_harness_settle(&h);
    guest_expect_nothing(&p);
    assert_true(p.closed);
    guest_connected(&again, &response);
    assert_int_equal(response.session_id, 0);
    guest_finish(&again);
    guest_finish(&p);
    service_harness_finish(&h);
}

struct told {
    size_t count;
    int64_t heard_ms;
};

static void on_told(void *ctx, int64_t id, int64_t heard_ms)
{
    struct told *told = ctx;
    told->count++;
    told->heard_ms = heard_ms;
}

/* A follower ends no session and reports the signs of life, also of sessions whose connection has gone; a new leader
 * gives every session a full timeout. */
static void test_the_leader_judges(void **state)
{
    struct service_harness h;
    struct guest p;
    struct told told = {0};
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 4000);
    follow(&h);
    h.now_ms += 5;
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    service_harness_settle(&h);
    int64_t answered_ms = h.now_ms;
    guest_finish(&p);
    h.now_ms += 5;
    session_tracker_report(h.service.sessions, 1, on_told, &told);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.heard_ms, answered_ms);
    for (int i = 0; i < 40; i++) {
        service_harness_advance(&h, 500);
    }
    service_harness_settle(&h);
    assert_int_equal(session_tracker_count(h.service.sessions), 1);

    assert_int_equal(leadership_set(&h.service, true), 0);
    for (int i = 0; i < 8; i++) {
        service_harness_advance(&h, 500);
        service_harness_settle(&h);
    }
    assert_int_equal(session_tracker_count(h.service.sessions), 1);
    service_harness_advance(&h, 51);
    service_harness_settle(&h);
    assert_int_equal(session_tracker_count(h.service.sessions), 0);
    service_harness_finish(&h);
}

/* Another server attaches a session: what its ensemble does to this one. */
static void attach_elsewhere(struct service_harness *h, int64_t id, const uint8_t *passwd)
{
    struct wire_connect_response session = {
        .timeout_ms = 10000, .session_id = id, .passwd = slice_make(passwd, WIRE_PASSWD_LEN)};
    struct batch_header header = {.origin = 9, .sequence = 1, .time_ms = 1};
    struct command command = {.session_id = id, .type = COMMAND_ATTACH_SESSION};
    struct buf body;
    struct buf batch;
    buf_init(&body, 0);
    buf_init(&batch, 0);
    wire_encode_connect_response(&body, &session);
    command.body = buf_slice(&body);
    command.ids.items = slice_str("");
    batch_begin(&batch, &header);
    batch_add(&batch, 0, &command);
    assert_int_equal(service_harness_take(&h->service, buf_slice(&batch)), 0);
    buf_finish(&body);
    buf_finish(&batch);
}

/* In an ensemble a session is taken up through the log, without a zxid. Its old connection goes: at this
 * server at once, so that none of its writes comes behind, at another when that is applied, and
 * stragglers' writes are refused. */
static void test_sessions_move(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest again;
    struct wire_connect_response response;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    follow(&h);
    int64_t id = p.c.session_id;
    int64_t zxid = state_zxid(h.service.state);
    guest_init(&again, &h);
    guest_connect(&again, 0, 10000, id, slice_make(p.passwd, WIRE_PASSWD_LEN), true);
    service_harness_turn(&h);
    assert_int_equal(again.c.stage, CONNECTION_CREATING);
    assert_true(p.closed);
    service_harness_settle(&h);
    guest_connected(&again, &response);
    assert_int_equal(response.session_id, id);
    assert_int_equal(state_zxid(h.service.state), zxid);

    int32_t late = guest_request(&again, WIRE_CREATE, body_create("/late", "", 0));
    attach_elsewhere(&h, id, again.passwd);
    assert_int_equal(again.c.stage, CONNECTION_CLOSED);
    service_harness_settle(&h);
    (void)late;
    struct guest reader;
    h.service.standing.sole = true;
    guest_open(&reader, &h, 10000);
    int32_t get = guest_request(&reader, WIRE_EXISTS, body_path_watch("/late", false));
    service_harness_settle(&h);
    guest_expect(&reader, get, CONCLAVE_NO_NODE);
    guest_finish(&reader);
    guest_finish(&again);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* A wrong password is refused, here or by the log; so is a client that has seen what nobody here has. */
static void test_sessions_are_refused(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest wrong;
    struct guest unknown;
    struct guest ahead;
    struct wire_connect_response response;
    uint8_t passwd[WIRE_PASSWD_LEN] = {1};
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    follow(&h);
    guest_init(&wrong, &h);
    guest_connect(&wrong, 0, 10000, p.c.session_id, slice_make(passwd, sizeof passwd), true);
    service_harness_settle(&h);
    guest_connected(&wrong, &response);
    assert_int_equal(response.session_id, 0);
    guest_init(&unknown, &h);
    guest_connect(&unknown, 0, 10000, 0x123456, slice_make(passwd, sizeof passwd), true);
    service_harness_settle(&h);
    guest_connected(&unknown, &response);
    assert_int_equal(response.session_id, 0);
    guest_init(&ahead, &h);
    guest_connect(&ahead, 1000000, 10000, p.c.session_id, slice_make(p.passwd, WIRE_PASSWD_LEN),
                  true);
    service_harness_settle(&h);
    assert_true(ahead.closed);
    guest_expect_nothing(&ahead);
    guest_finish(&ahead);
    guest_finish(&unknown);
    guest_finish(&wrong);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* A snapshot of the leader's takes the place of the state: clients are sent away, what they had on its
 * way is given up, and what is written afterwards counts. */
static void test_state_is_replaced(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest later;
    struct buf snapshot;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    buf_init(&snapshot, 0);
    assert_int_equal(state_snapshot_begin(h.service.state), 0);
    while (state_snapshot_step(h.service.state, 1 << 20, &snapshot) == 1) {}
    guest_request(&p, WIRE_CREATE, body_create("/a", "", 0));
    service_harness_turn(&h);
    guest_request(&p, WIRE_CREATE, body_create("/b", "", 0));
    assert_int_equal(service_restore(&h.service, buf_slice(&snapshot)), 0);
    service_forget(&h.service);
    assert_int_equal(h.service.pipeline.outstanding, 0);
    service_harness_turn(&h);
    assert_true(p.closed);
    guest_finish(&p);

    guest_open(&later, &h, 10000);
    int32_t create = guest_request(&later, WIRE_CREATE, body_create("/c", "", 0));
    service_harness_settle(&h);
    guest_expect(&later, create, 0);
    guest_finish(&later);
    buf_finish(&snapshot);
    service_harness_finish(&h);
}

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sync_waits_for_its_ticket),
        cmocka_unit_test(test_one_round_is_shared),
        cmocka_unit_test(test_linearizable_reads),
        cmocka_unit_test(test_a_write_proves_what_is_in_front),
        cmocka_unit_test(test_confirmed_too_late),
        cmocka_unit_test(test_no_contact),
        cmocka_unit_test(test_answers_wait_for_contact),
        cmocka_unit_test(test_too_long_silent),
        cmocka_unit_test(test_events_keep_nobody_alive),
        cmocka_unit_test(test_the_end_is_on_its_way),
        cmocka_unit_test(test_the_leader_judges),
        cmocka_unit_test(test_sessions_move),
        cmocka_unit_test(test_sessions_are_refused),
        cmocka_unit_test(test_state_is_replaced),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    body_finish();
    return failed;
}
