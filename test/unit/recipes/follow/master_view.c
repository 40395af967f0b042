/* Records about a set of Redis servers, and what servers say of themselves. */
#include "recipes/follow/master_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct conclave_redis_view *read_as(enum conclave_redis_layout layout, const char *text)
{
    struct conclave_redis_view *view = NULL;
    char *bytes = malloc(strlen(text) + 1); /* of exactly the size that may be touched */
    assert_non_null(bytes);
    memcpy(bytes, text, strlen(text));
    assert_int_equal(redis_view_read(layout, bytes, strlen(text), &view), 0);
    free(bytes);
    return view;
}

#define NATIVE(text) read_as(CONCLAVE_REDIS_LAYOUT_NATIVE, (text))
#define GEM(text) read_as(CONCLAVE_REDIS_LAYOUT_GEM, (text))

static void a_whole_record(void **state)
{
    struct conclave_redis_view *v = NATIVE(
        "{\"version\":1,\"epoch\":7,\"token\":\"0x12\",\"state\":\"ok\",\"master\":\"[::1]:6379\","
        "\"run_id\":\"abc\",\"replid\":\"r\",\"replicas\":[\"b:1\",\"c:2\"],"
        "\"unavailable\":[\"d:3\"],\"since_ms\":5,\"reason\":\"started\",\"later\":{}}");
    assert_int_equal(v->state, CONCLAVE_REDIS_OK);
    assert_int_equal(v->epoch, 7);
    assert_string_equal(v->master, "[::1]:6379");
    assert_string_equal(v->host, "::1");
    assert_int_equal(v->port, 6379);
    assert_string_equal(v->run_id, "abc");
    assert_string_equal(v->reason, "started");
    assert_int_equal(v->replica_count, 2);
    assert_string_equal(v->replicas[1], "c:2");
    assert_int_equal(v->unavailable_count, 1);
    assert_string_equal(v->unavailable[0], "d:3");
    struct conclave_redis_view *copy = redis_view_copy(v);
    assert_non_null(copy);
    conclave_redis_view_free(v);
    assert_string_equal(copy->replicas[0], "b:1");
    assert_string_equal(copy->host, "::1");
    conclave_redis_view_free(copy);
}

static void states_and_what_they_mean(void **state)
{
    static const struct {
        const char *word;
        enum conclave_redis_state state;
        bool serves;
    } rows[] = {
        {"ok", CONCLAVE_REDIS_OK, true},
        {"failing_over", CONCLAVE_REDIS_FAILING_OVER, false},
        {"no_candidate", CONCLAVE_REDIS_NO_CANDIDATE, false},
        {"degraded", CONCLAVE_REDIS_DEGRADED, true},
        {"needs_operator", CONCLAVE_REDIS_NEEDS_OPERATOR, false},
        {"paused", CONCLAVE_REDIS_PAUSED, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "{\"epoch\":1,\"state\":\"%s\",\"master\":\"a:1\"}",
                       rows[i].word);
        struct conclave_redis_view *v = NATIVE(text);
        assert_int_equal(v->state, rows[i].state);
        assert_int_equal(redis_state_serves(v->state), rows[i].serves);
        conclave_redis_view_free(v);
    }
    assert_string_equal(conclave_redis_state_name(CONCLAVE_REDIS_FAILING_OVER), "FAILING_OVER");
    assert_string_equal(conclave_redis_state_name((enum conclave_redis_state)99), "UNKNOWN");
}

static void a_record_without_a_master(void **state)
{
    struct conclave_redis_view *v = NATIVE(
        "{\"epoch\":0,\"state\":\"needs_operator\",\"master\":null,\"reason\":\"two masters\"}");
    assert_int_equal(v->state, CONCLAVE_REDIS_NEEDS_OPERATOR);
    assert_null(v->master);
    assert_string_equal(v->host, "");
    assert_string_equal(v->reason, "two masters");
    conclave_redis_view_free(v);
}

