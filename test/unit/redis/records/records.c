/* The records: a written record is read again; a damaged one is refused or skipped. */
#include "redis/records/records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ID_A "d2c348db5c3b2083d4aeb097cf0ecaad9071e364"

static void current_comes_back_as_it_was(void **state)
{
    static struct redis_current in = {.epoch = 7,
                                      .token = 0x1f00000002,
                                      .state = REDIS_STATE_DEGRADED,
                                      .master = "a:1",
                                      .run_id = ID_A,
                                      .replid = ID_A,
                                      .second_offset = 99,
                                      .replicas = {"b:2"},
                                      .replica_count = 1,
                                      .unavailable = {"[::1]:3", "d:4"},
                                      .unavailable_count = 2,
                                      .since_ms = 123,
                                      .failover_ms = 122,
                                      .lease_ms = 10000,
                                      .lease_replicas = 1,
                                      .paused = true,
                                      .reason = "because \"x\""};
    static struct redis_current out;
    struct buf text;
    buf_init(&text, 0);
    record_write(&text, &REDIS_CURRENT, &in);
    assert_true(buf_ok(&text));
    assert_int_equal(record_read(&REDIS_CURRENT, text.data, text.len, &out), 0);
    assert_memory_equal(&in, &out, sizeof in);
    for (size_t len = 0; len < text.len; len++) { /* cut off anywhere it is none */
        assert_int_equal(record_read(&REDIS_CURRENT, text.data, len, &out), CONCLAVE_ECORRUPT);
    }
    buf_finish(&text);
}

static void a_plan_comes_back_as_it_was(void **state)
{
    static struct redis_plan in = {.id = "8-ff",
                                   .epoch = 8,
                                   .step = REDIS_STEP_PROMOTE,
                                   .reason = "manual",
                                   .old = "a:1",
                                   .old_run_id = ID_A,
                                   .old_replid = ID_A,
                                   .old_second_offset = -1,
                                   .returned_replid = ID_A,
                                   .old_offset = 1LL << 40,
                                   .target = "b:2",
                                   .wanted = "b:2",
                                   .tried = {"c:3"},
                                   .tried_count = 1,
                                   .fenced = "lease",
                                   .request = "req-0000000001",
                                   .force = true,
                                   .started_ms = 5};
    static struct redis_plan out;
    struct buf text;
    buf_init(&text, 0);
    record_write(&text, &REDIS_PLAN, &in);
    assert_int_equal(record_read(&REDIS_PLAN, text.data, text.len, &out), 0);
    assert_memory_equal(&in, &out, sizeof in);
    buf_finish(&text);
}

static void requests_and_results_come_back_as_they_were(void **state)
{
    struct redis_request request = {.name = "req-1",
                                    .kind = REDIS_REQUEST_FORGET,
                                    .target = "a:1",
                                    .force = true,
                                    .timeout_ms = 5,
                                    .id = "x",
                                    .by = "me",
                                    .expires_ms = 6};
    struct redis_result result = {
        .ok = true, .text = "done", .master = "a:1", .epoch = 3, .lost_bytes = -1};
    struct redis_request request_out;
    struct redis_result result_out;
    memset(&request_out, 0, sizeof request_out);
    memset(&result_out, 0, sizeof result_out);
    struct buf text;
    buf_init(&text, 0);
    record_write(&text, &REDIS_REQUEST, &request);
    assert_int_equal(redis_request_read(text.data, text.len, "req-1", &request_out), 0);
    assert_memory_equal(&request, &request_out, sizeof request);
    buf_reset(&text);
    record_write(&text, &REDIS_RESULT, &result);
    assert_int_equal(record_read(&REDIS_RESULT, text.data, text.len, &result_out), 0);
    assert_string_equal(result_out.text, "done");
    assert_string_equal(result_out.master, "a:1");
    assert_int_equal(result_out.lost_bytes, -1);
    buf_finish(&text);
}

