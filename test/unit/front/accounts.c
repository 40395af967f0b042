/* The server counts the memory that clients cause, refuses or slows down at the limits, and gives it back. */
#include "support/service_harness.h"

#include "base/log.h"
#include "net/address.h"
#include "state/memory_estimate.h"
#include "support/requests.h"

enum { LARGE = 100000 };

static char large_text[LARGE + 1];

static struct account *total(struct service_harness *h)
{
    return &h->service.account;
}

static int32_t ask(struct service_harness *h, struct guest *p, int32_t type, struct slice body)
{
    struct frame f;
    guest_request(p, type, body);
    service_harness_settle(h);
    assert_true(guest_next(p, &f));
    return f.err;
}

/* --- addresses -------------------------------------------------------------------------------- */

static void test_networks(void **state)
{
    const struct {
        const char *host;
        const char *name;
    } cases[] = {
        {"10.1.2.3", "10.1.2.3"},
        {"2001:db8:1:2:aaaa::9", "2001:db8:1:2::/64"},
        {"2001:db8:1:2::1", "2001:db8:1:2::/64"},
        {"2001:db8:1:3::1", "2001:db8:1:3::/64"},
        {"fe80::1%eth0", "fe80::/64"},
        {"::1", "::/64"},
        {"?", "?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[NET_NETWORK_MAX];
        net_network_name(cases[i].host, name);
        assert_string_equal(name, cases[i].name);
    }
    struct client_addresses a;
    struct account all;
    account_init(&all, NULL);
    client_addresses_init(&a, &hash_key_fixed, &all);
    struct client_address *one = client_address_hold(&a, "2001:db8:1:2:aaaa::9");
    assert_ptr_equal(client_address_hold(&a, "2001:db8:1:2::1"), one);
    struct client_address *other = client_address_hold(&a, "2001:db8:1:3::1");
    assert_ptr_not_equal(other, one);
    client_address_release(&a, one);
    client_address_release(&a, one);
    client_address_release(&a, other);
    assert_int_equal(map_count(&a.by_name), 0);
    client_addresses_finish(&a);
}

/* --- watches ---------------------------------------------------------------------------------- */

static void test_watch_bytes(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest other;
    struct guest third;
    struct client_limits limits = client_limits_default();
    limits.watch_bytes_max = 25;
    limits.watch_bytes_total_max = 80;
    service_harness_init(&h, &limits);
    guest_open(&p, &h, 10000);
    guest_open(&other, &h, 10000);
    guest_open(&third, &h, 10000);
    assert_int_equal(ask(&h, &p, WIRE_EXISTS, body_path_watch("/ten-bytes", true)),
                     CONCLAVE_NO_NODE);
    assert_int_equal(ask(&h, &p, WIRE_GET_CHILDREN, body_path_watch("/", true)), 0);
    assert_int_equal(ask(&h, &p, WIRE_EXISTS, body_path_watch("/TEN-bytes", true)),
                     CONCLAVE_NO_NODE);
    assert_int_equal(p.c.account.bytes[ACCOUNT_WATCHES], 21);
    assert_int_equal(p.c.account.charges[ACCOUNT_WATCHES], 3);
    assert_int_equal(ask(&h, &p, WIRE_EXISTS, body_path_watch("/five", true)),
                     CONCLAVE_QUOTA_EXCEEDED);
    /* A watch that is set already takes nothing. */
    assert_int_equal(ask(&h, &p, WIRE_EXISTS, body_path_watch("/TEN-bytes", true)),
                     CONCLAVE_NO_NODE);
    /* An address may have half of all watches: its other connections share the rest of its half. */
    assert_int_equal(ask(&h, &other, WIRE_EXISTS, body_path_watch("/ten-bytes", true)),
                     CONCLAVE_NO_NODE);
    assert_int_equal(ask(&h, &third, WIRE_EXISTS, body_path_watch("/ten-bytes", true)),
                     CONCLAVE_QUOTA_EXCEEDED);
    assert_int_equal(h.service.metrics->conclave_watches_refused_total, 2);
    assert_int_equal(total(&h)->bytes[ACCOUNT_WATCHES], 31);
    /* A watch ends with its event. */
    assert_int_equal(ask(&h, &third, WIRE_CREATE, body_create("/ten-bytes", "", 0)), 0);
    assert_int_equal(p.c.account.bytes[ACCOUNT_WATCHES], 10);
    guest_finish(&p);
    assert_int_equal(total(&h)->bytes[ACCOUNT_WATCHES], 0);
    guest_finish(&other);
    guest_finish(&third);
    service_harness_finish(&h);
}

/* --- requests --------------------------------------------------------------------------------- */

/* Ids go into the log with each write: they count like its body. */
static void test_ids_count(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    guest_request_xid(&p, WIRE_XID_AUTH, WIRE_AUTH, body_auth("digest", "user:password"));
    service_harness_turn(&h);
    guest_expect(&p, WIRE_XID_AUTH, 0);
    size_t ids = p.c.identity.ids.len;
    assert_true(ids > 0);
    assert_int_equal(total(&h)->bytes[ACCOUNT_IDS], ids);
    struct slice body = body_set("/", "x");
    guest_request(&p, WIRE_SET_DATA, body);
    assert_int_equal(p.c.account.bytes[ACCOUNT_REQUESTS], ids + body.len);
    /* The write outlives its connection, and so do its bytes; nothing else of it does. */
    guest_finish(&p);
    assert_int_equal(total(&h)->bytes[ACCOUNT_REQUESTS], ids + body.len);
    assert_int_equal(total(&h)->bytes[ACCOUNT_IDS], 0);
    service_harness_settle(&h);
    assert_int_equal(total(&h)->bytes[ACCOUNT_REQUESTS], 0);
    service_harness_finish(&h);
}

/* One connection leaves half of all requests to others, and each that comes leaves its part. */
static void test_share_of_a_connection(void **state)
{
    struct service_harness h;
    struct guest greedy;
    struct guest p;
    struct client_limits limits = client_limits_default();
    limits.outstanding_max = 40;
    service_harness_init(&h, &limits);
    guest_open(&greedy, &h, 10000);
    guest_open(&p, &h, 10000);
    for (int n = 0; n < 100; n++) {
        guest_request(&greedy, WIRE_SET_DATA, body_set("/", "x"));
    }
    assert_true(greedy.in.len > 0);
    assert_in_range(greedy.c.pending_count, 18, 21);
    for (int n = 0; n < 5; n++) {
        guest_request(&p, WIRE_SET_DATA, body_set("/", "y"));
    }
    assert_int_equal(p.c.pending_count, 5);
    assert_true(h.service.metrics->conclave_waits_share_total > 0);
    service_harness_settle(&h);
    for (int n = 0; n < 100; n++) {
        guest_expect(&greedy, n + 1, 0);
    }
    guest_finish(&greedy);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* A client that ignores a refusal would wait without end, so it must move to another server. */
static void test_watches_that_cannot_be_set_again(void **state)
{
    struct service_harness h;
    struct guest p;
    struct buf body;
    struct client_limits limits = client_limits_default();
    limits.watches_max = 2;
    service_harness_init(&h, &limits);
    guest_open(&p, &h, 10000);
    for (int32_t paths = 2; paths <= 3; paths++) {
        buf_init(&body, 0);
        buf_append_i64(&body, 100);
        buf_append_i32(&body, 0);
        buf_append_i32(&body, 0);
        buf_append_i32(&body, paths);
        for (int32_t i = 0; i < paths; i++) {
            wire_write_string(&body, slice_str(i == 0   ? "/"
                                               : i == 1 ? "/zookeeper"
                                                        : "/zookeeper/quota"));
        }
        guest_request_xid(&p, WIRE_XID_SET_WATCHES, WIRE_SET_WATCHES, buf_slice(&body));
        service_harness_turn(&h);
        if (paths == 2) {
            guest_expect(&p, WIRE_XID_SET_WATCHES, 0);
        }
        buf_finish(&body);
    }
    assert_true(p.closed);
    assert_int_equal(h.service.metrics->conclave_watches_refused_total, 1);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* --- buffers ---------------------------------------------------------------------------------- */

/* In steps: a clock that jumps is a standstill of the server, which is given back to everybody. */
static void pass_deadline(struct service_harness *h)
{
    enum { STEP_MS = 400 };
    for (int32_t ms = 0; ms <= h->service.limits.handshake_ms; ms += STEP_MS) {
        service_harness_advance(h, STEP_MS);
    }
    service_harness_turn(h);
}

/* The beginning of a request of that length. */
static void send_beginning(struct guest *p, int32_t len, size_t sent)
{
    struct buf b;
    buf_init(&b, 0);
    buf_append_i32(&b, len);
    buf_append(&b, large_text, sent);
    guest_send(p, buf_slice(&b));
    buf_finish(&b);
}

/* The one of them that is read on, the others are not. */
static int only_ready(struct guest *p, int count)
{
    int ready = -1;
    for (int i = 0; i < count; i++) {
        if (connection_ready(&p[i].c)) {
            assert_int_equal(ready, -1);
            ready = i;
        }
    }
    assert_int_not_equal(ready, -1);
    return ready;
}

static void test_unfinished_requests(void **state)
{
    struct service_harness h;
    struct guest p[3];
    struct guest good;
    struct client_limits limits = client_limits_default();
    limits.address_buffers_max = 300000;
    service_harness_init(&h, &limits);
    for (int i = 0; i < 3; i++) {
        guest_open(&p[i], &h, 40000);
    }
    guest_open(&good, &h, 40000);
    for (int i = 0; i < 2; i++) {
        send_beginning(&p[i], 2 * LARGE, LARGE);
        assert_true(connection_ready(&p[i].c));
    }
    assert_int_equal(p[0].c.account.bytes[ACCOUNT_INPUT], LARGE + 4);
    send_beginning(&p[2], 2 * LARGE, LARGE);
    int first = only_ready(p, 3); /* of the others nothing more is read */
    assert_int_equal(h.service.metrics->conclave_waits_buffers_total, 3);
    assert_int_equal(only_ready(p, 3), first);
    /* Who keeps little does not notice. */
    assert_true(connection_ready(&good.c));
    guest_request(&good, WIRE_EXISTS, body_path_watch("/", false));
    service_harness_turn(&h);
    guest_expect(&good, 1, 0);
    /* One goes: the others go on. */
    guest_finish(&p[first]);
    int other = first == 0 ? 1 : 0;
    assert_true(connection_ready(&p[other].c));
    assert_true(list_empty(&p[other].c.handshaking));
    guest_open(&p[first], &h, 40000);
    send_beginning(&p[first], 2 * LARGE, LARGE);
    only_ready(p, 3);
    /* The wait of each connection has a deadline. */
    pass_deadline(&h);
    for (int i = 0; i < 3; i++) {
        assert_true(p[i].closed);
        guest_finish(&p[i]);
    }
    assert_false(good.closed);
    assert_int_equal(total(&h)->bytes[ACCOUNT_INPUT], 0);
    guest_finish(&good);
    service_harness_finish(&h);
}

/* Nobody known: no more than a session request takes. */
static void test_long_first_frame(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_init(&p, &h);
    send_beginning(&p, 5000, 10);
    assert_int_equal(p.c.stage, CONNECTION_CLOSED);
    guest_finish(&p);
    service_harness_finish(&h);
}

static void test_slow_readers(void **state)
{
    struct service_harness h;
    struct guest slow[5];
    struct guest good;
    struct client_limits limits = client_limits_default();
    limits.address_buffers_max = 3 * LARGE + 50000;
    service_harness_init(&h, &limits);
    guest_open(&good, &h, 40000);
    assert_int_equal(ask(&h, &good, WIRE_CREATE, body_create("/large", large_text, 0)), 0);
    for (int i = 0; i < 5; i++) {
        guest_open(&slow[i], &h, 40000);
        slow[i].slow = true;
        guest_request(&slow[i], WIRE_GET_DATA, body_path_watch("/large", true));
    }
    /* Three answers are kept, the others are refused before they take any memory. */
    assert_int_equal(h.service.metrics->conclave_answers_refused_total, 2);
    assert_in_range(total(&h)->bytes[ACCOUNT_OUTPUT], 3 * LARGE, 3 * LARGE + 1000);
    assert_int_equal(total(&h)->charges[ACCOUNT_WATCHES], 3);
    assert_true(slow[4].c.out.len < 100);
    assert_int_equal(ask(&h, &good, WIRE_GET_DATA, body_path_watch("/large", false)),
                     CONCLAVE_THROTTLED);
    assert_int_equal(ask(&h, &good, WIRE_EXISTS, body_path_watch("/large", false)), 0);
    /* Those who wait too long go, and all is as before. */
    for (int i = 0; i < 3; i++) {
        assert_false(connection_ready(&slow[i].c));
    }
    pass_deadline(&h);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(slow[i].closed, i < 3);
        guest_finish(&slow[i]);
    }
    assert_int_equal(total(&h)->bytes[ACCOUNT_OUTPUT], 0);
    assert_int_equal(ask(&h, &good, WIRE_GET_DATA, body_path_watch("/large", false)), 0);
    guest_finish(&good);
    service_harness_finish(&h);
}

/* All addresses of a network of 64 bits have one share; the next network has its own. */
static void test_slow_readers_of_a_network(void **state)
{
    static const struct {
        const char *host;
        bool refused;
    } readers[] = {
        {"2001:db8:1:2::1", false},
        {"2001:db8:1:2:ffff::2", false},
        {"2001:db8:1:2:1:2:3:4", true},
        {"2001:db8:1:3::1", false},
    };
    enum { READERS = sizeof readers / sizeof readers[0] };
    struct service_harness h;
    struct guest guests[READERS];
    struct guest good;
    struct client_limits limits = client_limits_default();
    limits.address_buffers_max = 2 * LARGE + 50000;
    service_harness_init(&h, &limits);
    guest_open(&good, &h, 40000);
    assert_int_equal(ask(&h, &good, WIRE_CREATE, body_create("/large", large_text, 0)), 0);
    for (int i = 0; i < READERS; i++) {
        h.host = readers[i].host;
        guest_open(&guests[i], &h, 40000);
        guests[i].slow = true;
        guest_request(&guests[i], WIRE_GET_DATA, body_path_watch("/large", false));
        assert_int_equal(guests[i].c.out.len < 100, readers[i].refused);
    }
    assert_int_equal(h.service.metrics->conclave_answers_refused_total, 1);
    for (int i = 0; i < READERS; i++) {
        guest_finish(&guests[i]);
    }
    assert_int_equal(total(&h)->bytes[ACCOUNT_OUTPUT], 0);
    guest_finish(&good);
    service_harness_finish(&h);
}

/* --- the data --------------------------------------------------------------------------------- */

static size_t used(const struct service_harness *h)
{
    return state_memory(h->service.state);
}

/* Sets the limit to `more` bytes above the present use. */
static void limit_data(struct service_harness *h, size_t more)
{
    h->service.limits.data_max = used(h) + more;
    data_limit_follow(&h->service);
}

static void test_data_limit(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest other;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 40000);
    size_t before = used(&h);
    limit_data(&h, 10 * LARGE);
    assert_int_equal(h.service.data_level, DATA_NORMAL);
    int count = 0;
    int32_t err;
    char path[32];
    do {
        snprintf(path, sizeof path, "/n%d", count);
        err = ask(&h, &p, WIRE_CREATE, body_create(path, large_text, 0));
        count += err == 0;
        assert_true(used(&h) <= h.service.limits.data_max);
    } while (err == 0);
    assert_int_equal(err, CONCLAVE_QUOTA_EXCEEDED);
    assert_int_equal(count, 9); /* the nodes' own memory takes the rest */
    assert_int_equal(h.service.data_level, DATA_REACHED);
    assert_non_null(data_limit_warning(&h.service));
    assert_int_equal(h.service.metrics->conclave_growth_refused_total, 1);
    /* Small ones neither, nor larger data, nor a longer list; what shrinks, goes, or only looks is let pass. */
    assert_int_equal(ask(&h, &p, WIRE_CREATE, body_create("/s", "", 0)), CONCLAVE_QUOTA_EXCEEDED);
    assert_int_equal(ask(&h, &p, WIRE_SET_DATA, body_set("/", "x")), CONCLAVE_QUOTA_EXCEEDED);
    assert_int_equal(ask(&h, &p, WIRE_SET_DATA, body_set("/n0", large_text)), 0);
    assert_int_equal(ask(&h, &p, WIRE_SET_DATA, body_set("/n0", large_text + 10)), 0);
    assert_int_equal(ask(&h, &p, WIRE_GET_DATA, body_path_watch("/n0", false)), 0);
    guest_open(&other, &h, 40000);
    assert_int_equal(ask(&h, &other, WIRE_CLOSE_SESSION, slice_str("")), 0);
    guest_finish(&other);
    /* A little room is not enough, a tenth is. */
    assert_int_equal(ask(&h, &p, WIRE_CREATE, body_create("/s", "", 0)), CONCLAVE_QUOTA_EXCEEDED);
    assert_int_equal(ask(&h, &p, WIRE_DELETE, body_delete("/n0")), 0);
    assert_int_equal(ask(&h, &p, WIRE_DELETE, body_delete("/n1")), 0);
    assert_int_equal(h.service.data_level, DATA_NEAR);
    assert_int_equal(ask(&h, &p, WIRE_CREATE, body_create("/s", "", 0)), 0);
    assert_int_equal(ask(&h, &p, WIRE_DELETE, body_delete("/s")), 0);
    for (int i = 2; i < count; i++) {
        snprintf(path, sizeof path, "/n%d", i);
        assert_int_equal(ask(&h, &p, WIRE_DELETE, body_delete(path)), 0);
    }
    assert_int_equal(used(&h), before);
    assert_int_equal(h.service.data_level, DATA_NORMAL);
    assert_null(data_limit_warning(&h.service));
    guest_finish(&p);
    service_harness_finish(&h);
}

/* Many that come at once do not pass the limit together. */
static void test_data_limit_of_many(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 40000);
    limit_data(&h, 10 * LARGE);
    for (int i = 0; i < 30; i++) {
        char path[32];
        snprintf(path, sizeof path, "/n%d", i);
        guest_request(&p, WIRE_CREATE, body_create(path, large_text, 0));
    }
    service_harness_settle(&h);
    int made = 0;
    for (int i = 0; i < 30; i++) {
        struct frame f;
        assert_true(guest_next(&p, &f));
        assert_true(f.err == 0 || f.err == CONCLAVE_QUOTA_EXCEEDED);
        made += f.err == 0;
    }
    assert_int_equal(made, 9);
    assert_true(used(&h) <= h.service.limits.data_max);
    guest_finish(&p);
    service_harness_finish(&h);
}

