/* Names of contenders: made, read, ordered. E10 to E14 of the list of cases, as far as they
 * are pure. */
#include "recipes/engine/contender_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The contenders among these children. */
static int filter(enum conclave_naming naming, const char *const *children, size_t count,
                  struct line_entry **ret, size_t *ret_count)
{
    struct conclave_reply reply = {.children = children, .children_count = count};
    return contenders_filter(naming, false, &reply, ret, ret_count);
}

static bool parses(enum conclave_naming naming, const char *name, int32_t expected)
{
    int32_t sequence;
    return name_parse(naming, name, &sequence) && sequence == expected;
}

static bool foreign(enum conclave_naming naming, const char *name)
{
    int32_t sequence;
    return !name_parse(naming, name, &sequence);
}

static void prefixes_are_unique_and_parse(void **state)
{
    for (int naming = 0; naming <= CONCLAVE_NAMING_KAZOO; naming++) {
        char a[NAME_PREFIX_MAX];
        char b[NAME_PREFIX_MAX];
        char name[NAME_PREFIX_MAX + 16];
        name_make_prefix((enum conclave_naming)naming, NAME_PLAIN, a);
        name_make_prefix((enum conclave_naming)naming, NAME_PLAIN, b);
        assert_string_not_equal(a, b);
        (void)snprintf(name, sizeof name, "%s0000000042", a);
        assert_true(parses((enum conclave_naming)naming, name, 42));
        assert_true(strlen(name) < NAME_MAX_LEN);
    }
}

static void prefixes_look_as_other_programs_make_them(void **state)
{
    char p[NAME_PREFIX_MAX];
    name_make_prefix(CONCLAVE_NAMING_NATIVE, NAME_PLAIN, p);
    assert_int_equal(strlen(p), 32 + 3);
    assert_string_equal(p + 32, "-n_");
    name_make_prefix(CONCLAVE_NAMING_CURATOR_LATCH, NAME_PLAIN, p);
    assert_int_equal(strncmp(p, "_c_", 3), 0);
    assert_string_equal(p + 3 + 36, "-latch-");
    name_make_prefix(CONCLAVE_NAMING_CURATOR_LOCK, NAME_PLAIN, p);
    assert_string_equal(p + 3 + 36, "-lock-");
    name_make_prefix(CONCLAVE_NAMING_KAZOO, NAME_PLAIN, p);
    assert_string_equal(p + 32, "__lock__");
}

static void E10_foreign_names_are_not_contenders(void **state)
{
    static const char *const names[] = {
        "abc",
        "x-",
        "n_",
        "lock-foo",
        "\xc3\xa4\xc3\xb6",
        "",
        "-n_12345",
        "g-n_+000000001",
        "g-n_ 000000001",
        "g-n_00000000001",
        "g-n_9999999999",
        "g-n_-9999999999",
        "g-n_00000000x1",
        "g-n_0000000001x",
        "g-n_-00000001",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (int naming = 0; naming <= CONCLAVE_NAMING_KAZOO; naming++) {
            assert_true(foreign((enum conclave_naming)naming, names[i]));
        }
    }
    assert_true(parses(CONCLAVE_NAMING_PLAIN, "0000000042", 42));
    assert_true(parses(CONCLAVE_NAMING_PLAIN, "-2147483648", INT32_MIN));
    assert_true(foreign(CONCLAVE_NAMING_PLAIN, "x0000000001"));
    assert_true(foreign(CONCLAVE_NAMING_PLAIN, "g-n_0000000001"));
    assert_true(foreign(CONCLAVE_NAMING_PLAIN, ""));
    assert_true(foreign(CONCLAVE_NAMING_NATIVE, "_c_x-latch-0000000001"));
    assert_true(foreign(CONCLAVE_NAMING_CURATOR_LATCH, "_c_x-lock-0000000001"));
    assert_true(foreign(CONCLAVE_NAMING_CURATOR_LOCK, "x__lock__0000000001"));
    assert_true(foreign(CONCLAVE_NAMING_KAZOO, "x-n_0000000001"));
}

static void E11_order_is_by_sequence_not_by_guid(void **state)
{
    static const char *const children[] = {"a-n_0000000003", "z-n_0000000001", "m-n_0000000002"};
    struct line_entry *list;
    size_t count;
    assert_int_equal(filter(CONCLAVE_NAMING_NATIVE, children, 3, &list, &count), 0);
    assert_int_equal(count, 3);
    contenders_sort(list, count, false);
    assert_false(contenders_need_czxid(list, count));
    assert_string_equal(list[0].name, children[1]);
    assert_string_equal(list[1].name, children[2]);
    assert_string_equal(list[2].name, children[0]);
    assert_int_equal(contenders_find(list, count, "m-n_0000000002"), 1);
    assert_int_equal(contenders_find(list, count, "m-n_0000000009"), 3);
    free(list);
}

