/* Which recipes of a tree are found, within which limits, and what a client without ids may not see. */
#include "admin/console/recipe_list.h"
#include "state/query.h"
#include "support/requests.h"
#include "support/service_harness.h"
#include "watch/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { BYTES = 1 << 20, EPHEMERAL_SEQUENTIAL = 3, SEQUENTIAL = 2 };

#define GUID "0123456789abcdef0123456789abcdef"

static struct service_harness h;
static struct guest guest;
static struct json list;
static struct handover_notes notes;

static int setup(void **state)
{
    service_harness_init(&h, NULL);
    guest_open(&guest, &h, 10000);
    json_init(&list);
    handover_notes_init(&notes);
    return 0;
}

static int teardown(void **state)
{
    json_finish(&list);
    guest_finish(&guest);
    service_harness_finish(&h);
    body_finish();
    return 0;
}

static void create(const char *path, const char *data, int32_t mode)
{
    int32_t xid = guest_request(&guest, WIRE_CREATE, body_create(path, data, mode));
    service_harness_settle(&h);
    (void)guest_expect(&guest, xid, 0);
}

static const char *look(bool held, size_t bytes_max)
{
    json_finish(&list);
    json_init(&list);
    recipe_list_write(&h.service, &notes, held, bytes_max, &list);
    return buf_cstr(&list.out);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("%s\nlacks %s", text, part);
    }
}

static size_t times(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        n++;
    }
    return n;
}

static void test_nothing(void **state)
{
    const char *none = "{\"list\":[],\"more\":0,\"hidden\":0,\"cut\":false}";
    assert_string_equal(look(true, BYTES), none);
    assert_string_equal(look(false, BYTES), none);
    create("/leaf", "", 0);
    assert_string_equal(look(false, BYTES), none);
}

static void wait_for(const char *path)
{
    int32_t xid = guest_request(&guest, WIRE_EXISTS, body_path_watch(path, true));
    service_harness_settle(&h);
    (void)guest_expect(&guest, xid, 0);
}

/* A node without data that somebody watches may be a plain barrier; others are none. */
static void test_plain_barriers(void **state)
{
    static const char *const OTHERS[] = {"/data", "/parent", "/parent/child", "/e",
                                         "/n-0000000004"};
    create("/gate", "", 0);
    create("/curators", "10.1.2.3", 0);
    create("/data", "limit=5", 0);
    create("/parent", "", 0);
    create("/parent/child", "x", 0);
    create("/e", "", 1);
    create("/unwatched", "", 0);
    create("/n-", "", SEQUENTIAL);
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
        if (state_node(h.service.state, slice_str(OTHERS[i])) != NULL) {
            wait_for(OTHERS[i]);
        }
    }
    assert_null(strstr(look(false, BYTES), "\"plain\""));
    wait_for("/gate");
    wait_for("/curators");
    const char *text = look(false, BYTES);
    assert_int_equal(times(text, "\"plain\":true"), 2);
    assert_has(text, "{\"kind\":\"barrier\",\"library\":\"\",\"plain\":true,\"path\":\"/gate\"");
    assert_has(text, "\"client\":\"10.1.2.3:4567\"}],\"waiting\":1}");
    assert_null(strstr(look(true, BYTES), "\"plain\""));
    assert_has(look(false, 1), "\"more\":");
    static char path[2000];
    struct watcher others;
    watcher_init(&others);
    memset(path, 'x', sizeof path - 1);
    path[0] = '/';
    for (int i = 0; i < RECIPES_WATCH_MEMORY_MAX / (int)sizeof path; i++) {
        (void)snprintf(path + 1, 16, "%d", i);
        path[1 + strlen(path + 1)] = 'x';
        assert_int_equal(watch_add(h.service.watches, &others, WATCH_CHILD, slice_str(path)), 0);
    }
    assert_null(strstr(look(false, BYTES), "\"plain\"")); /* too many watches to look at */
    assert_has(look(false, BYTES), "\"cut\":true");
    watcher_finish(h.service.watches, &others);
    int32_t xid = guest_request(&guest, WIRE_DELETE, body_delete("/gate"));
    service_harness_settle(&h);
    (void)xid;
    assert_int_equal(times(look(false, BYTES), "\"plain\":true"), 1);
}

