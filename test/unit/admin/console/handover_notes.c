/* Which deleted nodes are hand-overs, with which cause and times; what is none; and what nobody may see. */
#include "admin/console/handover_notes.h"
#include "state/query.h"
#include "support/requests.h"
#include "support/service_harness.h"

enum { T = 4000, EPHEMERAL = 1, EPHEMERAL_SEQUENTIAL = 3 };

#define GUID "0123456789abcdef0123456789abcdef"
#define NODE(n) "/" GUID "-n_000000000" #n

static struct service_harness h;
static struct guest first;
static struct guest second;
static struct maker maker;
static struct handover_notes notes;
static struct json list;

static int setup(void **state)
{
    service_harness_init(&h, NULL);
    maker_init(&maker);
    handover_notes_init(&notes);
    handover_notes_attach(&notes, &h.service);
    json_init(&list);
    guest_open(&first, &h, T);
    guest_open(&second, &h, 10 * T);
    return 0;
}

static int teardown(void **state)
{
    handover_notes_finish(&notes);
    json_finish(&list);
    maker_finish(&maker);
    guest_finish(&first);
    guest_finish(&second);
    service_harness_finish(&h);
    body_finish();
    return 0;
}

static void ask(struct guest *p, int32_t type, struct slice body, int32_t err)
{
    int32_t xid = guest_request(p, type, body);
    service_harness_settle(&h);
    (void)guest_expect(p, xid, err);
}

static void create(struct guest *p, const char *path, const char *data, int32_t mode)
{
    ask(p, WIRE_CREATE, body_create(path, data, mode), 0);
}

static void remove_by(struct guest *p, const char *path)
{
    ask(p, WIRE_DELETE, body_delete(path), 0);
}

static void pass(int64_t ms)
{
    enum { STEP = 10 };
    for (int64_t i = 0; i < ms; i += STEP) {
        service_harness_advance(&h, STEP);
        service_harness_settle(&h);
    }
}

/* The history of a path, or of all recipes. */
static const char *past(const char *path)
{
    json_finish(&list);
    json_init(&list);
    handover_notes_write(&notes, slice_str(path), 100, &list);
    return buf_cstr(&list.out);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("%s\nlacks %s", text, part);
    }
}

static int64_t held_from(const char *path)
{
    const struct handover_line *line = handovers_line(&notes.past, slice_str(path));
    assert_non_null(line);
    return line->last_ms;
}

/* An election with two candidates, of the first and the second client. */
static void make_election(void)
{
    create(&first, "/e", "", 0);
    create(&first, "/e.leader", "", 0);
    create(&first, "/e/" GUID "-n_", "host-a\nmore", EPHEMERAL_SEQUENTIAL);
    pass(50);
    create(&second, "/e/" GUID "-n_", "host-b", EPHEMERAL_SEQUENTIAL);
}

static void test_released(void **state)
{
    make_election();
    pass(100);
    remove_by(&first, "/e" NODE(0));
    const char *text = past("/e");
    assert_has(text, "[{\"kind\":\"election\",\"label\":\"host-a\",\"client\":\"10.1.2.3");
    assert_has(text, "\"cause\":\"released\",\"by\":\"\",\"words\":\"\",\"next\":\"host-b\"}]");
    assert_null(strstr(text, "\"from_ms\":null")); /* seen from its beginning */
    pass(100);
    int64_t from_ms = held_from("/e");
    assert_int_equal(handover_notes_from_ms(&notes, slice_str("/e"), from_ms - 100, false),
                     from_ms);
    remove_by(&second, "/e" NODE(1));
    text = past(NULL);
    assert_has(text, "[{\"path\":\"/e\",\"kind\":\"election\",\"label\":\"host-b\"");
    char from[48];
    (void)snprintf(from, sizeof from, "\"from_ms\":%lld,", (long long)from_ms);
    assert_has(text, from);
    assert_has(text, "\"next\":\"\"},{\"path\":\"/e\",\"kind\":\"election\",\"label\":\"host-a\"");
}

