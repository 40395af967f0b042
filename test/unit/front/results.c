/* Exactly-once writes at a connection: who gets the extension, and what becomes of writes that come
 * again over a new connection. */
#include "support/service_harness.h"

static struct service_harness h;

static int setup(void **state)
{
    service_harness_init(&h, NULL);
    return 0;
}

static int teardown(void **state)
{
    service_harness_finish(&h);
    body_finish();
    return 0;
}

static const uint8_t no_passwd[WIRE_PASSWD_LEN];

/* A ConnectRequest with `tail` behind its record. */
static void connect_with(struct guest *g, int64_t id, const uint8_t *passwd, struct slice tail)
{
    struct wire_connect_request request = {
        .timeout_ms = 10000, .session_id = id, .passwd = slice_make(passwd, WIRE_PASSWD_LEN)};
    struct buf b;
    buf_init(&b, 0);
    wire_encode_connect_request(&b, &request);
    buf_append_slice(&b, tail);
    guest_send_frame(g, buf_slice(&b));
    buf_finish(&b);
}

static struct slice wish(int32_t magic, int32_t features)
{
    static struct buf b;
    static uint8_t room[16];
    b = (struct buf){.data = room, .cap = sizeof room, .max = sizeof room};
    wire_write_boolean(&b, false);
    wire_encode_connect_wish(&b, &(struct wire_connect_wish){magic, features});
    return buf_slice(&b);
}

/* Asks for the extension and reads what is granted. */
static struct wire_connect_grant ask(struct guest *g, int64_t id, const uint8_t *passwd)
{
    struct slice raw;
    struct wire_connect_response response;
    struct wire_connect_grant grant;
    connect_with(g, id, passwd, wish(WIRE_EXTENSION_MAGIC, WIRE_FEATURE_EXACTLY_ONCE));
    service_harness_settle(&h);
    assert_true(guest_next_raw(g, &raw));
    struct wire_reader r = wire_reader_make(raw);
    assert_int_equal(wire_decode_connect_response(&r, &response), 0);
    assert_int_not_equal(response.session_id, 0);
    assert_false(wire_read_boolean(&r));
    assert_int_equal(wire_decode_connect_grant(&r, &grant), 0);
    assert_int_equal(wire_left(&r), 0);
    assert_int_equal(grant.magic, WIRE_EXTENSION_MAGIC);
    memcpy(g->passwd, response.passwd.data, WIRE_PASSWD_LEN);
    return grant;
}

static void open_asking(struct guest *g)
{
    guest_init(g, &h);
    struct wire_connect_grant grant = ask(g, 0, no_passwd);
    assert_int_equal(grant.features, WIRE_FEATURE_EXACTLY_ONCE);
    assert_int_equal(grant.results_max, 1000);
    assert_int_equal(grant.bytes_max, 131072);
    assert_int_equal(grant.last, 0);
}

static int32_t write_numbered(struct guest *g, int32_t type, struct slice body, int32_t number,
                              int32_t unanswered)
{
    struct buf b;
    buf_init(&b, 0);
    buf_append_slice(&b, body);
    wire_encode_write_number(&b, &(struct wire_write_number){number, unanswered});
    int32_t xid = guest_request(g, type, buf_slice(&b));
    buf_finish(&b);
    return xid;
}

static int32_t create(struct guest *g, int32_t number, int32_t unanswered)
{
    return write_numbered(g, WIRE_CREATE, body_create("/n-", "", 2), number, unanswered);
}

/* The path in the answer. */
static const char *created(struct guest *g, int32_t xid)
{
    static char path[32];
    struct frame f = guest_expect(g, xid, 0);
    struct wire_reader r = wire_reader_make(f.body);
    struct slice s = wire_read_string(&r);
    assert_int_equal(wire_left(&r), 0);
    snprintf(path, sizeof path, "%.*s", SLICE_FMT(s));
    return path;
}

/* The socket of g is gone; its session is taken up by another connection. */
static void reconnect(struct guest *g, struct guest *again)
{
    guest_init(again, &h);
    struct wire_connect_grant grant = ask(again, g->c.session_id, g->passwd);
    assert_int_equal(grant.features, WIRE_FEATURE_EXACTLY_ONCE);
    guest_finish(g);
}

