/* A mirror of an Apache ZooKeeper: who may do what on it, the source's transactions, and its end. */
#include "front/mirror.h"
#include "state/adopt/adopt.h"
#include "state/adopt/mirrored.h"
#include "state/mirror.h"
#include "support/service_harness.h"

#define SESSION 0x100000001LL
#define SOURCE_ZXID 0x300000005LL
enum { MIRROR_ID = 77 };

struct mirror_fixture {
    struct service_harness h;
    struct buf txn;
    struct pending_owner owner;
    int32_t err; /* of the last own command; 1: no answer yet */
};

static void on_outcome(struct pending_owner *owner, const struct effects *effects)
{
    struct mirror_fixture *x = CONTAINER_OF(owner, struct mirror_fixture, owner);
    x->err = effects != NULL ? effects->err : CONCLAVE_CONNECTION_LOSS;
}

static int32_t own_command(struct mirror_fixture *x, int32_t type, const struct buf *body)
{
    const struct command command = {
        .type = type, .ids = {.items = slice_str(""), .count = 0}, .body = buf_slice(body)};
    x->err = 1;
    x->owner = (struct pending_owner){.applied = on_outcome, .host = "127.0.0.1"};
    int rc = service_write(&x->h.service, &command, &x->owner);
    if (rc != 0) {
        return rc;
    }
    service_harness_settle(&x->h);
    assert_int_not_equal(x->err, 1);
    return x->err;
}

static int32_t begin_with(struct mirror_fixture *x, bool any_reader, bool replace)
{
    struct buf body;
    buf_init(&body, 0);
    const struct state_mirror m = {
        .id = MIRROR_ID, .source = slice_str("127.0.0.1:2888"), .any_reader = any_reader};
    mirror_begin_encode(&body, &m, replace);
    int32_t err = own_command(x, COMMAND_MIRROR_BEGIN, &body);
    buf_finish(&body);
    return err;
}

static int32_t begin(struct mirror_fixture *x, bool any_reader)
{
    return begin_with(x, any_reader, false);
}

static int32_t end(struct mirror_fixture *x, int64_t id, int64_t zxid)
{
    struct buf body;
    buf_init(&body, 0);
    mirror_end_encode(&body, id, zxid);
    int32_t err = own_command(x, COMMAND_MIRROR_END, &body);
    buf_finish(&body);
    return err;
}

/* A state as the source sends it: a session with an ephemeral node, and a plain node. */
static struct state *source_state(void)
{
    struct adoption *a = adoption_create(&hash_key_fixed);
    struct adoption_report report;
    struct state *s = NULL;
    struct adopted_node node = {.path = slice_str(""),
                                .record = {.data = slice_str(""), .acl = -1}};
    assert_non_null(a);
    assert_int_equal(adoption_session(a, SESSION, 8000), 0);
    assert_int_equal(adoption_node(a, &node), 0);
    node.path = slice_str("/plain");
    node.record.data = slice_str("source");
    assert_int_equal(adoption_node(a, &node), 0);
    node.path = slice_str("/mine");
    node.record.ephemeral_owner = SESSION;
    assert_int_equal(adoption_node(a, &node), 0);
    assert_int_equal(adoption_nodes_end(a, SOURCE_ZXID), 0);
    assert_int_equal(adoption_end(a, NULL, NULL, &report, &s), 0);
    adoption_destroy(a);
    return s;
}

static void fixture_init(struct mirror_fixture *x)
{
    service_harness_init(&x->h, NULL);
    buf_init(&x->txn, 0);
}

static void fixture_finish(struct mirror_fixture *x)
{
    buf_finish(&x->txn);
    service_harness_finish(&x->h);
}

static void sync_with_source(struct mirror_fixture *x)
{
    struct service *s = &x->h.service;
    assert_int_equal(mirror_replace(s, source_state()), 0);
    assert_true(mirror_replacing(s));
    service_harness_settle(&x->h);
    assert_false(mirror_replacing(s));
    assert_int_equal(state_zxid(s->state), SOURCE_ZXID);
}