static void test_data_limit_and_multis(void **state)
{
    struct service_harness h;
    struct guest p;
    struct maker m;
    maker_init(&m);
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 40000);
    assert_int_equal(ask(&h, &p, WIRE_CREATE, body_create("/old", large_text, 0)), 0);
    limit_data(&h, 0);
    assert_int_equal(h.service.data_level, DATA_REACHED);
    /* Refused: a multi that adds more than it deletes; a node deleted twice counts once. */
    make_multi_begin(&m);
    make_multi_create(&m, WIRE_CREATE, "/new", "x", 0);
    assert_int_equal(ask(&h, &p, WIRE_MULTI, make_multi_end(&m)), CONCLAVE_QUOTA_EXCEEDED);
    make_multi_begin(&m);
    make_multi_delete(&m, "/old", -1);
    make_multi_create(&m, WIRE_CREATE, "/old", "", 0);
    make_multi_delete(&m, "/old", -1);
    make_multi_create(&m, WIRE_CREATE, "/a", large_text + 1000, 0);
    make_multi_create(&m, WIRE_CREATE, "/b", large_text + 1000, 0);
    assert_int_equal(ask(&h, &p, WIRE_MULTI, make_multi_end(&m)), CONCLAVE_QUOTA_EXCEEDED);
    make_multi_begin(&m);
    make_multi_set_data(&m, "/old", "", -1);
    make_multi_set_data(&m, "/old", "", -1);
    make_multi_create(&m, WIRE_CREATE, "/a", large_text + 1000, 0);
    assert_int_equal(ask(&h, &p, WIRE_MULTI, make_multi_end(&m)), CONCLAVE_QUOTA_EXCEEDED);
    /* A move does not add. */
    make_multi_begin(&m);
    make_multi_delete(&m, "/old", -1);
    make_multi_create(&m, WIRE_CREATE, "/new", large_text, 0);
    assert_int_equal(ask(&h, &p, WIRE_MULTI, make_multi_end(&m)), 0);
    make_multi_begin(&m);
    make_multi_check(&m, "/new", -1);
    make_multi_delete(&m, "/new", -1);
    assert_int_equal(ask(&h, &p, WIRE_MULTI, make_multi_end(&m)), 0);
    assert_int_equal(h.service.data_level, DATA_NORMAL);
    guest_finish(&p);
    service_harness_finish(&h);
    maker_finish(&m);
}

