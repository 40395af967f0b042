/* Which bytes are a four-letter word, which words are allowed, and what is said while nobody is served. */
#include "admin/four_letter_words.h"
#include "admin/answers/four_letter_text.h"
#include "admin/answers/process_info.h"
#include "admin/answers/prometheus.h"
#include "admin/http/adminserver_commands.h"
#include "base/json.h"

#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct admin_options options;
static struct view view;
static struct buf out;

static int setup(void **state)
{
    options = admin_options_default();
    view = (struct view){.options = &options, .trace_mask = 306};
    buf_init(&out, 0);
    return 0;
}

static int teardown(void **state)
{
    buf_finish(&out);
    return 0;
}

static int ask(const char *bytes, size_t len)
{
    buf_reset(&out);
    return four_letter_answer(&view, slice_make(bytes, len), &out);
}

static void assert_says(const char *text)
{
    assert_string_equal(buf_cstr(&out), text);
}

static void test_recognised(void **state)
{
    assert_int_equal(ask("\0\0\0\x2c", 4), 0);
    assert_int_equal(ask("srv", 3), 0);
    assert_int_equal(ask("srvx", 4), 0);
    assert_int_equal(ask("SRVR", 4), 0);
    assert_int_equal(ask("srvr", 4), 4);
    assert_says("This ZooKeeper instance is not currently serving requests\n");
    assert_int_equal(ask("srvr\n", 5), 4);
}

static void test_whitelist(void **state)
{
    assert_true(four_letter_allowed(&options, "srvr"));
    assert_true(four_letter_allowed(&options, "memb"));
    assert_false(four_letter_allowed(&options, "sess"));
    assert_false(four_letter_allowed(&options, "ruok"));
    assert_false(four_letter_allowed(&options, "isro"));
    assert_int_equal(ask("mntr", 4), 4);
    assert_says("mntr is not executed because it is not in the whitelist.\n");
    options.memb = false;
    assert_false(four_letter_allowed(&options, "memb"));
    options.words = "srvr,memb";
    assert_true(four_letter_allowed(&options, "memb"));
    options.words = NULL;
    options.read_only_word = true;
    assert_true(four_letter_allowed(&options, "isro"));
    options.words = " ruok , mntr,,xconf, stat ";
    assert_true(four_letter_allowed(&options, "srvr")); /* always */
    assert_true(four_letter_allowed(&options, "ruok"));
    assert_true(four_letter_allowed(&options, "mntr"));
    assert_true(four_letter_allowed(&options, "stat"));
    assert_false(four_letter_allowed(&options, "conf"));
    options.words = "ruok, *";
    assert_true(four_letter_allowed(&options, "conf"));
    options.words = "";
    assert_false(four_letter_allowed(&options, "conf"));
    options.words = "**";
    assert_false(four_letter_allowed(&options, "conf"));
}

/* Nobody is served: only what needs no server is answered. */
static void test_not_serving(void **state)
{
    static const char *const NEEDS[] = {"ruok", "srvr", "stat", "cons", "conf",
                                        "dirs", "wchs", "wchc", "wchp", "dump",
                                        "mntr", "srst", "crst", "hash", "sess"};
    options.words = "*";
    assert_int_equal(ask("memb", 4), 4);
    assert_says("state\tstarting\n");
    for (size_t i = 0; i < sizeof NEEDS / sizeof NEEDS[0]; i++) {
        assert_int_equal(ask(NEEDS[i], 4), 4);
        assert_says("This ZooKeeper instance is not currently serving requests\n");
    }
    assert_int_equal(ask("isro", 4), 4);
    assert_says("null");
    assert_int_equal(ask("envi", 4), 4);
    assert_memory_equal(out.data, "Environment:\nzookeeper.version=3.9.", 35);
    buf_reset(&out);
    prometheus_write(&view, &out);
    assert_non_null(strstr(buf_cstr(&out), "conclave_ready 0\n"));
}

static void test_trace_mask(void **state)
{
    options.words = "*";
    assert_int_equal(ask("gtmk", 4), 4);
    assert_says("306");
    assert_int_equal(ask("stmk", 4), -1);
    assert_int_equal(ask("stmk\0\0\0\0\0\0\0", 11), -1);
    assert_int_equal(out.len, 0);
    assert_int_equal(ask("stmk\xff\xff\xff\xff\xff\xff\xff\xfe", 12), 12);
    assert_says("-2");
    assert_int_equal(ask("gtmk", 4), 4);
    assert_says("-2");
}

static void test_commands(void **state)
{
    commands_run(&view, "nope\"<", NULL, &out);
    assert_says(
        "{\n  \"command\" : \"nope\\\"<\",\n  \"error\" : \"Unknown command: nope\\\"<\"\n}");
    buf_reset(&out);
    commands_run(&view, "srvr", NULL, &out);
    assert_says(
        "{\n  \"command\" : \"server_stats\",\n  \"error\" : \"This ZooKeeper instance is not "
        "currently serving requests\"\n}");
    buf_reset(&out);
    commands_run(&view, "stmk", NULL, &out);
    assert_non_null(strstr(buf_cstr(&out), "\"setTraceMask requires long traceMask argument\""));
    buf_reset(&out);
    commands_run(&view, "set_trace_mask", "12x", &out);
    assert_non_null(strstr(buf_cstr(&out), "argument, got 12x\""));
    buf_reset(&out);
    commands_run(&view, "set_trace_mask", "-12", &out);
    assert_says(
        "{\n  \"tracemask\" : -12,\n  \"command\" : \"set_trace_mask\",\n  \"error\" : null\n}");
}

/* Datadog, kazoo and the AdminServer's readers look for this in the version. */
static void test_version(void **state)
{
    regex_t form;
    assert_int_equal(
        regcomp(&form,
                "^3\\.[0-9]+\\.[0-9]+-[^,]+, built on 20[0-9]{2}-(0[1-9]|1[0-2])-[0-3][0-9] "
                "[0-2][0-9]:[0-5][0-9] UTC$",
                REG_EXTENDED | REG_NOSUB),
        0);
    assert_int_equal(regexec(&form, process_info_version(), 0, NULL, 0), 0);
    regfree(&form);
}

static void test_fractions(void **state)
{
    static const struct {
        double value;
        const char *text;
    } ROWS[] = {{0, "0.0"},          {1, "1.0"},     {0.25, "0.25"},
                {2.0 / 3, "0.6667"}, {10.5, "10.5"}, {100, "100.0"}};
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        buf_reset(&out);
        real_append(&out, ROWS[i].value, 4);
        assert_says(ROWS[i].text);
    }
}

static void test_operations(void **state)
{
    assert_string_equal(view_operation(WIRE_GET_CHILDREN2), "GETC");
    assert_string_equal(view_operation(WIRE_CREATE_TTL), "CREA");
    assert_string_equal(view_operation(WIRE_CREATE_SESSION), "SESS");
    assert_string_equal(view_operation(CONNECTION_NO_TYPE), "NA");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_recognised, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whitelist, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_serving, setup, teardown),
        cmocka_unit_test_setup_teardown(test_trace_mask, setup, teardown),
        cmocka_unit_test_setup_teardown(test_commands, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fractions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_operations, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
