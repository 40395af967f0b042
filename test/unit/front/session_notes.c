/* What a server notes about the end of sessions: which record each end leaves, and with which facts. */
#include "support/service_harness.h"

enum { T = 4000 };

static const struct ledger_record *record_of(struct service_harness *h, const struct guest *p)
{
    return session_ledger_find(h->service.notes.ledger, p->c.session_id);
}

static const char *cause_of(struct service_harness *h, int64_t id)
{
    const struct ledger_record *r = session_ledger_find(h->service.notes.ledger, id);
    return r != NULL ? session_cause_code(session_cause_find(&r->facts)) : "none";
}

/* Time passes with beats, until sessions are over. */
static void pass(struct service_harness *h, int64_t ms)
{
    enum { STEP = 10 };
    for (int64_t i = 0; i < ms; i += STEP) {
        service_harness_advance(h, STEP);
        service_harness_settle(h);
    }
}

static bool mute(const struct connection *c, struct session_tcp *ret)
{
    *ret = (struct session_tcp){.known = true, .probes = 2, .heard_ms = T};
    return true;
}

static void test_silent(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    h.service.notes.tcp = mute;
    guest_open(&p, &h, T);
    pass(&h, 1500);
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    service_harness_settle(&h);
    guest_expect(&p, WIRE_XID_PING, 0);
    int64_t id = p.c.session_id;
    pass(&h, T + 1000);
    assert_true(p.closed);
    assert_string_equal(cause_of(&h, id), "network");
    const struct session_facts *f = &record_of(&h, &p)->facts;
    assert_int_equal(f->end, SESSION_END_EXPIRED);
    assert_int_equal(f->link, SESSION_LINK_OPEN);
    assert_string_equal(f->client, "10.1.2.3:4567");
    assert_string_equal(f->last_request, "ping");
    assert_in_range(f->silent_ms, T, T + 200);
    assert_in_range(f->gap_ms, 1400, 1600);
    assert_in_range(f->linked_ms, T + 1500, T + 2000);
    assert_true(f->decided && f->owner_here);
    assert_in_range(f->heard_ms, T, T + 200);
    guest_finish(&p);
    service_harness_finish(&h);
}

static void test_left(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, T);
    int64_t id = p.c.session_id;
    pass(&h, 500);
    connection_lost(&p.c, false, NULL);
    guest_finish(&p);
    assert_string_equal(cause_of(&h, id), "lives");
    pass(&h, T + 1000);
    assert_string_equal(cause_of(&h, id), "client_left");
    const struct session_facts *f = &session_ledger_find(h.service.notes.ledger, id)->facts;
    assert_in_range(f->unlinked_ms, T - 700, T + 200);
    assert_in_range(f->silent_ms, 0, 600);
    service_harness_finish(&h);
}

/* A client that comes back has a new connection, and the record of the old one goes. */
static void test_resumed(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest again;
    struct wire_connect_response response;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, T);
    int64_t id = p.c.session_id;
    connection_drop(&p.c, "of the test");
    guest_finish(&p);
    assert_int_equal(session_ledger_find(h.service.notes.ledger, id)->facts.link,
                     SESSION_LINK_DROPPED);
    assert_int_equal(session_ledger_find(h.service.notes.ledger, id)->ring, LEDGER_UNLINKED);
    guest_init(&again, &h);
    guest_connect(&again, 0, T, id, slice_make(p.passwd, sizeof p.passwd), true);
    service_harness_settle(&h);
    guest_connected(&again, &response);
    assert_int_equal(response.session_id, id);
    assert_string_equal(cause_of(&h, id), "none");
    guest_request(&again, WIRE_CLOSE_SESSION, slice_str(""));
    service_harness_settle(&h);
    assert_string_equal(cause_of(&h, id), "closed");
    assert_int_equal(session_ledger_find(h.service.notes.ledger, id)->ring, LEDGER_ORDERLY);
    guest_finish(&again);
    service_harness_finish(&h);
}