static int set_data(struct mirror_fixture *x, int64_t previous, int64_t zxid, const char *data)
{
    struct wire_txn_header header = {SESSION, 3, zxid, 1000, WIRE_SET_DATA};
    struct wire_set_data_request record = {slice_str("/plain"), slice_str(data), 1};
    buf_reset(&x->txn);
    wire_encode_txn_header(&x->txn, &header);
    wire_encode_set_data_request(&x->txn, &record);
    return mirror_propose(&x->h.service, previous, buf_slice(&x->txn));
}

/* read_only: the client asks for a server that may be read-only. */
static void reader_connect(struct guest *p, struct mirror_fixture *x, bool read_only)
{
    const struct wire_connect_request request = {.timeout_ms = 10000, .passwd = slice_str("")};
    guest_init(p, &x->h);
    buf_reset(&x->txn);
    wire_encode_connect_request(&x->txn, &request);
    wire_write_boolean(&x->txn, read_only);
    guest_send_frame(p, buf_slice(&x->txn));
}

static void reader_open(struct guest *p, struct mirror_fixture *x, bool read_only)
{
    struct wire_connect_response r;
    reader_connect(p, x, read_only);
    service_harness_settle(&x->h);
    guest_connected(p, &r);
    assert_int_not_equal(r.session_id, 0);
    assert_true(p->c.read_only);
}

static void test_writes_are_refused(void **state)
{
    struct mirror_fixture x;
    struct guest before;
    struct guest p;
    struct frame f;
    fixture_init(&x);
    guest_open(&before, &x.h, 10000);
    assert_int_equal(begin(&x, true), 0);
    assert_true(x.h.service.mirrored);
    assert_true(before.closed);
    assert_int_equal(begin(&x, true), CONCLAVE_NODE_EXISTS);
    sync_with_source(&x);
    int64_t zxid = state_zxid(x.h.service.state);
    reader_open(&p, &x, false);
    guest_request(&p, WIRE_CREATE, body_create("/new", "", 0));
    service_harness_settle(&x.h);
    assert_true(guest_next(&p, &f));
    assert_int_equal(f.err, CONCLAVE_NOT_READ_ONLY);
    guest_request(&p, WIRE_EXISTS, body_path_watch("/plain", true));
    service_harness_settle(&x.h);
    assert_true(guest_next(&p, &f));
    assert_int_equal(f.err, 0);
    /* Nothing of the server's own changes it, however long it takes. */
    for (int i = 0; i < 300; i++) {
        service_harness_advance(&x.h, 100);
        service_tick(&x.h.service);
        guest_request(&p, WIRE_PING, SLICE_NULL);
        service_harness_settle(&x.h);
        while (guest_next(&p, &f)) {}
    }
    assert_int_equal(state_zxid(x.h.service.state), zxid);
    struct state_session session;
    assert_true(state_session_find(x.h.service.state, SESSION, &session));
    guest_finish(&p);
    guest_finish(&before);
    fixture_finish(&x);
}

static void test_sessions_of_the_source_are_left_alone(void **state)
{
    struct mirror_fixture x;
    struct guest p;
    struct state_session session;
    struct frame f;
    fixture_init(&x);
    assert_int_equal(begin(&x, false), 0);
    sync_with_source(&x);
    assert_true(state_session_find(x.h.service.state, SESSION, &session));
    for (int known = 0; known < 2; known++) {
        guest_init(&p, &x.h);
        guest_connect(&p, 0, 10000, known ? SESSION : SESSION + 1,
                      slice_make(session.passwd, sizeof session.passwd), true);
        service_harness_settle(&x.h);
        assert_true(p.closed);
        assert_false(guest_next(&p, &f)); /* an answer would end the session */
        guest_finish(&p);
    }
    reader_connect(&p, &x, false); /* only for those who ask for it */
    service_harness_settle(&x.h);
    assert_true(p.closed);
    guest_finish(&p);
    reader_open(&p, &x, true);
    guest_finish(&p);
    fixture_finish(&x);
}