static void who_does_not_ask_gets_the_same_bytes(void **state)
{
    static const struct {
        size_t len;
        const char *bytes;
    } tails[] = {
        {0, ""},
        {1, "\0"},
        {1, "\1"},
        {5, "\0\1\2\3\4"},
        {7, "\0Conc\0\0"},
        {9, "\0conc\0\0\0\1"},
        {9, "\0Conc\0\0\0\2"},
    };
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        struct guest g;
        struct slice raw;
        guest_init(&g, &h);
        connect_with(&g, 0, no_passwd, slice_make(tails[i].bytes, tails[i].len));
        service_harness_settle(&h);
        assert_true(guest_next_raw(&g, &raw));
        /* protocol 0, timeout 10000, session id, 16 bytes of password, and readOnly if it was said */
        static const uint8_t head[] = {0, 0, 0, 0, 0, 0, 0x27, 0x10};
        static const uint8_t len[] = {0, 0, 0, WIRE_PASSWD_LEN};
        assert_int_equal(raw.len, 8 + 8 + 4 + WIRE_PASSWD_LEN + (tails[i].len > 0));
        assert_memory_equal(raw.data, head, 8);
        assert_memory_equal(raw.data + 16, len, 4);
        assert_int_equal(raw.data[raw.len - 1] == 0 || tails[i].len == 0, 1);
        assert_false(g.c.numbered);
        int32_t xid = guest_request(&g, WIRE_CREATE, body_create("/plain-", "", 2));
        service_harness_settle(&h);
        guest_expect(&g, xid, 0);
        guest_finish(&g);
    }
    struct state_stats stats;
    state_stats(h.service.state, &stats);
    assert_int_equal(stats.results, 0);
}

static void a_server_that_remembers_nothing_says_so(void **state)
{
    struct guest g;
    h.service.limits.session_results_max = 0;
    guest_init(&g, &h);
    assert_int_equal(ask(&g, 0, no_passwd).features, 0);
    int32_t xid = guest_request(&g, WIRE_CREATE, body_create("/n-", "", 2));
    service_harness_settle(&h);
    assert_string_equal(created(&g, xid), "/n-0000000000");
    guest_finish(&g);
}

/* The answer was made and never read. */
static void a_write_again_gets_its_first_answer(void **state)
{
    struct guest g;
    struct guest again;
    open_asking(&g);
    create(&g, 1, 1);
    create(&g, 2, 1);
    service_harness_settle(&h);
    reconnect(&g, &again);
    int32_t first = create(&again, 1, 1);
    int32_t second = create(&again, 2, 1);
    int32_t third = create(&again, 3, 1);
    service_harness_settle(&h);
    assert_string_equal(created(&again, first), "/n-0000000000");
    assert_string_equal(created(&again, second), "/n-0000000001");
    assert_string_equal(created(&again, third), "/n-0000000002");
    assert_int_equal(h.service.metrics->conclave_writes_repeated_total, 2);
    guest_finish(&again);
}

/* The first one is still on its way to the log when its repetition comes over another connection. */
static void the_first_one_may_be_on_its_way(void **state)
{
    struct guest g;
    struct guest again;
    open_asking(&g);
    create(&g, 1, 1);
    service_harness_turn(&h);
    assert_int_equal(h.log_count, 1);
    reconnect(&g, &again);
    int32_t xid = create(&again, 1, 1);
    service_harness_settle(&h);
    assert_string_equal(created(&again, xid), "/n-0000000000");
    assert_int_equal(h.service.metrics->conclave_writes_repeated_total, 1);
    guest_finish(&again);
}

static void both_may_come_in_one_batch(void **state)
{
    struct guest g;
    open_asking(&g);
    int32_t first = create(&g, 1, 1);
    int32_t again = create(&g, 1, 1);
    service_harness_settle(&h);
    assert_string_equal(created(&g, first), "/n-0000000000");
    assert_string_equal(created(&g, again), "/n-0000000000");
    guest_finish(&g);
}

/* Reads keep their place between writes that come again. */
static void order_stays(void **state)
{
    struct guest g;
    struct guest again;
    open_asking(&g);
    write_numbered(&g, WIRE_CREATE, body_create("/a", "1", 0), 1, 1);
    write_numbered(&g, WIRE_SET_DATA, body_set("/a", "2"), 2, 1);
    service_harness_settle(&h);
    reconnect(&g, &again);
    int32_t one = write_numbered(&again, WIRE_CREATE, body_create("/a", "1", 0), 1, 1);
    int32_t read = guest_request(&again, WIRE_GET_DATA, body_path_watch("/a", false));
    int32_t two = write_numbered(&again, WIRE_SET_DATA, body_set("/a", "2"), 2, 1);
    int32_t three = write_numbered(&again, WIRE_SET_DATA, body_set("/a", "3"), 3, 1);
    service_harness_settle(&h);
    guest_expect(&again, one, 0);
    struct frame f = guest_expect(&again, read, 0);
    struct wire_reader r = wire_reader_make(f.body);
    assert_true(slice_equal_str(wire_read_buffer(&r), "2"));
    guest_expect(&again, two, 0);
    f = guest_expect(&again, three, 0);
    struct wire_stat stat;
    r = wire_reader_make(f.body);
    assert_int_equal(wire_decode_stat(&r, &stat), 0);
    assert_int_equal(stat.version, 2);
    guest_finish(&again);
}

static void a_write_without_its_number_ends_the_connection(void **state)
{
    struct guest g;
    open_asking(&g);
    guest_request(&g, WIRE_DELETE, slice_make("\0\0\0", 3));
    service_harness_settle(&h);
    assert_int_equal(g.c.stage, CONNECTION_CLOSED);
    guest_finish(&g);
}

