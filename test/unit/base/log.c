/* Log lines: the formats, the levels, one line whatever the values hold, a long one cut, repeats counted. */
#include "base/log.h"

#include "base/clock.h"
#include "base/refusals.h"

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
    log_advise(LOG_WARN, "net", "closed", NULL, "fd=%d id=0x%llx", 7, 0x1fULL);
    log_debug("net", "hidden", "%s", "");
    log_advise(LOG_ERROR, "net", "bare", NULL, "%s", "");
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
    log_advise(LOG_WARN, "net", "hidden", NULL, "%s", "");
    assert_int_equal(capture_end(text, sizeof text), 0);
    log_set_level(LOG_DEBUG);
    capture_begin();
    log_debug("net", "shown", "%s", "");
    assert_true(capture_end(text, sizeof text) > 0);
    log_set_level(LOG_INFO);
}

/* --- formats ---------------------------------------------------------------------------------- */

static int64_t at_ms;

static int64_t fake_ns(void *ctx)
{
    return at_ms * 1000000;
}

static int64_t fake_ms(void *ctx)
{
    return at_ms;
}

static const struct clock_source fake_clock = {fake_ns, fake_ms, NULL};

static const char *volatile nobody; /* NULL, unknown to the compiler */

static void log_stranger(void)
{
    log_warn_advice("server", "auth-failed", "say \"hello\"",
                    "peer=%s bare=%s reason=\"%s\" n=%d big=%llu hex=0x%llx part=%.*s none=%s",
                    "1.2.3.4:5", "two words", "x\" forged=\"1\\\n\x1b\xff", -7, 1ULL << 60, 0x1fULL,
                    2, "abcd", nobody);
}

#define STRANGER                                                                                   \
    "peer=1.2.3.4:5 bare=\"two words\" reason=\"x\\\" forged=\\\"1\\\\\\n\\x1b\\xff\" n=-7 "       \
    "big=1152921504606846976 hex=0x1f part=ab none=(none)"

static void test_text_and_journald(void **state)
{
    char text[8192];
    at_ms = 1769860800123; /* 2026-01-31T12:00:00.123Z */
    log_set_clock(&fake_clock);
    capture_begin();
    log_stranger();
    log_set_format(LOG_JOURNALD);
    log_stranger();
    log_always("server", "started", "id=%d", 1);
    log_set_format(LOG_TEXT);
    log_set_clock(NULL);
    capture_end(text, sizeof text);
    assert_string_equal(text, "2026-01-31T12:00:00.123Z warn  server: auth-failed " STRANGER
                              " advice=\"say \\\"hello\\\"\"\n"
                              "<4>server: auth-failed " STRANGER " advice=\"say \\\"hello\\\"\"\n"
                              "<5>server: started id=1\n");
}

static void test_json(void **state)
{
    char text[8192];
    at_ms = 1769860800123;
    log_set_clock(&fake_clock);
    log_set_format(LOG_JSON);
    capture_begin();
    log_stranger();
    log_info("replication", "joined", "%s", "from the others last_index=7");
    log_set_format(LOG_TEXT);
    log_set_clock(NULL);
    capture_end(text, sizeof text);
    assert_string_equal(
        text,
        "{\"time\":\"2026-01-31T12:00:00.123Z\",\"level\":\"warn\",\"area\":\"server\","
        "\"message\":\"auth-failed\",\"advice\":\"say \\\"hello\\\"\",\"fields\":{\"peer\":\"1.2.3.4:5\","
        "\"bare\":\"two words\",\"reason\":\"x\\\" forged=\\\"1\\\\\\n\\u001b\\ufffd\",\"n\":-7,"
        "\"big\":\"1152921504606846976\",\"hex\":\"0x1f\",\"part\":\"ab\",\"none\":\"(none)\"}}\n"
        "{\"time\":\"2026-01-31T12:00:00.123Z\",\"level\":\"info\",\"area\":\"replication\","
        "\"message\":\"joined from the others\",\"advice\":null,\"fields\":{\"last_index\":7}}\n");
}

/* A cut value keeps its closing quote, so that the advice stays readable. */
static void test_cut_value(void **state)
{
    static char longer[5000];
    char text[8192];
    memset(longer, '"', sizeof longer - 1); /* each is escaped: two bytes */
    for (size_t cut = 0; cut < 4; cut++) {
        longer[3000 + cut] = '\0';
        capture_begin();
        log_warn_advice("wire", "long", "less", "%.*sv=\"%s\"", (int)cut, "aaaa", longer);
        size_t n = capture_end(text, sizeof text);
        longer[3000 + cut] = '"';
        assert_true(n <= LOG_LINE_MAX);
        assert_string_equal(text + n - strlen("\\\"\" advice=\"less\"\n"),
                            "\\\"\" advice=\"less\"\n");
    }
}

