/* Events as JSON, there and back; malformed events are refused. */
#include "redis/records/records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

static void test_there_and_back(void **state)
{
    struct redis_event event = {.name = "failover",
                                .text = "a \"b\"\tc",
                                .node = "[::1]:6379",
                                .manager = "m1",
                                .epoch = 7,
                                .bytes = 0,
                                .at_ms = 1795317747692};
    struct redis_event back;
    struct buf out;
    buf_init(&out, 0);
    record_write(&out, &REDIS_EVENT, &event);
    assert_true(buf_ok(&out));
    assert_null(memchr(out.data, '\n', out.len)); /* one line */
    assert_int_equal(record_read(&REDIS_EVENT, out.data, out.len, &back), 0);
    assert_string_equal(back.name, event.name);
    assert_string_equal(back.text, event.text);
    assert_string_equal(back.node, event.node);
    assert_string_equal(back.manager, event.manager);
    assert_int_equal(back.epoch, 7);
    assert_int_equal(back.bytes, 0);
    assert_int_equal(back.at_ms, event.at_ms);
    buf_finish(&out);
}

static void test_without_server_and_bytes(void **state)
{
    struct redis_event event = {
        .name = "paused", .text = "", .node = "", .manager = "m", .bytes = -1};
    struct redis_event back;
    struct buf out;
    buf_init(&out, 0);
    record_write(&out, &REDIS_EVENT, &event);
    assert_null(strstr(buf_cstr(&out), "\"node\""));
    assert_null(strstr(buf_cstr(&out), "\"bytes\""));
    assert_int_equal(record_read(&REDIS_EVENT, out.data, out.len, &back), 0);
    assert_string_equal(back.node, "");
    assert_int_equal(back.bytes, -1);
    buf_finish(&out);
}

static void test_nonsense_is_refused(void **state)
{
    static const char *const TEXTS[] = {
        "", "[]", "{}", "{\"event\":3}", "{\"event\":\"a\"", "{\"event\":\"a\",\"event\":\"b\"}"};
    struct redis_event back = {.epoch = 42};
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        assert_int_equal(record_read(&REDIS_EVENT, TEXTS[i], strlen(TEXTS[i]), &back),
                         CONCLAVE_ECORRUPT);
        assert_int_equal(back.epoch, 42);
    }
    static const char ODD[] = "{\"event\":\"a\",\"epoch\":\"x\",\"more\":[1]}";
    assert_int_equal(record_read(&REDIS_EVENT, ODD, sizeof ODD - 1, &back), 0);
    assert_int_equal(back.epoch, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_without_server_and_bytes),
        cmocka_unit_test(test_nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
