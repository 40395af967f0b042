/* Orders of tests: drops before and after a request, holds, the clock of sessions, counts, reset, limits. */
#include "front/faults.h"

#include "support/service_harness.h"

static void open_for_tests(struct service_harness *h)
{
    struct service_options options = service_harness_options();
    options.test = true;
    service_harness_open(h, options);
}

static void close_all(struct service_harness *h)
{
    service_harness_settle(h);
    service_harness_finish(h);
}

static uint64_t requests_of(const struct service_harness *h, const char *name)
{
    size_t at = 0;
    while (strcmp(faults_op_name(at), name) != 0) {
        at++;
    }
    return faults_counts(h->service.faults)->requests[at];
}

static void test_off(void **state)
{
    struct service_harness h;
    service_harness_init(&h, NULL);
    assert_null(h.service.faults);
    service_harness_finish(&h);
}

static void test_drop_before(void **state)
{
    struct service_harness h;
    struct guest p;
    open_for_tests(&h);
    guest_open(&p, &h, 10000);
    assert_int_equal(faults_drop(&h.service, 77, FAULT_DROP_BEFORE, NULL), CONCLAVE_NO_NODE);
    assert_int_equal(faults_drop(&h.service, p.c.session_id, FAULT_DROP_BEFORE, NULL), 0);
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    service_harness_settle(&h);
    guest_expect(&p, WIRE_XID_PING, 0); /* a ping is no request of the program */
    size_t entries = h.log_total;
    guest_request(&p, WIRE_CREATE, body_create("/a", "1", 0));
    service_harness_settle(&h);
    assert_true(p.closed);
    assert_int_equal(h.log_total, entries);
    assert_int_equal(requests_of(&h, "create"), 1);
    assert_int_equal(faults_counts(h.service.faults)->dropped, 1);
    guest_finish(&p);
    close_all(&h);
}

/* Only the answer of the matching request is lost; the ones before it arrive, and the write is in the log. */
static void test_drop_after(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest other;
    open_for_tests(&h);
    guest_open(&p, &h, 10000);
    guest_open(&other, &h, 10000);
    assert_int_equal(faults_drop(&h.service, p.c.session_id, FAULT_DROP_AFTER, "create"), 0);
    int32_t get = guest_request(&p, WIRE_GET_DATA, body_path_watch("/a", false));
    service_harness_settle(&h);
    guest_expect(&p, get, CONCLAVE_NO_NODE);
    int32_t theirs = guest_request(&other, WIRE_CREATE, body_create("/other", "1", 0));
    service_harness_settle(&h);
    guest_expect(&other, theirs, 0);
    guest_request(&p, WIRE_CREATE, body_create("/a", "1", 0));
    service_harness_settle(&h);
    guest_expect_nothing(&p);
    assert_true(p.closed);
    get = guest_request(&other, WIRE_GET_DATA, body_path_watch("/a", false));
    service_harness_settle(&h);
    guest_expect(&other, get, 0);
    guest_finish(&p);
    guest_finish(&other);
    close_all(&h);
}

/* A read's answer can be lost, too. */
static void test_drop_after_read(void **state)
{
    struct service_harness h;
    struct guest p;
    open_for_tests(&h);
    guest_open(&p, &h, 10000);
    assert_int_equal(faults_drop(&h.service, FAULTS_ALL, FAULT_DROP_AFTER, NULL), 0);
    guest_request(&p, WIRE_GET_DATA, body_path_watch("/a", false));
    service_harness_settle(&h);
    guest_expect_nothing(&p);
    assert_true(p.closed);
    guest_finish(&p);
    close_all(&h);
}

static void test_names(void **state)
{
    assert_true(faults_what_is_known("create") && faults_what_is_known("create2"));
    assert_true(faults_what_is_known("write") && faults_what_is_known("getChildren"));
    assert_false(faults_what_is_known("") || faults_what_is_known("creat"));
    size_t count = 0;
    while (faults_op_name(count) != NULL) {
        assert_true(faults_what_is_known(faults_op_name(count)));
        count++;
    }
    assert_true(count > 30 && count <= FAULTS_OPS_MAX);
}

static void test_holds(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest other;
    open_for_tests(&h);
    guest_open(&p, &h, 10000);
    guest_open(&other, &h, 10000);
    struct faults *f = h.service.faults;
    assert_false(faults_hold(&p.c));
    assert_int_equal(faults_pause(&h.service, p.c.session_id, 100), 0);
    assert_true(faults_hold(&p.c) && !faults_hold(&other.c));
    assert_false(faults_due(f, h.now_ms - 1));
    h.now_ms += 99;
    assert_true(faults_hold(&p.c));
    h.now_ms += 1;
    assert_true(faults_due(f, h.now_ms));
    assert_false(faults_hold(&p.c) || faults_due(f, h.now_ms));
    assert_int_equal(faults_pause(&h.service, FAULTS_ALL, FAULTS_FOREVER), 0);
    assert_true(faults_hold(&p.c) && faults_hold(&other.c));
    assert_int_equal(faults_resume(&h.service, FAULTS_ALL), 0);
    assert_false(faults_hold(&p.c) || faults_hold(&other.c));
    assert_int_equal(faults_pause(&h.service, 77, 1), CONCLAVE_NO_NODE);
    assert_int_equal(faults_resume(&h.service, 77), CONCLAVE_NO_NODE);

    assert_int_equal(faults_delay(&h.service, FAULTS_ALL, 50), 0);
    assert_false(faults_hold(&p.c)); /* it has no answer to delay */
    buf_append_str(&p.c.out, "answer");
    assert_true(faults_hold(&p.c));
    h.now_ms += 50;
    assert_false(faults_hold(&p.c));
    p.c.out.len = 0;
    faults_clear(&h.service);
    guest_finish(&p);
    guest_finish(&other);
    close_all(&h);
}