static void what_is_no_record_allows_nothing(void **state)
{
    static const char *const texts[] = {
        "",
        "null",
        "[]",
        "\"ok\"",
        "{",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:1\"",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:1\"}x",
        "{\"epoch\":1,\"epoch\":2,\"state\":\"ok\",\"master\":\"a:1\"}",
        "{\"version\":2,\"epoch\":1,\"state\":\"ok\",\"master\":\"a:1\"}",
        "{\"version\":\"1\",\"epoch\":1,\"state\":\"ok\",\"master\":\"a:1\"}",
        "{\"state\":\"ok\",\"master\":\"a:1\"}",
        "{\"epoch\":-1,\"state\":\"ok\",\"master\":\"a:1\"}",
        "{\"epoch\":0,\"state\":\"ok\",\"master\":\"a:1\"}",
        "{\"epoch\":\"1\",\"state\":\"ok\",\"master\":\"a:1\"}",
        "{\"epoch\":1,\"state\":\"okay\",\"master\":\"a:1\"}",
        "{\"epoch\":1,\"state\":\"\",\"master\":\"a:1\"}",
        "{\"epoch\":1,\"master\":\"a:1\"}",
        "{\"epoch\":1,\"state\":\"ok\"}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":null}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":5}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a\"}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\":1\"}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:\"}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:0\"}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:65536\"}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:99999999999999999999\"}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:+1\"}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:1x\"}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a\\u0000b:1\"}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:1\",\"replicas\":\"b:1\"}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:1\",\"replicas\":[1]}",
        "{\"epoch\":1,\"state\":\"ok\",\"master\":\"a:1\",\"unavailable\":{}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct conclave_redis_view *v = NATIVE(texts[i]);
        if (v->state != CONCLAVE_REDIS_UNREADABLE) {
            fail_msg("taken for a record: %s", texts[i]);
        }
        assert_null(v->master);
        assert_int_equal(v->epoch, 0);
        assert_int_equal(v->replica_count, 0);
        assert_true(v->reason[0] != '\0');
        conclave_redis_view_free(v);
    }
}

static void the_gems_record(void **state)
{
    struct conclave_redis_view *v =
        GEM("{\"master\":\"a:1\",\"slaves\":[\"b:1\"],\"unavailable\":[\"c:1\",\"d:1\"]}");
    assert_int_equal(v->state, CONCLAVE_REDIS_OK);
    assert_string_equal(v->master, "a:1");
    assert_int_equal(v->replica_count, 1);
    assert_int_equal(v->unavailable_count, 2);
    conclave_redis_view_free(v);
    v = GEM("{\"master\":null,\"slaves\":[],\"unavailable\":[\"a:1\"]}");
    assert_int_equal(v->state, CONCLAVE_REDIS_NO_CANDIDATE);
    assert_null(v->master);
    conclave_redis_view_free(v);
    v = GEM("--- :master: a:1");
    assert_int_equal(v->state, CONCLAVE_REDIS_UNREADABLE);
    conclave_redis_view_free(v);
}

static void says(const char *text, const char *role, const char *run_id)
{
    struct info_answer said;
    char *bytes = malloc(strlen(text) + 1);
    assert_non_null(bytes);
    memcpy(bytes, text, strlen(text));
    assert_int_equal(redis_answer_read(bytes, strlen(text), &said), role != NULL);
    if (role != NULL) {
        assert_true(slice_equal_str(said.role, role));
        assert_true(slice_equal(said.run_id, slice_make(run_id, strlen(run_id))));
    }
    free(bytes);
}

static void answers_of_servers(void **state)
{
    says("master", "master", "");
    says("slave", "slave", "");
    says("# Server\r\nredis_version:7.0.15\r\nrun_id:0123\r\n\r\n# Replication\r\nrole:master\r\n"
         "connected_slaves:0\r\n",
         "master", "0123");
    says("role:slave\nmaster_host:role:master\n", "slave", "");
    says("*3\r\n$6\r\nmaster\r\n:42\r\n*0\r\n", "master", "");
    says("*5\r\n$5\r\nslave\r\n$1\r\na\r\n", "slave", "");
    says("", NULL, NULL);
    says("masters", NULL, NULL);
    says("role:", NULL, NULL);
    says("run_id:1\r\n", NULL, NULL);
    says("xrole:master\r\n", NULL, NULL);
    says("-NOAUTH Authentication required.\r\n", NULL, NULL);
    says("*3\r\n$6\r\nmas", NULL, NULL);
    says("*", NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_record),
        cmocka_unit_test(states_and_what_they_mean),
        cmocka_unit_test(a_record_without_a_master),
        cmocka_unit_test(what_is_no_record_allows_nothing),
        cmocka_unit_test(the_gems_record),
        cmocka_unit_test(answers_of_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
