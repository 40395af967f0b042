/* Who wrote a node last: session, address, ids; what is not recorded, and what makes room. */
#include "admin/console/last_writers.h"
#include "state/query.h"
#include "support/requests.h"
#include "support/service_harness.h"

enum { T = 40000, EPHEMERAL = 1, SEQUENTIAL = 2 };

static struct service_harness h;
static struct guest first;
static struct guest second;
static struct last_writers writers;
static struct json told;

static int setup(void **state)
{
    service_harness_init(&h, NULL);
    last_writers_init(&writers);
    guest_open(&first, &h, T);
    last_writers_attach(&writers, &h.service);
    guest_open(&second, &h, T);
    json_init(&told);
    return 0;
}

static int teardown(void **state)
{
    last_writers_finish(&writers);
    json_finish(&told);
    guest_finish(&first);
    guest_finish(&second);
    service_harness_finish(&h);
    body_finish();
    return 0;
}

static void ask(struct guest *p, int32_t type, struct slice body)
{
    int32_t xid = guest_request(p, type, body);
    service_harness_settle(&h);
    (void)guest_expect(p, xid, 0);
}

static const char *writer_of(const char *path)
{
    const struct znode *node = state_node(h.service.state, slice_str(path));
    assert_non_null(node);
    json_finish(&told);
    json_init(&told);
    last_writers_write(&writers, node, slice_str(path), &told);
    return buf_cstr(&told.out);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("%s\nlacks %s", text, part);
    }
}

/* {"by":"client","session":"0x..." */
static const char *of_session(const struct guest *p)
{
    static char text[64];
    (void)snprintf(text, sizeof text, "{\"by\":\"client\",\"session\":\"0x%llx\",",
                   (unsigned long long)p->c.session_id);
    return text;
}

static void test_writers(void **state)
{
    ask(&first, WIRE_CREATE, body_create("/a", "1", 0));
    assert_has(writer_of("/a"), of_session(&first));
    assert_has(writer_of("/a"), "\"client\":\"10.1.2.3");
    ask(&second, WIRE_AUTH, body_auth("digest", "anna:secret"));
    ask(&second, WIRE_SET_DATA, body_set("/a", "2"));
    assert_has(writer_of("/a"), of_session(&second));
    assert_has(writer_of("/a"), "\"ids\":\"digest:anna\"}");
    ask(&first, WIRE_CREATE, body_create("/a/below", "", 0)); /* no write of /a */
    assert_has(writer_of("/a"), of_session(&second));
    ask(&first, WIRE_DELETE, body_delete("/a/below"));
    ask(&first, WIRE_DELETE, body_delete("/a"));
    ask(&first, WIRE_CREATE, body_create("/a", "3", 0));
    assert_has(writer_of("/a"), of_session(&first));
}

static void test_unknown(void **state)
{
    assert_string_equal(writer_of("/"), "{\"by\":\"unknown\",\"why\":\"before\"}");
    assert_null(writers.table); /* nothing yet that costs */
    ask(&first, WIRE_CREATE, body_create("/n-", "", SEQUENTIAL));
    assert_null(writers.table);
    assert_string_equal(writer_of("/n-0000000000"), "{\"by\":\"unknown\",\"why\":\"numbered\"}");
    ask(&first, WIRE_SET_DATA, body_set("/n-0000000000", "x"));
    assert_has(writer_of("/n-0000000000"), of_session(&first));
    last_writers_attach(&writers, &h.service); /* begins again */
    assert_string_equal(writer_of("/n-0000000000"), "{\"by\":\"unknown\",\"why\":\"before\"}");
}

static void test_ephemerals(void **state)
{
    ask(&first, WIRE_CREATE, body_create("/e-", "", SEQUENTIAL | EPHEMERAL));
    assert_null(writers.table);
    assert_has(writer_of("/e-0000000000"), of_session(&first));
    ask(&second, WIRE_SET_DATA, body_set("/e-0000000000", "x"));
    assert_has(writer_of("/e-0000000000"), of_session(&second));
}

/* More nodes than there are records: the newest are known, and memory stays. */
static void test_pushed_out(void **state)
{
    enum { MANY = 2 * LAST_WRITERS_MAX };
    char path[32];
    size_t known = 0;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(path, sizeof path, "/p%d", i);
        ask(&first, WIRE_CREATE, body_create(path, "", 0));
    }
    assert_has(writer_of(path), of_session(&first));
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(path, sizeof path, "/p%d", i);
        const char *text = writer_of(path);
        bool is = strstr(text, "\"by\":\"client\"") != NULL;
        known += is;
        if (!is) {
            assert_string_equal(text, "{\"by\":\"unknown\",\"why\":\"pushed out\"}");
        }
    }
    assert_true(known > LAST_WRITERS_MAX / 2 && known <= LAST_WRITERS_MAX);
}

/* More callers than there are words for: the session stays known. */
static void test_callers(void **state)
{
    struct state_event event = {.type = WIRE_EVENT_NODE_DATA_CHANGED, .path = slice_str("/other")};
    struct effects effects = {.zxid = 1 << 20, .events = &event, .events_count = 1};
    ask(&second, WIRE_AUTH, body_auth("digest", "anna:secret"));
    ask(&second, WIRE_CREATE, body_create("/a", "1", 0));
    assert_has(writer_of("/a"), "\"ids\":\"digest:anna\"}");
    for (int i = 0; i < 8 * WRITER_CALLERS_MAX; i++) {
        struct client_ids ids;
        char host[32];
        (void)snprintf(host, sizeof host, "10.0.%d.%d", i / 250, i % 250);
        client_ids_init(&ids, 4096, 32);
        assert_int_equal(client_ids_add(&ids, slice_str("ip"), slice_str(host)), 0);
        const struct command command = {
            .session_id = 5, .type = WIRE_SET_DATA, .ids = client_ids_list(&ids)};
        h.service.onlooker.wrote(h.service.onlooker.wrote_ctx, &command, &effects);
        client_ids_finish(&ids);
    }
    assert_has(writer_of("/a"), of_session(&second));
    assert_has(writer_of("/a"), "\"ids\":\"\"}");
}

static void test_replaced(void **state)
{
    ask(&first, WIRE_CREATE, body_create("/a", "1", 0));
    h.service.generation++;
    assert_string_equal(writer_of("/a"), "{\"by\":\"unknown\",\"why\":\"before\"}");
    ask(&first, WIRE_CREATE, body_create("/b", "1", 0));
    assert_string_equal(writer_of("/a"), "{\"by\":\"unknown\",\"why\":\"before\"}");
    ask(&first, WIRE_SET_DATA, body_set("/b", "2"));
    assert_has(writer_of("/b"), of_session(&first));
    last_writers_attach(&writers, NULL);
    assert_null(h.service.onlooker.wrote);
    assert_string_equal(writer_of("/b"), "{\"by\":\"unknown\",\"why\":\"before\"}");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_writers),    TEST(test_unknown), TEST(test_ephemerals),
        TEST(test_pushed_out), TEST(test_callers), TEST(test_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