/* A multi that fails, and a snapshot that is read again, leave the account as it was. */
static void test_data_account_is_exact(void **state)
{
    struct service_harness h;
    struct guest p;
    struct maker m;
    struct buf snapshot;
    buf_init(&snapshot, 0);
    maker_init(&m);
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 40000);
    assert_int_equal(ask(&h, &p, WIRE_CREATE, body_create("/a", "data", 0)), 0);
    assert_int_equal(ask(&h, &p, WIRE_CREATE, body_create("/a/b", "more", WIRE_MODE_EPHEMERAL)), 0);
    size_t before = used(&h);
    make_multi_begin(&m);
    make_multi_delete(&m, "/a/b", -1);
    make_multi_set_data(&m, "/a", large_text, -1);
    make_multi_create(&m, WIRE_CREATE, "/a/c", large_text, 0);
    make_multi_create(&m, WIRE_CREATE, "/a/c/d", large_text, 0);
    make_multi_check(&m, "/none", -1);
    assert_int_equal(ask(&h, &p, WIRE_MULTI, make_multi_end(&m)), 0);
    assert_int_equal(used(&h), before);

    struct state *again = NULL;
    assert_int_equal(state_snapshot_begin(h.service.state), 0);
    int rc;
    while ((rc = state_snapshot_step(h.service.state, 1 << 20, &snapshot)) == 1) {}
    assert_int_equal(rc, 0);
    assert_int_equal(state_restore(buf_slice(&snapshot), &hash_key_fixed, &again), 0);
    assert_int_equal(state_memory(again), before);
    state_destroy(again);

    /* The session takes its node and itself along. */
    assert_int_equal(ask(&h, &p, WIRE_CLOSE_SESSION, slice_str("")), 0);
    assert_true(used(&h) < before - 100);
    guest_finish(&p);
    service_harness_finish(&h);
    maker_finish(&m);
    buf_finish(&snapshot);
}

