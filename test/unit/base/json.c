/* The JSON writer: commas, escapes, bytes that are not UTF-8, base64, and trouble with the
 * output. */
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Prints into memory; free it. */
static char *printed(struct json *j)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    assert_non_null(file);
    assert_int_equal(json_print(j, file), 0);
    fclose(file);
    return text;
}

static void assert_prints(struct json *j, const char *want)
{
    char *text = printed(j);
    assert_string_equal(text, want);
    free(text);
}

static void test_members(void **state)
{
    struct json j;
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    assert_non_null(file);
    json_line_begin(&j);
    json_member_string(&j, "s", "x");
    json_member_string_or_null(&j, "n", "");
    json_member_string_or_null(&j, "m", NULL);
    json_member_string_or_null(&j, "o", "y");
    json_member_text(&j, "t", slice_str("z"));
    json_member_int(&j, "i", -1);
    json_member_uint(&j, "u", UINT64_MAX);
    json_member_bool(&j, "b", true);
    json_member_hex(&j, "h", 31);
    json_member_null(&j, "e");
    assert_int_equal(json_line_print(&j, file), 0);
    fclose(file);
    assert_string_equal(text, "{\"s\":\"x\",\"n\":null,\"m\":null,\"o\":\"y\",\"t\":\"z\",\"i\":-1,"
                              "\"u\":18446744073709551615,\"b\":true,\"h\":\"0x1f\",\"e\":null}\n");
    free(text);
}

static void test_shapes(void **state)
{
    struct json j;
    json_init(&j);
    json_object_begin(&j);
    json_key(&j, "a");
    json_int(&j, INT64_MIN);
    json_key(&j, "b");
    json_array_begin(&j);
    json_bool(&j, true);
    json_bool(&j, false);
    json_null(&j);
    json_ready(&j, slice_str("{\"x\":1}"));
    json_object_begin(&j);
    json_object_end(&j);
    json_array_begin(&j);
    json_array_end(&j);
    json_array_end(&j);
    json_key(&j, "c");
    json_hex(&j, -1);
    json_object_end(&j);
    assert_prints(&j, "{\"a\":-9223372036854775808,\"b\":[true,false,null,{\"x\":1},{},[]],"
                      "\"c\":\"0xffffffffffffffff\"}\n");
    json_int(&j, 1);
    assert_prints(&j, "1\n");
    json_finish(&j);
}

static void test_list(void **state)
{
    struct json j;
    char text[32];
    FILE *file = tmpfile();
    assert_non_null(file);
    json_list_begin(&j, "all");
    json_int(&j, 1);
    json_int(&j, 2);
    assert_int_equal(json_list_print(&j, file), 0);
    rewind(file);
    assert_non_null(fgets(text, sizeof text, file));
    assert_string_equal(text, "{\"all\":[1,2]}\n");
    fclose(file);
}

static void test_pretty(void **state)
{
    struct json j;
    json_init_pretty(&j);
    json_object_begin(&j);
    json_key(&j, "list");
    json_array_begin(&j);
    json_object_begin(&j);
    json_key(&j, "a");
    json_uint(&j, UINT64_MAX);
    json_key(&j, "b");
    json_array_begin(&j);
    json_string(&j, "x");
    json_string(&j, "y");
    json_array_end(&j);
    json_object_end(&j);
    json_object_begin(&j);
    json_object_end(&j);
    json_array_end(&j);
    json_key(&j, "none");
    json_array_begin(&j);
    json_array_end(&j);
    json_key(&j, "real");
    json_array_begin(&j);
    json_real(&j, 0, 4);
    json_real(&j, 1.25, 4);
    json_real(&j, 10, 1);
    json_real(&j, 2.0 / 3, 4);
    json_array_end(&j);
    json_object_end(&j);
    assert_prints(&j, "{\n"
                      "  \"list\" : [ {\n"
                      "    \"a\" : 18446744073709551615,\n"
                      "    \"b\" : [ \"x\", \"y\" ]\n"
                      "  }, { } ],\n"
                      "  \"none\" : [ ],\n"
                      "  \"real\" : [ 0.0, 1.25, 10.0, 0.6667 ]\n"
                      "}\n");
    json_finish(&j);
}

static void test_escapes(void **state)
{
    struct json j;
    json_init(&j);
    json_text(&j, slice_make("\0\x01\b\t\n\f\r\"\\/\x1f\x7f\xc3\xa9", 14));
    assert_prints(&j, "\"\\u0000\\u0001\\b\\t\\n\\f\\r\\\"\\\\/\\u001f\\u007f\xc3\xa9\"\n");
    json_text(&j, slice_make("a\xff\xc3z\xe2\x82", 6));
    assert_prints(&j, "\"a\\ufffd\\ufffdz\\ufffd\\ufffd\"\n");
    json_finish(&j);
}

static void test_utf8(void **state)
{
    static const char *const GOOD[] = {"",
                                       "a",
                                       "\xc2\x80",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const BAD[] = {"\x80",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xc2",
                                      "\xe2\x82",
                                      "a\xff"};
    for (size_t i = 0; i < sizeof GOOD / sizeof GOOD[0]; i++) {
        assert_true(utf8_valid(slice_str(GOOD[i])));
    }
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        assert_false(utf8_valid(slice_str(BAD[i])));
    }
}

static void assert_data(const void *data, size_t len, const char *want)
{
    struct json j;
    json_init(&j);
    json_object_begin(&j);
    json_data(&j, data, len);
    json_object_end(&j);
    assert_prints(&j, want);
    json_finish(&j);
}

static void test_data(void **state)
{
    assert_data(NULL, 0, "{\"data\":null}\n");
    assert_data("", 0, "{\"data\":\"\"}\n");
    assert_data("x\n", 2, "{\"data\":\"x\\n\"}\n");
    assert_data("\xff", 1, "{\"data_base64\":\"/w==\"}\n");
    assert_data("\xff\xfe", 2, "{\"data_base64\":\"//4=\"}\n");
    assert_data("\xff\xfe\xfb", 3, "{\"data_base64\":\"//77\"}\n");
    assert_data("\x80M\0n", 4, "{\"data_base64\":\"gE0Abg==\"}\n");
}

static void test_full_device(void **state)
{
    struct json j;
    FILE *file = fopen("/dev/full", "w");
    assert_non_null(file);
    json_init(&j);
    json_null(&j);
    assert_int_equal(json_print(&j, file), CONCLAVE_EIO);
    json_finish(&j);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),  cmocka_unit_test(test_pretty),
        cmocka_unit_test(test_escapes), cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_data),    cmocka_unit_test(test_full_device),
        cmocka_unit_test(test_list),    cmocka_unit_test(test_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
