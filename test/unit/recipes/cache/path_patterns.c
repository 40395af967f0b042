/* Which paths a cache's patterns select. */
#include "recipes/cache/path_patterns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static bool take(const char *only, const char *without, const char *path)
{
    char *only_list[] = {(char *)(uintptr_t)only};
    char *without_list[] = {(char *)(uintptr_t)without};
    struct path_patterns patterns = {only_list, only == NULL ? 0 : 1, without_list,
                                     without == NULL ? 0 : 1};
    return path_patterns_take(&patterns, path);
}

static void only_keeps_what_matches_above_and_below(void **state)
{
    assert_true(take("a/b*", NULL, ""));
    assert_true(take("a/b*", NULL, "a"));
    assert_true(take("a/b*", NULL, "a/b"));
    assert_true(take("a/b*", NULL, "a/bcd/e/f"));
    assert_false(take("a/b*", NULL, "a/c"));
    assert_false(take("a/b*", NULL, "b"));
    assert_false(take("a/b*", NULL, "ab"));
    assert_true(take("*/x", NULL, "any"));
    assert_false(take("*/x", NULL, "any/y"));
}

static void without_leaves_out_what_matches_and_below(void **state)
{
    assert_true(take(NULL, "*/tmp", "tmp"));
    assert_false(take(NULL, "*/tmp", "a/tmp"));
    assert_false(take(NULL, "*/tmp", "a/tmp/b"));
    assert_true(take(NULL, "*/tmp", "a/tmpx"));
    assert_true(take(NULL, "*", ""));
    assert_false(take("a", "a/b", "a/b"));
    assert_true(take("a", "a/b", "a/c"));
}

static void stars_and_question_marks(void **state)
{
    assert_true(take("a*b*c", NULL, "abc"));
    assert_true(take("a*b*c", NULL, "axxbxbxc"));
    assert_false(take("a*b*c", NULL, "axxbxbx"));
    assert_false(take("a*b", NULL, "a/b"));
    assert_true(take("?", NULL, "*"));
    assert_false(take("?", NULL, "ab"));
    assert_false(take("a?", NULL, "a"));
    assert_true(take("**", NULL, "a"));
}

static void patterns_without_empty_names(void **state)
{
    assert_true(path_pattern_valid("a/*/c"));
    assert_false(path_pattern_valid(""));
    assert_false(path_pattern_valid("/a"));
    assert_false(path_pattern_valid("a/"));
    assert_false(path_pattern_valid("a//b"));
    assert_false(path_pattern_valid(NULL));
}

static void names_of_a_path(void **state)
{
    assert_true(path_depth_within("", 0));
    assert_false(path_depth_within("", -1));
    assert_false(path_depth_within("a", 0));
    assert_true(path_depth_within("a/b", 2));
    assert_false(path_depth_within("a/b/c", 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_keeps_what_matches_above_and_below),
        cmocka_unit_test(without_leaves_out_what_matches_and_below),
        cmocka_unit_test(stars_and_question_marks),
        cmocka_unit_test(patterns_without_empty_names),
        cmocka_unit_test(names_of_a_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