static void test_waiters(void **state)
{
    make_election();
    remove_by(&second, "/e" NODE(1)); /* it only waited */
    assert_string_equal(past("/e"), "[]");
    create(&first, "/q", "", 0);
    create(&first, "/q/queue-0000000007", "item", EPHEMERAL);
    create(&first, "/q/member", "", EPHEMERAL);
    create(&first, "/q/plain-0000000008", "", 0);
    remove_by(&first, "/q/queue-0000000007");
    remove_by(&first, "/q/member");
    remove_by(&first, "/q/plain-0000000008");
    assert_string_equal(past(NULL), "[]");
    assert_string_equal(past("/q"), "[]");
}

static void test_deleted(void **state)
{
    char by[64];
    make_election();
    remove_by(&second, "/e" NODE(0));
    (void)snprintf(by, sizeof by, "\"cause\":\"deleted\",\"by\":\"the client %s\"", second.c.peer);
    assert_has(past("/e"), by);
    ask(&first, WIRE_AUTH, body_auth("digest", "anna:secret"), 0);
    remove_by(&first, "/e" NODE(1));
    assert_has(past("/e"), "\"cause\":\"deleted\",\"by\":\"digest:anna, session 0x");
    assert_null(strstr(past("/e"), "secret"));
}

static void test_expired(void **state)
{
    make_election();
    for (int i = 0; i < 3; i++) {
        pass(T / 2);
        guest_request_xid(&second, WIRE_XID_PING, WIRE_PING, slice_str(""));
        service_harness_settle(&h);
    }
    assert_true(first.closed);
    const char *text = past("/e");
    assert_has(text, "\"cause\":\"expired\",\"by\":\"\",\"words\":\"The client was silent for");
    assert_has(text, "\"client\":\"10.1.2.3:4567\"");
    assert_has(text, "\"next\":\"host-b\"");
}

static void test_killed_and_closed(void **state)
{
    make_election();
    maker_ids_add(&maker, "digest", "anna:hash");
    assert_int_equal(service_kill_session(&h.service, first.c.session_id, maker_ids(&maker),
                                          "digest:anna from here"),
                     0);
    service_harness_settle(&h);
    assert_has(past("/e"), "\"cause\":\"killed\",\"by\":\"digest:anna from here\"");
    guest_request(&second, WIRE_CLOSE_SESSION, slice_str(""));
    service_harness_settle(&h);
    assert_has(past("/e"), "\"label\":\"host-b\"");
    assert_has(past("/e"), "\"cause\":\"closed\"");
}

/* One session holds and waits: it held once. A transaction that fails has deleted nothing. */
static void test_at_once(void **state)
{
    make_election();
    create(&first, "/e/" GUID "-n_", "host-a", EPHEMERAL_SEQUENTIAL);
    make_multi_begin(&maker);
    make_multi_delete(&maker, "/e" NODE(0), -1);
    make_multi_check(&maker, "/none", -1);
    int32_t xid = guest_request(&first, WIRE_MULTI, make_multi_end(&maker));
    service_harness_settle(&h);
    (void)guest_expect(&first, xid, 0);
    assert_string_equal(past("/e"), "[]");
    remove_by(&second, "/e" NODE(1));
    make_multi_begin(&maker);
    make_multi_delete(&maker, "/e" NODE(0), -1);
    make_multi_delete(&maker, "/e" NODE(2), -1);
    xid = guest_request(&first, WIRE_MULTI, make_multi_end(&maker));
    service_harness_settle(&h);
    (void)guest_expect(&first, xid, 0);
    const char *one = strstr(past("/e"), "\"cause\"");
    assert_non_null(one);
    assert_null(strstr(one + 1, "\"cause\""));
}