static void test_transactions(void **state)
{
    struct mirror_fixture x;
    struct guest p;
    fixture_init(&x);
    struct service *s = &x.h.service;
    assert_int_equal(mirror_propose(s, 0, slice_str("")), CONCLAVE_NO_NODE);
    assert_int_equal(begin(&x, true), 0);
    assert_int_equal(set_data(&x, SOURCE_ZXID, SOURCE_ZXID + 1, "early"), 0);
    service_harness_settle(&x.h);
    assert_int_not_equal(state_zxid(s->state), SOURCE_ZXID + 1); /* not synced */
    sync_with_source(&x);
    reader_open(&p, &x, true);
    assert_int_equal(set_data(&x, SOURCE_ZXID, SOURCE_ZXID + 1, "one"), 0);
    assert_int_equal(set_data(&x, SOURCE_ZXID + 1, SOURCE_ZXID + 2, "two"), 0);
    assert_true(mirror_backlog(s) > 0);
    service_harness_settle(&x.h);
    assert_int_equal(mirror_backlog(s), 0);
    assert_int_equal(state_zxid(s->state), SOURCE_ZXID + 2);
    uint64_t digest = state_digest(s->state);
    assert_true(digest == state_digest_now(s->state));
    /* Once more, and with a gap. */
    assert_int_equal(set_data(&x, SOURCE_ZXID, SOURCE_ZXID + 1, "one"), 0);
    assert_int_equal(set_data(&x, SOURCE_ZXID + 3, SOURCE_ZXID + 4, "four"), 0);
    service_harness_settle(&x.h);
    assert_true(state_digest(s->state) == digest);
    struct state_mirror m;
    assert_true(state_mirror(s->state, &m) && m.synced);
    /* What cannot be read makes it useless, and that is known. */
    assert_int_equal(mirror_propose(s, SOURCE_ZXID + 2, slice_str("garbage")), 0);
    service_harness_settle(&x.h);
    assert_true(state_mirror(s->state, &m) && !m.synced);
    assert_int_equal(end(&x, MIRROR_ID, SOURCE_ZXID + 2), CONCLAVE_BAD_VERSION);
    sync_with_source(&x); /* the zxid goes back */
    assert_true(p.closed);
    guest_finish(&p);
    fixture_finish(&x);
}

static void test_too_much_waits(void **state)
{
    struct mirror_fixture x;
    fixture_init(&x);
    assert_int_equal(begin(&x, true), 0);
    sync_with_source(&x);
    static char data[1000000];
    memset(data, 'y', sizeof data - 1);
    int64_t zxid = SOURCE_ZXID;
    int rc = 0;
    while (rc == 0) {
        rc = set_data(&x, zxid, zxid + 1, data);
        zxid += rc == 0;
    }
    assert_int_equal(rc, CONCLAVE_EBUSY);
    assert_true(mirror_backlog(&x.h.service) < MIRROR_BACKLOG_MAX + sizeof data);
    service_harness_settle(&x.h);
    assert_int_equal(state_zxid(x.h.service.state), zxid);
    assert_int_equal(set_data(&x, zxid, zxid + 1, "more"), 0);
    service_harness_settle(&x.h);
    fixture_finish(&x);
}

static void test_the_end(void **state)
{
    struct mirror_fixture x;
    struct guest reader;
    struct guest p;
    struct state_session session;
    struct wire_connect_response r;
    struct frame f;
    fixture_init(&x);
    struct service *s = &x.h.service;
    assert_int_equal(begin(&x, true), 0);
    sync_with_source(&x);
    reader_open(&reader, &x, false);
    for (int i = 0; i < 200; i++) {
        service_harness_advance(&x.h, 100);
        service_tick(s);
        guest_request(&reader, WIRE_PING, SLICE_NULL);
        service_harness_settle(&x.h);
        while (guest_next(&reader, &f)) {}
    }
    assert_int_equal(end(&x, MIRROR_ID + 1, SOURCE_ZXID), CONCLAVE_NO_NODE);
    assert_int_equal(end(&x, MIRROR_ID, SOURCE_ZXID + 1), CONCLAVE_BAD_VERSION);
    assert_true(s->mirrored);
    assert_int_equal(end(&x, MIRROR_ID, SOURCE_ZXID), 0);
    assert_false(s->mirrored);
    assert_true(reader.closed);
    assert_int_equal(local_sessions_count(&s->locals), 0);
    assert_int_equal(state_zxid(s->state), SOURCE_ZXID + 1);
    /* The session has its full timeout from now, and goes on with the password that its client has. */
    service_harness_advance(&x.h, 7000);
    service_tick(s);
    service_harness_settle(&x.h);
    assert_true(state_session_find(s->state, SESSION, &session));
    guest_init(&p, &x.h);
    guest_connect(&p, SOURCE_ZXID, 8000, SESSION, slice_make(session.passwd, sizeof session.passwd),
                  false);
    service_harness_settle(&x.h);
    guest_connected(&p, &r);
    assert_int_equal(r.session_id, SESSION);
    int32_t xid = guest_request(&p, WIRE_CREATE, body_create("/own", "", 0));
    service_harness_settle(&x.h);
    assert_int_equal(guest_expect(&p, xid, 0).zxid, SOURCE_ZXID + 2);
    guest_finish(&p);
    guest_finish(&reader);
    fixture_finish(&x);
}

