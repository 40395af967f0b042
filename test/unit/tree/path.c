#include "tree/path.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static bool valid(const char *path)
{
    return path_valid(slice_str(path));
}

static void good_paths(void **state)
{
    static const char *const good[] = {
        "/",
        "/a",
        "/a/b",
        "/...",
        "/a..",
        "/..a",
        "/.a/.b",
        "/a b",
        "/\xc3\xa9",
        "/\xe4\xb8\xad/\xe6\x96\x87",
        "/\x20",
        "/~",
        "/\xc2\xa0",
        "/\xed\x9f\xbf", /* U+D7FF */
        "/\xef\xa4\x80", /* U+F900, the first after the private use area */
        "/\xef\xbf\xaf", /* U+FFEF */
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(valid(good[i]));
    }
}

static void bad_paths(void **state)
{
    static const char *const bad[] = {
        "",
        "a",
        "a/b",
        "//",
        "/a/",
        "/a//b",
        "//a",
        "/.",
        "/..",
        "/a/.",
        "/a/..",
        "/./a",
        "/a/../b",
        "/a/./b",
        "/\x01",
        "/\x1f",
        "/\x7f",
        "/\xc2\x80",
        "/\xc2\x9f",
        "/a/./",
        "/\xee\x80\x80",     /* U+E000 */
        "/\xef\xa3\xbf",     /* U+F8FF */
        "/\xef\xbf\xb0",     /* U+FFF0 */
        "/\xef\xbf\xbd",     /* U+FFFD */
        "/\xf0\x9f\x98\x80", /* an emoji */
        "/\xf3\xbf\xbf\xbf",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(valid(bad[i]));
    }
    assert_false(path_valid(SLICE_NULL));
    assert_false(path_valid(slice_make("/a\0b", 4)));
}

static void malformed_utf8(void **state)
{
    static const char *const bad[] = {
        "/\x80",
        "/\xc3",
        "/\xc3/",
        "/\xc0\xaf",
        "/\xc1\xbf",
        "/\xe0\x80\xaf",
        "/\xe0\x9f\xbf",
        "/\xe4\xb8",
        "/\xed\xa0\x80",
        "/\xed\xbf\xbf",
        "/\xf0\x80\x80",
        "/\xf0\x80\x80\xaf",
        "/\xf5\x80\x80\x80",
        "/\xf4\x90\x80\x80",
        "/\xfe",
        "/\xff",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(valid(bad[i]));
    }
}

static void plausible_paths(void **state)
{
    assert_true(path_plausible(slice_str("/a")));
    assert_true(path_plausible(slice_str("a/b//")));
    assert_false(path_plausible(slice_str("ab")));
    assert_false(path_plausible(slice_str("")));
    assert_false(path_plausible(SLICE_NULL));
    assert_false(path_plausible(slice_make("/a\0b", 4)));
}

static void parts_and_lengths(void **state)
{
    assert_int_equal(path_last_slash(slice_str("/a/bc")), 2);
    assert_int_equal(path_last_slash(slice_str("/a")), 0);
    assert_int_equal(path_last_slash(slice_str("/a/")), 2);
    assert_int_equal(path_chars(slice_str("/\xe4\xb8\xad\xc3\xa9z")), 4);
    assert_true(path_special(slice_str("/zookeeper/quota")));
    assert_true(path_special(slice_str("/zookeeper/config")));
    assert_true(path_special(slice_str("/zookeeper")));
    assert_true(path_special(slice_str("/")));
    assert_false(path_special(slice_str("/zookeeper/other")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_paths),        cmocka_unit_test(bad_paths),
        cmocka_unit_test(malformed_utf8),    cmocka_unit_test(plausible_paths),
        cmocka_unit_test(parts_and_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
