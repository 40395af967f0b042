/* The sessions with their clients; which of them a text selects. */
#include "admin/console/session_list.h"
#include "support/service_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct service_harness h;
static struct json list;

static int setup(void **state)
{
    service_harness_init(&h, NULL);
    json_init(&list);
    return 0;
}

static int teardown(void **state)
{
    json_finish(&list);
    service_harness_finish(&h);
    body_finish();
    return 0;
}

static const char *look(const char *find)
{
    json_finish(&list);
    json_init(&list);
    session_list_write(&h.service, find, &list);
    return buf_cstr(&list.out);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("%s\nlacks %s", text, part);
    }
}

static void test_sessions(void **state)
{
    struct guest first;
    struct guest second;
    struct frame frame;
    char id[40];
    assert_string_equal(look(NULL), "{\"list\":[],\"found\":0,\"all\":0}");
    guest_open(&first, &h, 10000);
    h.host = "10.9.9.9";
    guest_open(&second, &h, 20000);
    guest_request(&first, WIRE_CREATE, body_create("/e", "", 1));
    service_harness_settle(&h);
    assert_true(guest_next(&first, &frame));
    guest_request(&first, WIRE_EXISTS, body_path_watch("/w", true));
    service_harness_settle(&h);
    assert_true(guest_next(&first, &frame));
    service_harness_advance(&h, 4000);
    const char *text = look(NULL);
    (void)snprintf(id, sizeof id, "{\"list\":[{\"id\":\"0x%llx\"",
                   (unsigned long long)first.c.session_id);
    assert_has(text, id);
    assert_has(text, "\"local\":false,\"timeout_ms\":10000,\"idle_ms\":4");
    assert_has(text, "\"left_ms\":9");
    assert_has(text, "\"ephemerals\":1,\"client\":\"");
    assert_has(text, "\"watches\":1}");
    assert_has(text, "\"timeout_ms\":20000");
    assert_has(text, "\"found\":2,\"all\":2}");
    (void)snprintf(id, sizeof id, "%llx", (unsigned long long)second.c.session_id);
    text = look(id);
    assert_has(text, "\"timeout_ms\":20000");
    assert_has(text, "\"found\":1,\"all\":2}");
    h.service.standing.leads = false;
    assert_has(look(NULL), "\"timeout_ms\":10000,\"idle_ms\":4");
    int64_t here = h.service.server_id;
    h.service.server_id =
        here + 1; /* the clients are at another server, whose reports go to the leader */
    assert_has(look(NULL), "\"timeout_ms\":10000,\"idle_ms\":null,\"left_ms\":null,");
    h.service.server_id = here;
    h.service.standing.leads = true;
    assert_has(look("nothing"), "{\"list\":[],\"found\":0,\"all\":2}");
    assert_has(look(second.c.peer), "\"found\":");
    guest_finish(&second); /* its session goes on without a client */
    text = look(id);
    assert_has(text, "\"ephemerals\":0,\"client\":null}]");
    guest_finish(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sessions, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
