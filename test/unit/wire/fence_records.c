/* The text of bindings, and the names of contenders. */
#include "wire/fence_records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void terms_come_back(void **state)
{
    static const struct fence_terms rows[] = {
        {.lock = {(const uint8_t *)"/l", 2}},
        {.lock = {(const uint8_t *)"/a=b/c", 6}, .delay_ms = FENCE_DELAY_MAX_MS},
        {.lock = {(const uint8_t *)"/l", 2}, .delay_ms = 1, .until_ms = 1795302554260},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fence_terms t;
        struct buf text;
        buf_init(&text, 0);
        fence_terms_print(&rows[i], &text);
        assert_true(fence_terms_parse(buf_slice(&text), &t));
        assert_true(slice_equal(t.lock, rows[i].lock));
        assert_int_equal(t.delay_ms, rows[i].delay_ms);
        assert_int_equal(t.until_ms, rows[i].until_ms);
        buf_finish(&text);
    }
}

static void what_is_no_binding(void **state)
{
    static const char *const rows[] = {
        "",
        "\n",
        "lock",
        "lock=",
        "lock=\nlock=/l",
        "=/l",
        "lock=/l\nlock=/l",
        "lock=/l\n\n",
        "lock=/l\nlock_delay_ms=",
        "lock=/l\nlock_delay_ms=+1",
        "lock=/l\nlock_delay_ms=86400001",
        "lock=/l\nlock_delay_ms=1\nlock_delay_ms=1",
        "lock=/l\nuntil_ms=1234567890123456789",
        "lock_delay_ms=1",
        "Lock=/l",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fence_terms t;
        assert_false(fence_terms_parse(slice_str(rows[i]), &t));
    }
    struct fence_terms t;
    assert_false(fence_terms_parse(SLICE_NULL, &t));
}

static void names_of_contenders(void **state)
{
    static const struct {
        const char *name;
        int64_t number;
        bool reads;
    } rows[] = {
        {"_c_8e7a-latch-0000000007", 7, false},
        {"8e7a__lock__0000000010", 10, false},
        {"8e7a-n_2147483647", INT32_MAX, false},
        {"n_-2147483648", 2147483648, false},
        {"n_-000000001", -1, false},
        {"0000000000", 0, false},
        {"_c_8e7a-__READ__0000000007", 7, true},
        {"_c_8e7a-__READ__-000000007", -7, true},
        {"_c_8e7a-__READ__-1000000007", 1000000007, true},
        {"8e7a__rlock__0000000007", 7, true},
        {"8e7a-__READ__n_0000000007", 7, true},
        {"8e7a-__WRIT__n_0000000007", 7, false},
        {"__READ__lock-0000000007", 7, false},
    };
    static const char *const none[] = {"",       "n_",          "n_000000001",  "n_00000000-1",
                                       "config", "0000000001x", "n_2147483648", "n_-2147483649"};
    int64_t number = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(fence_name_contends(slice_str(rows[i].name), &number));
        assert_int_equal(number, rows[i].number);
        assert_int_equal(fence_name_reads(slice_str(rows[i].name)), rows[i].reads);
    }
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_false(fence_name_contends(slice_str(none[i]), &number));
        assert_false(fence_name_reads(slice_str(none[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terms_come_back),
        cmocka_unit_test(what_is_no_binding),
        cmocka_unit_test(names_of_contenders),
    };
    return cmocka_run_group_tests_name("fencing", tests, NULL, NULL);
}