static void E12_order_goes_on_over_the_wrap(void **state)
{
    static const char *const children[] = {"a-n_-2147483647", "b-n_2147483647", "c-n_-2147483648",
                                           "d-n_2147483646"};
    struct line_entry *list;
    size_t count;
    assert_int_equal(filter(CONCLAVE_NAMING_NATIVE, children, 4, &list, &count), 0);
    assert_int_equal(count, 4);
    contenders_sort(list, count, false);
    assert_false(contenders_need_czxid(list, count));
    assert_string_equal(list[0].name, "d-n_2147483646");
    assert_string_equal(list[1].name, "b-n_2147483647");
    assert_string_equal(list[2].name, "c-n_-2147483648");
    assert_string_equal(list[3].name, "a-n_-2147483647");
    free(list);
    assert_true(sequence_before(INT32_MAX, INT32_MIN));
    assert_false(sequence_before(INT32_MIN, INT32_MAX));
    assert_false(sequence_before(7, 7));
}

static void E13_equal_or_distant_numbers_need_czxid(void **state)
{
    static const char *const equal[] = {"a-n_2147483647", "b-n_2147483647"};
    static const char *const far[] = {"a-n_0000000000", "b-n_1073741825"};
    static const char *const near[] = {"a-n_0000000000", "b-n_1073741824"};
    struct line_entry *list;
    size_t count;
    assert_int_equal(filter(CONCLAVE_NAMING_NATIVE, equal, 2, &list, &count), 0);
    contenders_sort(list, count, false);
    assert_true(contenders_need_czxid(list, count));
    list[0].czxid = 20;
    list[1].czxid = 10;
    contenders_sort(list, count, true);
    assert_string_equal(list[0].name, equal[1]);
    free(list);
    assert_int_equal(filter(CONCLAVE_NAMING_NATIVE, far, 2, &list, &count), 0);
    contenders_sort(list, count, false);
    assert_true(contenders_need_czxid(list, count));
    free(list);
    assert_int_equal(filter(CONCLAVE_NAMING_NATIVE, near, 2, &list, &count), 0);
    contenders_sort(list, count, false);
    assert_false(contenders_need_czxid(list, count));
    free(list);
}

static void numbers_are_taken_as_the_server_prints_them(void **state)
{
    static const int32_t values[] = {0,           1,           9,        999999999,
                                     1000000000,  INT32_MAX,   -1,       -999999999,
                                     -1000000000, -1000000001, INT32_MIN};
    static const char *const others[] = {"",
                                         "-",
                                         "000000001",
                                         "00000000001",
                                         "+000000001",
                                         " 000000001",
                                         "000000000x",
                                         "-0000000001",
                                         "-000000000",
                                         "2147483648",
                                         "9999999999",
                                         "-2147483649",
                                         "99999999999999999999",
                                         "-00000001",
                                         "--00000001",
                                         "00000-0001",
                                         "0000000001 "};
    int32_t sequence;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%010" PRId32, values[i]);
        assert_true(sequence_parse(text, &sequence));
        assert_int_equal(sequence, values[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(sequence_parse(others[i], &sequence));
    }
}

static void E14_the_parser_takes_what_follows_the_last_marker(void **state)
{
    assert_true(parses(CONCLAVE_NAMING_NATIVE, "6b-3c-n_0000000007", 7));
    assert_true(parses(CONCLAVE_NAMING_NATIVE, "n_1-n_0000000007", 7));
    assert_true(parses(CONCLAVE_NAMING_NATIVE, "a-n_-000000007", -7));
    assert_true(parses(CONCLAVE_NAMING_NATIVE, "a-n_-2147483648", INT32_MIN));
    assert_true(parses(CONCLAVE_NAMING_NATIVE, "a-n_2147483647", INT32_MAX));
    assert_true(parses(CONCLAVE_NAMING_CURATOR_LATCH, "_c_8a1b-4f-11-22-33-latch-0000000012", 12));
    assert_true(parses(CONCLAVE_NAMING_CURATOR_LATCH, "latch-0000000012", 12));
    assert_true(parses(CONCLAVE_NAMING_CURATOR_LOCK, "_c_x-lock--000000012", -12));
    assert_true(parses(CONCLAVE_NAMING_KAZOO, "0a1b__lock__0000000001", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_are_unique_and_parse),
        cmocka_unit_test(prefixes_look_as_other_programs_make_them),
        cmocka_unit_test(E10_foreign_names_are_not_contenders),
        cmocka_unit_test(E11_order_is_by_sequence_not_by_guid),
        cmocka_unit_test(E12_order_goes_on_over_the_wrap),
        cmocka_unit_test(E13_equal_or_distant_numbers_need_czxid),
        cmocka_unit_test(numbers_are_taken_as_the_server_prints_them),
        cmocka_unit_test(E14_the_parser_takes_what_follows_the_last_marker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