static void a_report_comes_back_as_it_was(void **state)
{
    static struct redis_report in;
    static struct redis_report out;
    static struct redis_node nodes[2];
    struct redis_config config;
    const char *bad;
    redis_config_init(&config);
    assert_int_equal(redis_config_nodes(&config, "a:1,b:2", &bad), 0);
    redis_node_init(&nodes[0]);
    redis_node_init(&nodes[1]);
    struct redis_facts facts = {.role = REDIS_ROLE_REPLICA,
                                .run_id = ID_A,
                                .replid = ID_A,
                                .second_offset = -1,
                                .offset = 44,
                                .priority = 7,
                                .master = "a:1",
                                .link_up = true,
                                .link_down_ms = -1};
    (void)redis_node_probed(&nodes[1], &config, REDIS_PROBE_OK, &facts, 100, 103);
    snprintf(in.id, sizeof in.id, "m1");
    snprintf(in.incarnation, sizeof in.incarnation, "abc");
    in.seq = 17;
    in.lead_ms = 1700;
    redis_report_make(&in, &config, nodes, 150);
    struct buf text;
    buf_init(&text, 0);
    record_write(&text, &REDIS_REPORT, &in);
    assert_int_equal(record_read(&REDIS_REPORT, text.data, text.len, &out), 0);
    assert_int_equal(out.seq, 17);
    assert_int_equal(out.lead_ms, 1700);
    assert_int_equal(out.node_count, 2);
    assert_int_equal(out.nodes[0].age_ms, -1);
    assert_string_equal(out.nodes[1].address, "b:2");
    assert_int_equal(out.nodes[1].state, REDIS_NODE_UP);
    assert_int_equal(out.nodes[1].age_ms, 50);
    assert_int_equal(out.nodes[1].offset, 44);
    assert_int_equal(out.nodes[1].latency_us, 3000);
    assert_int_equal(out.nodes[1].priority, 7);
    assert_string_equal(out.nodes[1].master, "a:1");
    assert_true(out.nodes[1].link_up);
    buf_finish(&text);
}

static int read_current(const char *json)
{
    static struct redis_current current;
    return record_read(&REDIS_CURRENT, json, strlen(json), &current);
}

static void what_fail_over_hangs_on_is_read_strictly(void **state)
{
    assert_int_equal(read_current("{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:1\"}"), 0);
    assert_int_equal(read_current("{\"epoch\":1,\"state\":\"ok\",\"master\":null,\"new\":[{}]}"),
                     0);
    static const char *const wrong[] = {
        "{\"version\":2,\"epoch\":1,\"state\":\"ok\",\"master\":\"a:1\"}",
        "{\"epoch\":\"1\",\"state\":\"ok\",\"master\":\"a:1\"}",
        "{\"epoch\":-1,\"state\":\"ok\",\"master\":\"a:1\"}",
        "{\"epoch\":1,\"state\":\"fine\",\"master\":\"a:1\"}",
        "{\"epoch\":1,\"master\":\"a:1\"}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:b\"}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":7}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:1\",\"replicas\":[3]}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a\\u0000:1\"}",
        "[]",
        "null",
        "",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(read_current(wrong[i]), CONCLAVE_ECORRUPT);
    }
    struct redis_plan plan;
    const char *no_old = "{\"id\":\"x\",\"epoch\":1,\"step\":\"fence\"}";
    assert_int_equal(record_read(&REDIS_PLAN, no_old, strlen(no_old), &plan), CONCLAVE_ECORRUPT);
}

static void the_gems_layout(void **state)
{
    static struct redis_current current = {.state = REDIS_STATE_OK,
                                           .master = "a:1",
                                           .replicas = {"b:2"},
                                           .replica_count = 1,
                                           .unavailable = {"c:3"},
                                           .unavailable_count = 1};
    struct redis_current shown;
    struct redis_request request;
    struct buf text;
    buf_init(&text, 0);
    shown = redis_gem_nodes_of(&current);
    record_write(&text, &REDIS_GEM_NODES, &shown);
    assert_string_equal(buf_cstr(&text),
                        "{\"master\":\"a:1\",\"slaves\":[\"b:2\"],\"unavailable\":[\"c:3\"]}");
    buf_reset(&text);
    current.state = REDIS_STATE_FAILING_OVER;
    shown = redis_gem_nodes_of(&current);
    record_write(&text, &REDIS_GEM_NODES, &shown);
    assert_non_null(strstr(buf_cstr(&text), "\"master\":null"));
    buf_finish(&text);
    assert_false(redis_gem_request_read("", 0, &request)); /* made, and not yet filled */
    assert_true(redis_gem_request_read("ANY_SLAVE", 9, &request));
    assert_string_equal(request.target, "");
    assert_true(redis_gem_request_read("b:2", 3, &request));
    assert_string_equal(request.target, "b:2");
    assert_true(redis_gem_request_read("b:two", 5, &request));
    assert_string_equal(request.target, "?"); /* refused as unknown, not taken for any */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(current_comes_back_as_it_was),
        cmocka_unit_test(a_plan_comes_back_as_it_was),
        cmocka_unit_test(requests_and_results_come_back_as_they_were),
        cmocka_unit_test(a_report_comes_back_as_it_was),
        cmocka_unit_test(what_fail_over_hangs_on_is_read_strictly),
        cmocka_unit_test(the_gems_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