static void test_election(void **state)
{
    create("/e", "", 0);
    create("/e.leader", "", 0);
    create("/e/" GUID "-n_", "host-a\nx", EPHEMERAL_SEQUENTIAL);
    create("/e/" GUID "-n_", "host-b", EPHEMERAL_SEQUENTIAL);
    create("/e.leader/current", "", 1);
    const char *text = look(true, BYTES);
    assert_has(text, "{\"list\":[{\"kind\":\"election\",\"library\":\"Conclave\",\"path\":\"/e\","
                     "\"children\":2,\"holders\":[{\"label\":\"host-a\",\"node\":\"" GUID
                     "-n_0000000000\",\"since_ms\":");
    assert_has(text, "\"client\":\"10.1.2.3");
    assert_has(text, "\"holding\":1,\"line\":[{\"label\":\"host-b\"");
    assert_has(text, "\"waiting\":1}],\"more\":0,\"hidden\":0,\"cut\":false}");
}

/* A queue has no ephemeral nodes: only the walk finds it. */
static void test_queue(void **state)
{
    create("/a", "", 0);
    create("/a/b", "", 0);
    create("/a/b/q", "", 0);
    create("/a/b/q/100-" GUID "-q_", "item", SEQUENTIAL);
    create("/z", "", 0);
    create("/z/group", "", 0);
    create("/z/group/m", "", 1);
    assert_int_equal(times(look(true, BYTES), "\"kind\""), 0);
    const char *text = look(false, BYTES);
    assert_has(text, "\"kind\":\"queue\",\"library\":\"Conclave\",\"path\":\"/a/b/q\"");
    assert_has(text, "\"kind\":\"group\",\"library\":\"\",\"path\":\"/z/group\"");
    assert_int_equal(times(text, "\"kind\""), 2);
}

static void test_redis(void **state)
{
    create("/r", "", 0);
    create("/r/current", "{\"master\":\"a:1\"}", 0);
    create("/r/managers", "", 0);
    create("/r/managers/m1", "", 1);
    const char *text = look(false, BYTES);
    assert_has(text, "\"kind\":\"Redis set\",\"library\":\"Conclave\",\"path\":\"/r\"");
    assert_has(text, "\"data\":\"{\\\"master\\\":\\\"a:1\\\"}\"");
    assert_int_equal(times(text, "\"kind\""), 1);
}

static void test_limits(void **state)
{
    char path[64];
    for (unsigned i = 0; i < RECIPES_HELD_MAX + 3; i++) {
        (void)snprintf(path, sizeof path, "/l%02u", i);
        create(path, "", 0);
        (void)snprintf(path, sizeof path, "/l%02u/" GUID "-n_", i);
        create(path, "x", EPHEMERAL_SEQUENTIAL);
    }
    const char *text = look(true, BYTES);
    assert_int_equal(times(text, "\"kind\""), RECIPES_HELD_MAX);
    assert_has(text, "\"more\":3,\"hidden\":0,\"cut\":false}");
    text = look(true, 1000);
    assert_in_range(times(text, "\"kind\""), 1, 10);
    for (unsigned i = 0; i < RECIPES_LINE_MAX + 2; i++) {
        create("/l00/" GUID "-n_", "x", EPHEMERAL_SEQUENTIAL);
    }
    text = look(true, BYTES);
    assert_has(text, "\"waiting\":7}");
    assert_int_equal(times(text, "\"node\""), RECIPES_HELD_MAX + RECIPES_LINE_MAX);
}

/* READ on the parent shows names, READ on the child shows its data. */
static void test_hidden(void **state)
{
    struct maker m;
    maker_init(&m);
    create("/open", "", 0);
    maker_acl_reset(&m);
    maker_acl_add(&m, WIRE_PERM_ALL & ~WIRE_PERM_READ, "world", "anyone");
    int32_t xid = guest_request(&guest, WIRE_CREATE, make_create(&m, "/closed", "", 0));
    service_harness_settle(&h);
    (void)guest_expect(&guest, xid, 0);
    create("/closed/" GUID "-n_", "hidden", EPHEMERAL_SEQUENTIAL);
    xid = guest_request(&guest, WIRE_CREATE,
                        make_create(&m, "/open/" GUID "-n_", "secret", EPHEMERAL_SEQUENTIAL));
    service_harness_settle(&h);
    (void)guest_expect(&guest, xid, 0);
    for (int held = 0; held <= 1; held++) {
        const char *text = look(held == 1, BYTES);
        assert_null(strstr(text, "secret"));
        assert_null(strstr(text, "closed"));
        assert_has(text, "\"path\":\"/open\"");
        assert_has(text, "\"hidden\":1,");
    }
    maker_finish(&m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing), TEST(test_plain_barriers), TEST(test_election), TEST(test_queue),
        TEST(test_redis),   TEST(test_limits),         TEST(test_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