/* The memory of a large command is given back when it is done. */
static void test_scratch_is_given_back(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 40000);
    struct buf *paths = &h.service.effects.paths; /* as a close of many ephemerals leaves it */
    for (int i = 0; i < 20; i++) {
        buf_append(paths, large_text, LARGE);
    }
    assert_true(paths->cap > 1 << 20);
    assert_int_equal(ask(&h, &p, WIRE_CLOSE_SESSION, slice_str("")), 0);
    assert_true(paths->cap <= 1 << 20);
    guest_finish(&p);
    service_harness_finish(&h);
}

static int prepare(void **state)
{
    log_set_level(LOG_ERROR);
    memset(large_text, 'x', LARGE);
    return 0;
}

static int finish(void **state)
{
    body_finish();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_watch_bytes),
        cmocka_unit_test(test_ids_count),
        cmocka_unit_test(test_share_of_a_connection),
        cmocka_unit_test(test_watches_that_cannot_be_set_again),
        cmocka_unit_test(test_unfinished_requests),
        cmocka_unit_test(test_long_first_frame),
        cmocka_unit_test(test_slow_readers),
        cmocka_unit_test(test_slow_readers_of_a_network),
        cmocka_unit_test(test_data_limit),
        cmocka_unit_test(test_data_limit_of_many),
        cmocka_unit_test(test_data_limit_and_multis),
        cmocka_unit_test(test_data_account_is_exact),
        cmocka_unit_test(test_scratch_is_given_back),
    };
    return cmocka_run_group_tests(tests, prepare, finish);
}
