/* Log lines: the form, the level, one line whatever the values hold, a long one cut. */
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int saved = -1;
static FILE *captured;

static void capture_begin(void)
{
    captured = tmpfile();
    assert_non_null(captured);
    saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_true(dup2(fileno(captured), STDERR_FILENO) >= 0);
}

static size_t capture_end(char *ret, size_t cap)
{
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    rewind(captured);
    size_t n = fread(ret, 1, cap - 1, captured);
    ret[n] = '\0';
    fclose(captured);
    return n;
}

static void test_form(void **state)
{
    char text[8192];
    capture_begin();
    log_warn("net", "closed", "fd=%d id=0x%llx", 7, 0x1fULL);
    log_debug("net", "hidden", "%s", "");
    log_error("net", "bare", "%s", "");
    capture_end(text, sizeof text);
    int year, month, day, hour, minute, second, ms, end = 0;
    assert_int_equal(sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ %n", &year, &month, &day, &hour,
                            &minute, &second, &ms, &end),
                     7);
    assert_string_equal(strchr(text, ' '), text + end - 1);
    char *second_line = strchr(text, '\n') + 1;
    second_line[-1] = '\0';
    assert_string_equal(text + end, "warn  net: closed fd=7 id=0x1f");
    assert_string_equal(strchr(second_line, ' '), " error net: bare\n");
}

static void test_values_cannot_forge_a_line(void **state)
{
    char text[8192];
    capture_begin();
    log_info("wire", "request", "path=%s", "/a\n2026-01-01T00:00:00.000Z error\x1b[31m \x7f\t");
    size_t n = capture_end(text, sizeof text);
    for (size_t i = 0; i < n - 1; i++) {
        assert_true((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
    }
    assert_int_equal(text[n - 1], '\n');
}

static void test_long_line_is_cut(void **state)
{
    static char longer[5000];
    memset(longer, 'x', sizeof longer - 1);
    for (size_t cut = 0; cut < 200; cut++) {
        char text[8192];
        longer[1900 + cut] = '\0';
        capture_begin();
        log_info("wire", "long", "v=%s", longer);
        size_t n = capture_end(text, sizeof text);
        longer[1900 + cut] = 'x';
        assert_true(n <= 2048);
        assert_int_equal(text[n - 1], '\n');
        assert_int_equal(text[n - 2], 'x');
        assert_ptr_equal(strchr(text, '\n'), text + n - 1);
    }
    char text[8192];
    capture_begin();
    log_info("wire", longer, "v=%d", 1);
    size_t n = capture_end(text, sizeof text);
    assert_int_equal(text[n - 1], '\n');
    assert_true(n <= 2048);
}

static void test_levels(void **state)
{
    char text[8192];
    log_set_level(LOG_ERROR);
    capture_begin();
    log_warn("net", "hidden", "%s", "");
    assert_int_equal(capture_end(text, sizeof text), 0);
    log_set_level(LOG_DEBUG);
    capture_begin();
    log_debug("net", "shown", "%s", "");
    assert_true(capture_end(text, sizeof text) > 0);
    log_set_level(LOG_INFO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_values_cannot_forge_a_line),
        cmocka_unit_test(test_long_line_is_cut),
        cmocka_unit_test(test_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