static void test_killed(void **state)
{
    struct service_harness h;
    struct guest p;
    struct buf ids;
    struct wire_id who = {slice_str("digest"), slice_str("anna:hash")};
    service_harness_init(&h, NULL);
    guest_open(&p, &h, T);
    int64_t id = p.c.session_id;
    buf_init(&ids, 0);
    wire_encode_id(&ids, &who);
    assert_int_equal(service_kill_session(&h.service, 99, wire_vector_make(&ids, 1), "anna"),
                     CONCLAVE_NO_NODE);
    assert_int_equal(service_kill_session(&h.service, id, wire_vector_make(&ids, 1), "anna"), 0);
    service_harness_settle(&h);
    assert_true(p.closed);
    assert_string_equal(cause_of(&h, id), "killed");
    assert_string_equal(record_of(&h, &p)->facts.by, "anna");
    buf_finish(&ids);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* A pause of the process is noted, and the session gets it back. */
static void test_stall(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, T);
    int64_t id = p.c.session_id;
    pass(&h, 500);
    service_harness_advance(&h, 3 * T);
    service_harness_settle(&h);
    assert_false(p.closed);
    connection_lost(&p.c, false, NULL); /* the client has given up meanwhile */
    guest_finish(&p);
    pass(&h, T + 2000);
    assert_string_equal(cause_of(&h, id), "server_stall");
    assert_in_range(session_ledger_find(h.service.notes.ledger, id)->facts.stalled_ms, 2 * T,
                    3 * T);
    service_harness_finish(&h);
}

static int64_t hung(void *ctx)
{
    return 3 * T;
}

/* A client that waits for the answer of a write is alive, however long the log takes. When it gives up, the record says
 * what the disk did. A connection that asked for the session meanwhile leaves such a record, too. */
static void test_hung_disk(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest again;
    service_harness_init(&h, NULL);
    h.service.pipeline.sink.disk_wait = hung;
    guest_open(&p, &h, T);
    int64_t id = p.c.session_id;
    guest_request(&p, WIRE_SET_DATA, body_set("/", "x"));
    for (int i = 0; i < 3 * T / 10; i++) { /* the log does not move */
        service_harness_advance(&h, 10);
    }
    assert_false(p.closed);
    connection_lost(&p.c, false, NULL);
    guest_finish(&p);
    const struct session_facts *f = &session_ledger_find(h.service.notes.ledger, id)->facts;
    assert_in_range(f->owed_ms, 3 * T - 100, 3 * T + 100);
    assert_int_equal(f->sync_longest_ms, 3 * T);
    assert_in_range(f->sync_ms, 1, 3 * T + 100);
    guest_init(&again, &h);
    guest_connect(&again, 0, T, id, slice_make(p.passwd, sizeof p.passwd), true);
    service_harness_advance(&h, 10);
    connection_lost(&again.c, false, NULL);
    guest_finish(&again);
    assert_in_range(f->owed_ms, 10, 20);
    pass(&h, 2 * T);
    assert_string_equal(cause_of(&h, id), "disk_stall");
    service_harness_finish(&h);
}

/* A server that did not run for less than it notices ends no session before it has read what waits in its sockets. */
static void test_input_comes_first(void **state)
{
    enum { SHORT = 600 };
    struct service_harness h;
    struct guest p;
    struct guest gone;
    struct client_limits limits = client_limits_default();
    limits.session_min_ms = SHORT;
    service_harness_init(&h, &limits);
    guest_open(&p, &h, SHORT);
    guest_open(&gone, &h, SHORT);
    pass(&h, 100);
    h.now_ms += 800;
    service_tick(&h.service); /* timers come first in a loop */
    service_harness_settle(&h);
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    service_harness_settle(&h);
    assert_true(service_deadline(&h.service) <= h.now_ms);
    service_tick(&h.service);
    service_harness_settle(&h);
    assert_false(p.closed);
    assert_true(gone.closed);
    guest_expect(&p, WIRE_XID_PING, 0);
    guest_finish(&p);
    guest_finish(&gone);
    service_harness_finish(&h);
}

static void test_off(void **state)
{
    struct service_harness h;
    struct guest p;
    struct client_limits limits = client_limits_default();
    limits.ended_sessions_max = 0;
    service_harness_init(&h, &limits);
    assert_null(h.service.notes.ledger);
    guest_open(&p, &h, T);
    guest_request(&p, WIRE_CLOSE_SESSION, slice_str(""));
    service_harness_settle(&h);
    guest_finish(&p);
    guest_open(&p, &h, T);
    pass(&h, T + 1000);
    assert_true(p.closed);
    guest_finish(&p);
    service_harness_finish(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent),  cmocka_unit_test(test_left),
        cmocka_unit_test(test_resumed), cmocka_unit_test(test_killed),
        cmocka_unit_test(test_stall),   cmocka_unit_test(test_hung_disk),
        cmocka_unit_test(test_off),     cmocka_unit_test(test_input_comes_first),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    body_finish();
    return failed;
}
