/* Sessions that one server alone knows: local ones and their upgrade, and those of clients that may only read. */
#include "support/service_harness.h"

/* A follower of an ensemble that makes local sessions, whose clients' commands the harness applies. */
static void open_follower(struct service_harness *h, bool upgrading)
{
    struct service_options options = service_harness_options();
    options.local_sessions = true;
    options.local_upgrading = upgrading;
    options.read_only_mode = true;
    service_harness_open(h, options);
    service_harness_join(h);
    assert_int_equal(leadership_set(&h->service, false), 0);
}

static void connect_guest(struct guest *p, struct service_harness *h, int64_t id,
                          const uint8_t *passwd, bool read_only, struct wire_connect_response *ret)
{
    static const uint8_t none[WIRE_PASSWD_LEN];
    guest_init(p, h);
    struct wire_connect_request request = {
        .timeout_ms = 10000,
        .session_id = id,
        .passwd = slice_make(passwd != NULL ? passwd : none, WIRE_PASSWD_LEN),
    };
    struct buf body;
    buf_init(&body, 0);
    wire_encode_connect_request(&body, &request);
    wire_write_boolean(&body, read_only);
    guest_send_frame(p, buf_slice(&body));
    buf_finish(&body);
    service_harness_settle(h);
    *ret = (struct wire_connect_response){.timeout_ms = -1};
    if (p->out.len > 0) {
        guest_connected(p, ret);
    }
}

static bool known_to_all(struct service_harness *h, int64_t id)
{
    struct state_session session;
    return state_session_find(h->service.state, id, &session);
}

/* Time passes while there is a leader. */
static void pass(struct service_harness *h, int64_t ms)
{
    leadership_contact(&h->service, h->now_ms + ms);
    service_harness_advance(h, ms);
}

struct sought {
    int64_t id;
    bool found;
};

static void on_told(void *ctx, int64_t id, int64_t heard_ms)
{
    struct sought *sought = ctx;
    sought->found = sought->found || id == sought->id;
}

/* Whether the next report tells that the session lives; it is acknowledged at once. */
static bool touches(struct service_harness *h, int64_t id)
{
    static uint32_t number;
    struct sought sought = {.id = id};
    h->now_ms++;
    session_tracker_report(h->service.sessions, ++number, on_told, &sought);
    session_tracker_reported(h->service.sessions, number);
    return sought.found;
}

