/* A server's place in its ensemble, as its clients feel it: reads that wait for a quorum, no answers
 * without a leader, sessions judged by the leader alone. */
#include "support/service_harness.h"

#include "base/log.h"

static void follow(struct service_harness *h)
{
    h->service.standing.sole = false;
    assert_int_equal(service_lead(&h->service, false), 0);
}

/* A sync is answered when its ticket is confirmed, and what is behind it waits with it. */
static void test_sync_waits_for_its_ticket(void **state)
{
    (void)state;
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

    service_confirmed(&h.service, 1);
    service_harness_settle(&h);
    guest_expect(&p, sync, 0);
    guest_expect(&p, after, 0);
    service_confirmed(&h.service, 1); /* told again: nothing waits */
    guest_finish(&p);
    service_harness_finish(&h);
}

/* Who asks while a ticket is out waits for the next one: it may have been taken too early for him. All
 * who ask meanwhile share that one. */
static void test_one_round_is_shared(void **state)
{
    (void)state;
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
    service_confirmed(&h.service, 1);
    service_harness_settle(&h);
    assert_int_equal(h.tickets, 2);
    guest_expect(&p[0], sync[0], 0);
    guest_expect_nothing(&p[1]);
    guest_expect_nothing(&p[2]);
    service_confirmed(&h.service, 2);
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
    (void)state;
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    h.service.standing.sole = false;
    h.service.standing.linearizable = true;
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    int32_t create = guest_request(&p, WIRE_CREATE, body_create("/a", "1", 0));
    int32_t get = guest_request(&p, WIRE_GET_DATA, body_path_watch("/a", false));
    service_harness_settle(&h);
    guest_expect(&p, WIRE_XID_PING, 0);
    guest_expect(&p, create, 0);
    guest_expect_nothing(&p);
    service_confirmed(&h.service, h.tickets);
    service_harness_settle(&h);
    guest_expect(&p, get, 0);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* A connection that goes while its read waits is forgotten. */
static void test_confirmed_too_late(void **state)
{
    (void)state;
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    follow(&h);
    guest_request(&p, WIRE_SYNC, body_path_watch("/", false));
    service_harness_settle(&h);
    guest_finish(&p);
    service_confirmed(&h.service, 1);
    assert_int_equal(h.service.pipeline.outstanding, 0);
    service_harness_finish(&h);
}

/* Without a leader nothing is answered, pings neither; after two ticks clients are sent away. */
static void test_no_contact(void **state)
{
    (void)state;
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 30000);
    follow(&h);
    service_set_contact(&h.service, h.service.limits.tick_ms + 1);
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    int32_t get = guest_request(&p, WIRE_EXISTS, body_path_watch("/", false));
    service_harness_settle(&h);
    guest_expect_nothing(&p);
    assert_false(p.closed);

    service_set_contact(&h.service, 5);
    service_harness_settle(&h);
    guest_expect(&p, WIRE_XID_PING, 0);
    guest_expect(&p, get, 0);

    service_set_contact(&h.service, 2 * (int64_t)h.service.limits.tick_ms + 1);
    service_harness_settle(&h);
    assert_true(p.closed);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* A follower expires nobody and tells who lives; who begins to lead gives everybody a full timeout. */
static void test_the_leader_judges(void **state)
{
    (void)state;
    struct service_harness h;
    struct guest p;
    struct buf ids;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 4000);
    follow(&h);
    buf_init(&ids, 0);
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    service_harness_settle(&h);
    assert_int_equal(service_take_touches(&h.service, &ids), 1);
    assert_int_equal(ids.len, 8);
    assert_int_equal(service_take_touches(&h.service, &ids), 0);
    buf_finish(&ids);
    for (int i = 0; i < 40; i++) {
        service_harness_advance(&h, 500);
    }
    service_harness_settle(&h);
    assert_int_equal(session_tracker_count(h.service.sessions), 1);

    assert_int_equal(service_lead(&h.service, true), 0);
    for (int i = 0; i < 7; i++) {
        service_harness_advance(&h, 500);
        service_harness_settle(&h);
    }
    assert_int_equal(session_tracker_count(h.service.sessions), 1);
    for (int i = 0; i < 6; i++) {
        service_harness_advance(&h, 500);
        service_harness_settle(&h);
    }
    assert_int_equal(session_tracker_count(h.service.sessions), 0);
    guest_finish(&p);
    service_harness_finish(&h);
}

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sync_waits_for_its_ticket),
        cmocka_unit_test(test_one_round_is_shared),
        cmocka_unit_test(test_linearizable_reads),
        cmocka_unit_test(test_confirmed_too_late),
        cmocka_unit_test(test_no_contact),
        cmocka_unit_test(test_the_leader_judges),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    body_finish();
    return failed;
}