/* closeSession has none: the session's end needs no memory. */
static void the_end_needs_no_number(void **state)
{
    struct guest g;
    struct state_stats stats;
    open_asking(&g);
    create(&g, 1, 1);
    int32_t xid = guest_request(&g, WIRE_CLOSE_SESSION, slice_make("", 0));
    service_harness_settle(&h);
    guest_expect(&g, xid - 1, 0);
    guest_expect(&g, xid, 0);
    state_stats(h.service.state, &stats);
    assert_int_equal(stats.results, 0);
    assert_int_equal(stats.sessions, 0);
    guest_finish(&g);
}

/* The rate of an address refuses new writes, but not a repetition that may have been carried out. */
static void the_rate_does_not_refuse_repetitions(void **state)
{
    struct guest g;
    struct guest again;
    open_asking(&g);
    create(&g, 1, 1);
    create(&g, 2, 1);
    service_harness_settle(&h);
    reconnect(&g, &again);
    h.service.limits.address_rate_max = 1;
    while (client_address_may_ask(again.c.address, 1, h.service.now_ns)) {}
    int32_t first = create(&again, 1, 1);
    int32_t second = create(&again, 2, 1);
    int32_t third = create(&again, 3, 1);
    int32_t fourth = create(&again, 2, 1);
    service_harness_settle(&h);
    assert_string_equal(created(&again, first), "/n-0000000000");
    assert_string_equal(created(&again, second), "/n-0000000001");
    guest_expect(&again, third, CONCLAVE_THROTTLED);
    guest_expect(&again, fourth, CONCLAVE_THROTTLED);
    guest_finish(&again);
}

/* The throttled ones between what was carried out are asked for again, too: they are not what is counted. */
static void nor_those_behind_what_it_refused(void **state)
{
    struct guest g;
    struct guest again;
    int32_t xids[6];
    open_asking(&g);
    create(&g, 1, 1);
    service_harness_settle(&h);
    int64_t rate = h.service.limits.address_rate_max;
    h.service.limits.address_rate_max = 1;
    while (client_address_may_ask(g.c.address, 1, h.service.now_ns)) {}
    create(&g, 2, 1);
    create(&g, 3, 1);
    service_harness_settle(&h);
    h.service.limits.address_rate_max = rate;
    g.c.address->busy_until_ns = 0;
    create(&g, 4, 1);
    service_harness_settle(&h);
    reconnect(&g, &again);
    h.service.limits.address_rate_max = 1;
    while (client_address_may_ask(again.c.address, 1, h.service.now_ns)) {}
    for (int i = 1; i <= 5; i++) {
        xids[i] = create(&again, i, 1);
    }
    service_harness_settle(&h);
    assert_string_equal(created(&again, xids[1]), "/n-0000000000");
    guest_expect(&again, xids[2], CONCLAVE_THROTTLED);
    guest_expect(&again, xids[3], CONCLAVE_THROTTLED);
    assert_string_equal(created(&again, xids[4]), "/n-0000000001");
    guest_expect(&again, xids[5], CONCLAVE_THROTTLED);
    guest_finish(&again);
}

/* Another program has the session now, and knows of no numbers; then one that does. */
static void it_ends_with_who_does_not_ask(void **state)
{
    struct guest g;
    struct guest plain;
    struct guest again;
    struct wire_connect_response response;
    open_asking(&g);
    create(&g, 1, 1);
    service_harness_settle(&h);
    guest_init(&plain, &h);
    guest_connect(&plain, 0, 10000, g.c.session_id, slice_make(g.passwd, WIRE_PASSWD_LEN), true);
    service_harness_settle(&h);
    assert_int_equal(guest_connected(&plain, &response), 37);
    assert_false(plain.c.numbered);
    int32_t xid = guest_request(&plain, WIRE_CREATE, body_create("/n-", "", 2));
    service_harness_settle(&h);
    assert_string_equal(created(&plain, xid), "/n-0000000001");
    guest_finish(&g);
    guest_init(&again, &h);
    struct wire_connect_grant grant = ask(&again, plain.c.session_id, plain.passwd);
    assert_int_equal(grant.features, WIRE_FEATURE_EXACTLY_ONCE);
    assert_int_equal(grant.last, 0);
    assert_int_equal(grant.born, state_zxid(h.service.state));
    guest_finish(&plain);
    guest_finish(&again);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(who_does_not_ask_gets_the_same_bytes),
        TEST(a_server_that_remembers_nothing_says_so),
        TEST(a_write_again_gets_its_first_answer),
        TEST(the_first_one_may_be_on_its_way),
        TEST(both_may_come_in_one_batch),
        TEST(order_stays),
        TEST(a_write_without_its_number_ends_the_connection),
        TEST(the_end_needs_no_number),
        TEST(the_rate_does_not_refuse_repetitions),
        TEST(nor_those_behind_what_it_refused),
        TEST(it_ends_with_who_does_not_ask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