/* Its session is not in the log and sends the leader no heartbeats; its writes are carried out. */
static void test_local(void **state)
{
    struct service_harness h;
    struct guest p;
    struct wire_connect_response r;
    open_follower(&h, false);
    connect_guest(&p, &h, 0, NULL, false, &r);
    assert_true(r.session_id != 0);
    assert_int_equal(h.log_total, 0);
    assert_false(known_to_all(&h, r.session_id));
    int32_t create = guest_request(&p, WIRE_CREATE, body_create("/a", "1", WIRE_MODE_PERSISTENT));
    int32_t get = guest_request(&p, WIRE_GET_DATA, body_path_watch("/a", true));
    int32_t ephemeral = guest_request(&p, WIRE_CREATE, body_create("/e", "", WIRE_MODE_EPHEMERAL));
    service_harness_settle(&h);
    guest_expect(&p, create, 0);
    guest_expect(&p, get, 0);
    guest_expect(&p, ephemeral, CONCLAVE_EPHEMERAL_ON_LOCAL_SESSION);
    assert_false(touches(&h, r.session_id));
    uint64_t entries = h.log_total;
    int32_t close = guest_request(&p, WIRE_CLOSE_SESSION, slice_str(""));
    service_harness_settle(&h);
    guest_expect(&p, close, 0);
    assert_true(p.closed);
    assert_true(h.log_total == entries);
    assert_int_equal(local_sessions_count(&h.service.locals), 0);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* The first ephemeral node makes it a session of all, with the same id and password. */
static void test_upgrade(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest again;
    struct wire_connect_response r;
    struct wire_connect_response r2;
    uint8_t passwd[WIRE_PASSWD_LEN];
    open_follower(&h, true);
    connect_guest(&p, &h, 0, NULL, false, &r);
    memcpy(passwd, r.passwd.data, sizeof passwd);
    int32_t before = guest_request(&p, WIRE_CREATE, body_create("/a", "", WIRE_MODE_PERSISTENT));
    int32_t create = guest_request(&p, WIRE_CREATE, body_create("/e", "", WIRE_MODE_EPHEMERAL));
    int32_t after = guest_request(&p, WIRE_SET_DATA, body_set("/a", "2"));
    service_harness_settle(&h);
    guest_expect(&p, before, 0);
    guest_expect(&p, create, 0);
    guest_expect(&p, after, 0);
    assert_true(known_to_all(&h, r.session_id));
    assert_int_equal(local_sessions_count(&h.service.locals), 0);
    assert_int_equal(session_tracker_count(h.service.sessions), 1);
    (void)guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    assert_true(touches(&h, r.session_id));
    connect_guest(&again, &h, r.session_id, passwd, false, &r2);
    assert_true(r2.session_id == r.session_id);
    guest_finish(&again);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* The command that upgrades it is lost with the log's: the session is, too. */
static void test_upgrade_lost(void **state)
{
    struct service_harness h;
    struct guest p;
    struct wire_connect_response r;
    open_follower(&h, true);
    connect_guest(&p, &h, 0, NULL, false, &r);
    (void)guest_request(&p, WIRE_CREATE, body_create("/e", "", WIRE_MODE_EPHEMERAL));
    assert_int_equal(local_sessions_count(&h.service.locals), 1);
    service_forget(&h.service);
    assert_int_equal(local_sessions_count(&h.service.locals), 0);
    guest_finish(&p);
    service_harness_finish(&h);
}

static void test_local_expires(void **state)
{
    struct service_harness h;
    struct guest p;
    struct wire_connect_response r;
    open_follower(&h, true);
    connect_guest(&p, &h, 0, NULL, false, &r);
    for (int i = 0; i < 16; i++) { /* it pings */
        pass(&h, 1000);
        (void)guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
        service_harness_settle(&h);
    }
    assert_false(p.closed);
    for (int i = 0; i < 13; i++) {
        pass(&h, 1000);
        service_harness_settle(&h);
    }
    assert_true(p.closed);
    assert_int_equal(local_sessions_count(&h.service.locals), 0);
    assert_int_equal(h.log_total, 0);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* The quorum is gone for `ms`, as the beats tell it. */
static void lose_quorum(struct service_harness *h, int64_t ms)
{
    leadership_contact(&h->service, h->now_ms);
    for (int64_t t = 0; t <= ms; t += 500) {
        leadership_look_at_contact(&h->service);
        service_harness_advance(h, 500);
    }
}

static void test_read_only(void **state)
{
    struct service_harness h;
    struct guest writer;
    struct guest reader;
    struct guest other;
    struct wire_connect_response r;
    struct wire_connect_response real;
    uint8_t passwd[WIRE_PASSWD_LEN];
    open_follower(&h, true);
    connect_guest(&writer, &h, 0, NULL, true, &real);
    memcpy(passwd, real.passwd.data, sizeof passwd);
    int32_t create =
        guest_request(&writer, WIRE_CREATE, body_create("/e", "x", WIRE_MODE_EPHEMERAL));
    service_harness_settle(&h);
    guest_expect(&writer, create, 0);
    lose_quorum(&h, 4500);
    service_harness_settle(&h);
    assert_true(writer.closed);
    connect_guest(&reader, &h, 0, NULL, true, &r); /* not yet: there may be a quorum soon */
    assert_true(reader.closed);
    guest_finish(&reader);
    lose_quorum(&h, 10000);

    connect_guest(&other, &h, 0, NULL, false, &r);
    assert_true(other.closed && r.timeout_ms == -1); /* it does not ask for that */
    guest_finish(&other);
    connect_guest(&other, &h, real.session_id, passwd, true, &r);
    assert_true(other.closed && r.timeout_ms == -1); /* a session of all servers */
    guest_finish(&other);

    connect_guest(&reader, &h, 0, NULL, true, &r);
    assert_true(r.session_id != 0);
    h.service.standing.linearizable = true; /* reads need no proof: the client accepts old data */
    int32_t get = guest_request(&reader, WIRE_GET_DATA, body_path_watch("/e", true));
    int32_t sync = guest_request(&reader, WIRE_SYNC, body_path_watch("/", false));
    int32_t set = guest_request(&reader, WIRE_SET_DATA, body_set("/e", "y"));
    service_harness_settle(&h);
    guest_expect(&reader, get, 0);
    guest_expect(&reader, sync, CONCLAVE_NOT_READ_ONLY);
    guest_expect(&reader, set, CONCLAVE_NOT_READ_ONLY);
    assert_false(touches(&h, r.session_id));
    for (int i = 0; i < 4; i++) { /* it stays: those who write were sent away, not it */
        leadership_look_at_contact(&h.service);
        service_harness_advance(&h, 500);
    }
    service_harness_settle(&h);
    assert_false(reader.closed);

    leadership_contact(&h.service, h.now_ms);
    leadership_look_at_contact(&h.service);
    service_harness_settle(&h);
    assert_true(reader.closed);
    assert_int_equal(local_sessions_count(&h.service.locals), 0);
    guest_finish(&reader);
    guest_finish(&writer);
    service_harness_finish(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_local),        cmocka_unit_test(test_upgrade),
        cmocka_unit_test(test_upgrade_lost), cmocka_unit_test(test_local_expires),
        cmocka_unit_test(test_read_only),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    body_finish();
    return rc;
}