/* The flag is in the snapshot. */
static void test_snapshots(void **state)
{
    struct mirror_fixture x;
    struct state_mirror m;
    struct state *again = NULL;
    struct buf snapshot;
    int rc;
    fixture_init(&x);
    assert_int_equal(begin(&x, false), 0);
    sync_with_source(&x);
    buf_init(&snapshot, 0);
    assert_int_equal(state_snapshot_begin(x.h.service.state), 0);
    while ((rc = state_snapshot_step(x.h.service.state, 100, &snapshot)) == 1) {}
    assert_int_equal(rc, 0);
    assert_int_equal(state_restore(buf_slice(&snapshot), &hash_key_fixed, &again), 0);
    assert_true(state_mirror(again, &m));
    assert_int_equal(m.id, MIRROR_ID);
    assert_true(m.synced && !m.any_reader && slice_equal_str(m.source, "127.0.0.1:2888"));
    assert_true(state_digest(again) == state_digest(x.h.service.state));
    state_destroy(again);
    buf_finish(&snapshot);
    fixture_finish(&x);
}

/* A client that asks for a session while the mirror begins is sent away: an answer would say that its session has expired. */
static void test_a_session_while_it_begins(void **state)
{
    struct mirror_fixture x;
    struct guest p;
    struct frame f;
    struct buf body;
    fixture_init(&x);
    buf_init(&body, 0);
    const struct state_mirror m = {.id = MIRROR_ID, .source = slice_str("127.0.0.1:2888")};
    mirror_begin_encode(&body, &m, false);
    const struct command command = {.type = COMMAND_MIRROR_BEGIN,
                                    .ids = {.items = slice_str(""), .count = 0},
                                    .body = buf_slice(&body)};
    x.owner = (struct pending_owner){.applied = on_outcome, .host = "127.0.0.1"};
    assert_int_equal(service_write(&x.h.service, &command, &x.owner), 0);
    reader_connect(&p, &x, false);
    service_harness_settle(&x.h);
    assert_true(p.closed);
    assert_false(guest_next(&p, &f));
    guest_finish(&p);
    buf_finish(&body);
    fixture_finish(&x);
}

/* What a client writes before the mirror begins is not lost, unless it is said so. */
static void test_nodes_are_not_replaced(void **state)
{
    struct mirror_fixture x;
    struct guest p;
    struct state_mirror m;
    fixture_init(&x);
    guest_open(&p, &x.h, 10000);
    guest_request(&p, WIRE_CREATE, body_create("/mine", "", 0));
    assert_int_equal(begin(&x, true), CONCLAVE_NOT_EMPTY); /* the create comes first */
    assert_false(state_mirror(x.h.service.state, &m));
    assert_int_equal(begin_with(&x, true, true), 0);
    assert_true(state_mirror(x.h.service.state, &m));
    guest_finish(&p);
    fixture_finish(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes_are_refused),
        cmocka_unit_test(test_sessions_of_the_source_are_left_alone),
        cmocka_unit_test(test_transactions),
        cmocka_unit_test(test_too_much_waits),
        cmocka_unit_test(test_the_end),
        cmocka_unit_test(test_snapshots),
        cmocka_unit_test(test_nodes_are_not_replaced),
        cmocka_unit_test(test_a_session_while_it_begins),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    body_finish();
    return failed;
}