static void test_other_kinds(void **state)
{
    create(&first, "/sem", "2", 0);
    for (int i = 0; i < 3; i++) {
        create(&first, "/sem/" GUID "-n_", "job", EPHEMERAL_SEQUENTIAL);
    }
    remove_by(&first, "/sem" NODE(2));
    assert_string_equal(past("/sem"), "[]");
    remove_by(&first, "/sem" NODE(1));
    assert_has(past("/sem"), "\"kind\":\"semaphore\"");
    assert_has(past("/sem"), "\"from_ms\":null");
    assert_string_equal(past(NULL), "[]"); /* given back in an orderly way */
    create(&first, "/pair", "", 0);
    create(&first, "/pair/ActiveBreadCrumb", "", 0);
    create(&first, "/pair/ActiveStandbyElectorLock", "conclave elector\nid=db-1\n", EPHEMERAL);
    remove_by(&second, "/pair/ActiveStandbyElectorLock");
    assert_has(past("/pair"), "\"kind\":\"active/standby pair\",\"label\":\"db-1\"");
    create(&first, "/cur", "", 0);
    create(&first, "/cur/leases", "", 0);
    create(&first, "/cur/leases/lease-", "", EPHEMERAL_SEQUENTIAL);
    remove_by(&first, "/cur/leases/lease-0000000000");
    assert_has(past("/cur"), "\"kind\":\"semaphore\"");
}

static void test_hidden(void **state)
{
    maker_acl_reset(&maker);
    maker_acl_add(&maker, WIRE_PERM_ALL & ~WIRE_PERM_READ, "world", "anyone");
    ask(&first, WIRE_CREATE, make_create(&maker, "/closed", "", 0), 0);
    create(&first, "/closed/" GUID "-n_", "hidden", EPHEMERAL_SEQUENTIAL);
    remove_by(&second, "/closed" NODE(0));
    assert_string_equal(past("/closed"), "[]");
    create(&first, "/open", "", 0);
    ask(&first, WIRE_CREATE,
        make_create(&maker, "/open/" GUID "-n_", "secret", EPHEMERAL_SEQUENTIAL), 0);
    remove_by(&second, "/open" NODE(0));
    assert_has(past("/open"), "\"label\":\"\"");
    ask(&first, WIRE_SET_ACL, make_set_acl(&maker, "/open", -1), 0);
    assert_string_equal(past("/open"), "[]");
    assert_string_equal(past(NULL), "[]");
}

/* More looks than a second has are counted, and nothing pretends to know since when somebody holds. */
static void test_budget(void **state)
{
    char node[64];
    create(&first, "/busy", "", 0);
    for (int i = 0; i < HANDOVER_LOOKS_MAX + 10; i++) {
        create(&first, "/busy/lock-", "", EPHEMERAL_SEQUENTIAL);
        (void)snprintf(node, sizeof node, "/busy/lock-%010d", i);
        remove_by(&first, node);
    }
    assert_int_equal(notes.missed, 10);
    assert_int_equal(notes.past.count[HANDOVER_ORDERLY], HANDOVERS_PER_LINE);
    assert_int_equal(
        handover_notes_from_ms(&notes, slice_str("/busy"), clock_wall_ms(&h.clock), false), 0);
    pass(2000);
    create(&first, "/busy/lock-", "", EPHEMERAL_SEQUENTIAL);
    (void)snprintf(node, sizeof node, "/busy/lock-%010d", HANDOVER_LOOKS_MAX + 10);
    remove_by(&first, node);
    assert_int_equal(notes.missed, 10);
    assert_true(handover_notes_from_ms(&notes, slice_str("/busy"), clock_wall_ms(&h.clock), false) >
                0);
}

/* Another state: what was is forgotten, and what lies between is not known. */
static void test_replaced(void **state)
{
    make_election();
    remove_by(&first, "/e" NODE(0));
    assert_has(past("/e"), "released");
    h.service.generation++;
    assert_string_equal(past("/e"), "[]");
    handover_notes_follow(&notes);
    assert_int_equal(handover_notes_from_ms(&notes, slice_str("/e"), 1, false), 0);
    remove_by(&second, "/e" NODE(1));
    assert_has(past("/e"), "\"label\":\"host-b\"");
    assert_has(past("/e"), "\"from_ms\":null");
    handover_notes_attach(&notes, NULL);
    assert_null(h.service.onlooker.gone);
    assert_string_equal(past("/e"), "[]");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_released),
        TEST(test_waiters),
        TEST(test_deleted),
        TEST(test_expired),
        TEST(test_killed_and_closed),
        TEST(test_at_once),
        TEST(test_other_kinds),
        TEST(test_hidden),
        TEST(test_budget),
        TEST(test_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