static void test_names(void **state)
{
    enum log_level level = LOG_INFO;
    enum log_format format = LOG_TEXT;
    char text[8192];
    assert_true(log_level_find("notice", &level) && level == LOG_NOTICE);
    assert_true(log_format_find("journald", &format) && format == LOG_JOURNALD);
    assert_false(log_level_find("silent", &level) || log_level_find("", &level));
    assert_false(log_format_find("JSON", &format));
    log_set_level(LOG_ERROR);
    capture_begin();
    log_always("server", "started", "id=%d", 1);
    assert_true(capture_end(text, sizeof text) > 0);
    log_set_level(LOG_SILENT);
    capture_begin();
    log_always("server", "stopped", "id=%d", 1);
    log_error_advice("server", "failed", "mend it", "id=%d", 1);
    assert_int_equal(capture_end(text, sizeof text), 0);
    log_set_level(LOG_INFO);
}

/* --- repeats ---------------------------------------------------------------------------------- */

static size_t lines_of(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++) {
        n += *text == '\n';
    }
    return n;
}

static void fail_from(const char *who, const char *why)
{
    log_cause(LOG_WARN, "server", "auth-failed", who, why, "mend it", "peer=%s why=%s", who, why);
}

static void test_repeats_are_counted(void **state)
{
    static char text[1 << 16];
    at_ms = 1000;
    log_set_clock(&fake_clock);
    capture_begin();
    for (int i = 0; i < 58; i++) {
        fail_from("10.0.0.1", "password");
        at_ms += 10;
    }
    fail_from("10.0.0.2", "password");
    fail_from("10.0.0.1", "scheme");
    at_ms = 1000 + REFUSALS_MINUTE_MS - 1;
    log_tick();
    size_t n = capture_end(text, sizeof text);
    assert_int_equal(lines_of(text), 3);
    capture_begin();
    at_ms++;
    log_tick();
    log_tick();
    n = capture_end(text, sizeof text);
    assert_true(n > 0);
    assert_int_equal(lines_of(text), 1);
    assert_non_null(strstr(text, "warn  server: auth-failed who=\"10.0.0.1\" count=57 in_s=60 "
                                 "text=\"57 times more in the last 60 s\" advice="));
    /* A new minute begins with a line; what is not told yet is told at the end. */
    capture_begin();
    fail_from("10.0.0.1", "password");
    fail_from("10.0.0.1", "password");
    log_finish();
    log_set_clock(NULL);
    capture_end(text, sizeof text);
    assert_int_equal(lines_of(text), 2);
    assert_non_null(strstr(text, "count=1 in_s=60"));
}

static void test_strangers_do_not_fill_the_disk(void **state)
{
    static char text[1 << 20];
    at_ms = 1000;
    log_set_clock(&fake_clock);
    capture_begin();
    for (int i = 0; i < 100000; i++) {
        char who[32];
        snprintf(who, sizeof who, "10.%d.%d.%d", i >> 16, i >> 8 & 255, i & 255);
        fail_from(who, "password");
        fail_from(who, "password");
    }
    at_ms += REFUSALS_MINUTE_MS;
    log_tick();
    size_t n = capture_end(text, sizeof text);
    assert_true(n < sizeof text - 1);
    /* Each told one has a line and its count; one line has the rest. */
    assert_int_equal(lines_of(text), 2 * LOG_CAUSES_PER_MINUTE + 1);
    char lost[64];
    snprintf(lost, sizeof lost, "lines-dropped count=%d ", 2 * (100000 - LOG_CAUSES_PER_MINUTE));
    assert_non_null(strstr(text, lost));
    capture_begin();
    fail_from("10.0.0.1", "password");
    log_finish();
    log_set_clock(NULL);
    assert_true(capture_end(text, sizeof text) > 0);
    assert_int_equal(lines_of(text), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_values_cannot_forge_a_line),
        cmocka_unit_test(test_long_line_is_cut),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_text_and_journald),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_cut_value),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_repeats_are_counted),
        cmocka_unit_test(test_strangers_do_not_fill_the_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