/* What passes at once ends sessions that were silent before, and no other. */
static void test_clock(void **state)
{
    struct service_harness h;
    struct guest live;
    struct guest gone;
    open_for_tests(&h);
    guest_open(&live, &h, 10000);
    guest_open(&gone, &h, 10000);
    guest_finish(&gone);
    guest_request_xid(&live, WIRE_XID_PING, WIRE_PING, slice_str(""));
    service_harness_settle(&h);
    assert_int_equal(faults_advance(&h.service, 6000), 0);
    assert_int_equal(faults_advance(&h.service, 6000), 1);
    service_harness_settle(&h);
    assert_int_equal(faults_counts(h.service.faults)->expired, 1);
    assert_int_equal(session_tracker_count(h.service.sessions), 1);
    guest_open(&gone, &h, 10000);
    assert_int_equal(faults_pause(&h.service, gone.c.session_id, FAULTS_FOREVER), 0);
    assert_int_equal(faults_advance(&h.service, 10100), 1); /* one that is paused is silent */
    service_harness_settle(&h);
    assert_true(gone.closed && !live.closed);
    guest_finish(&gone);
    h.now_ms += 7000; /* silent for more than two thirds */
    service_harness_settle(&h);
    assert_int_equal(faults_advance(&h.service, 20000), 1);
    service_harness_settle(&h);
    assert_true(live.closed);
    guest_finish(&live);
    close_all(&h);
}

static void test_frozen(void **state)
{
    struct service_harness h;
    struct guest gone;
    open_for_tests(&h);
    guest_open(&gone, &h, 4000);
    guest_finish(&gone);
    faults_freeze(&h.service, true);
    for (int i = 0; i < 100; i++) {
        h.now_ms += 200;
        service_tick(&h.service);
        service_harness_settle(&h);
    }
    assert_int_equal(session_tracker_count(h.service.sessions), 1);
    faults_freeze(&h.service, false);
    for (int i = 0; i < 100; i++) {
        h.now_ms += 200;
        service_tick(&h.service);
        service_harness_settle(&h);
    }
    assert_int_equal(session_tracker_count(h.service.sessions), 0);
    close_all(&h);
}

static void test_expire_and_reset(void **state)
{
    struct service_harness h;
    struct guest p;
    open_for_tests(&h);
    guest_open(&p, &h, 10000);
    guest_request(&p, WIRE_CREATE, body_create("/a", "1", 0));
    guest_request(&p, WIRE_CREATE, body_create("/a/b", "1", 0));
    guest_request(&p, WIRE_CREATE, body_create("/mine", "1", WIRE_MODE_EPHEMERAL));
    service_harness_settle(&h);
    assert_false(faults_is_empty(&h.service));
    assert_int_equal(faults_expire(&h.service, 77), CONCLAVE_NO_NODE);
    assert_int_equal(faults_expire(&h.service, p.c.session_id), 0);
    service_harness_settle(&h);
    assert_true(p.closed);
    assert_int_equal(faults_counts(h.service.faults)->expired, 1);
    guest_finish(&p);
    guest_open(&p, &h, 10000);
    assert_int_equal(faults_reset(&h.service), 0);
    service_harness_settle(&h);
    assert_true(faults_is_empty(&h.service) && p.closed);
    assert_int_equal(session_tracker_count(h.service.sessions), 0);
    assert_int_equal(faults_counts(h.service.faults)->closed, 1);
    guest_finish(&p);
    close_all(&h);
}

static void test_limits(void **state)
{
    struct service_harness h;
    struct guest p;
    struct faults_state s;
    open_for_tests(&h);
    guest_open(&p, &h, 10000);
    for (int i = 0; i < FAULTS_DROPS_MAX; i++) {
        assert_int_equal(faults_drop(&h.service, FAULTS_ALL, FAULT_DROP_AFTER, NULL), 0);
    }
    assert_int_equal(faults_drop(&h.service, FAULTS_ALL, FAULT_DROP_AFTER, NULL), CONCLAVE_EBUSY);
    faults_refuse(&h.service, 100);
    faults_freeze(&h.service, true);
    faults_state(&h.service, &s);
    assert_true(s.drops == FAULTS_DROPS_MAX && s.holds == 0 && s.refusing && s.frozen);
    assert_true(faults_on_accept(&h.service));
    h.now_ms += 100;
    assert_false(faults_on_accept(&h.service));
    faults_refuse(&h.service, FAULTS_FOREVER);
    faults_clear(&h.service);
    faults_state(&h.service, &s);
    assert_true(s.drops == 0 && !s.refusing && !s.frozen);
    faults_mark(&h.service);
    assert_int_equal(faults_counts(h.service.faults)->connections, 0);
    guest_finish(&p);
    close_all(&h);
}

static int end_bodies(void **state)
{
    body_finish();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_drop_before),
        cmocka_unit_test(test_drop_after),
        cmocka_unit_test(test_drop_after_read),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_holds),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_frozen),
        cmocka_unit_test(test_expire_and_reset),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, end_bodies);
}
