/* Slices and integers in byte order. */
#include "base/slice.h"

#include "base/endian.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void test_null_and_empty(void **state)
{
    struct slice empty = slice_str("");
    assert_true(slice_is_null(SLICE_NULL));
    assert_true(slice_is_null(slice_str(NULL)));
    assert_false(slice_is_null(empty));
    assert_true(slice_equal(SLICE_NULL, empty));
    assert_int_equal(slice_compare(SLICE_NULL, empty), 0);
    assert_true(slice_starts_with(empty, SLICE_NULL));
    char text[8];
    assert_int_equal(snprintf(text, sizeof text, "<%.*s>", SLICE_FMT(empty)), 2);
}

static void test_compare(void **state)
{
    static const char *const sorted[] = {"", "a", "aa", "ab", "b", "\x80", "\xff"};
    for (int i = 0; i < 7; i++) {
        for (int j = 0; j < 7; j++) {
            struct slice a = slice_str(sorted[i]);
            struct slice b = slice_str(sorted[j]);
            int c = slice_compare(a, b);
            assert_int_equal((c > 0) - (c < 0), (i > j) - (i < j));
            assert_int_equal(slice_equal(a, b), i == j);
        }
    }
    assert_true(slice_starts_with(slice_str("/a/b"), slice_str("/a")));
    assert_false(slice_starts_with(slice_str("/a"), slice_str("/a/b")));
    assert_false(slice_starts_with(slice_str("/b"), slice_str("/a")));
}

static void test_byte_order(void **state)
{
    uint8_t p[9] = {0}; /* from the second byte on: unaligned */
    put_be32(p + 1, 0x01020304);
    assert_memory_equal(p + 1, "\1\2\3\4", 4);
    assert_int_equal(get_be32(p + 1), 0x01020304);
    put_be64(p + 1, 0x0102030405060708);
    assert_memory_equal(p + 1, "\1\2\3\4\5\6\7\10", 8);
    assert_true(get_be64(p + 1) == 0x0102030405060708);
    put_le32(p + 1, 0x01020304);
    assert_memory_equal(p + 1, "\4\3\2\1", 4);
    assert_int_equal(get_le32(p + 1), 0x01020304);
    put_le64(p + 1, 0x0102030405060708);
    assert_memory_equal(p + 1, "\10\7\6\5\4\3\2\1", 8);
    assert_true(get_le64(p + 1) == 0x0102030405060708);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_and_empty),
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_byte_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
