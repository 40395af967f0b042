/* The texts of an elector's nodes: both layouts, and what others wrote. */
#include "recipes/standby/breadcrumb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A copy with room for the NUL, of exactly the size that breadcrumb_read may touch. */
static char *copy(const void *bytes, size_t len)
{
    char *text = malloc(len + 1);
    assert_non_null(text);
    memcpy(text, bytes, len);
    return text;
}

static void round_trip(enum conclave_elector_layout layout, const void *data, size_t len)
{
    struct conclave_breadcrumb crumb = {.id = "node-1",
                                        .incarnation = "abc",
                                        .token = {42},
                                        .clean = true,
                                        .data = data,
                                        .data_len = len};
    struct conclave_breadcrumb read;
    struct buf text;
    buf_init(&text, 0);
    breadcrumb_write(&text, layout, &crumb);
    assert_true(buf_ok(&text));
    char *bytes = copy(text.data, text.len);
    breadcrumb_read(bytes, text.len, &read);
    assert_string_equal(read.id, "node-1");
    assert_string_equal(read.incarnation, "abc");
    assert_int_equal(read.token.czxid, 42);
    assert_true(read.clean);
    assert_int_equal(read.data_len, len);
    assert_memory_equal(read.data, data, len);
    free(bytes);
    buf_finish(&text);
}

/* ActiveNodeInfo{nameserviceId "ns", namenodeId "nn1", hostname "h", port 8020, zkfcPort 8019} */
static const char hadoop[] = "\x0a\x02ns\x12\x03nn1\x1a\x01h\x20\xd4\x3e\x28\xd3\x3e";

static void what_is_written_can_be_read(void **state)
{
    round_trip(CONCLAVE_ELECTOR_LAYOUT_NATIVE, "data\n\nwith lines", 16);
    round_trip(CONCLAVE_ELECTOR_LAYOUT_NATIVE, "", 0);
    round_trip(CONCLAVE_ELECTOR_LAYOUT_HADOOP, hadoop, sizeof hadoop - 1);
    round_trip(CONCLAVE_ELECTOR_LAYOUT_HADOOP, "", 0);
}

static void hadoops_message_begins_with_hadoops_fields(void **state)
{
    struct conclave_breadcrumb crumb = {
        .id = "a", .incarnation = "b", .data = hadoop, .data_len = sizeof hadoop - 1};
    struct buf text;
    buf_init(&text, 0);
    breadcrumb_write(&text, CONCLAVE_ELECTOR_LAYOUT_HADOOP, &crumb);
    assert_memory_equal(text.data, hadoop, sizeof hadoop - 1);
    /* field 2047, bytes: (2047 << 3 | 2) as a varint */
    assert_memory_equal(text.data + sizeof hadoop - 1, "\xfa\x7f", 2);
    buf_finish(&text);
}

static void foreign_is(const void *bytes, size_t len)
{
    struct conclave_breadcrumb read;
    char *text = copy(bytes, len);
    breadcrumb_read(text, len, &read);
    assert_string_equal(read.id, "");
    assert_string_equal(read.incarnation, "");
    assert_int_equal(read.token.czxid, 0);
    assert_false(read.clean);
    assert_int_equal(read.data_len, len);
    free(text);
}

static void what_others_wrote_is_data_of_nobody_known(void **state)
{
    foreign_is("", 0);
    foreign_is(hadoop, sizeof hadoop - 1);
    foreign_is("host:1234", 9);
    foreign_is("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11);
    foreign_is("\x0a\x7f"
               "short",
               7);
    foreign_is("\xfa\x7f\x03"
               "abc",
               6);
}

/* Cut off anywhere it is foreign, or has the same names: nothing half-read, nothing beyond the end. */
static void a_text_cut_off_anywhere(void **state)
{
    struct conclave_breadcrumb crumb = {.id = "node-1",
                                        .incarnation = "abc",
                                        .token = {77},
                                        .data = hadoop,
                                        .data_len = sizeof hadoop - 1};
    for (int layout = 0; layout <= CONCLAVE_ELECTOR_LAYOUT_HADOOP; layout++) {
        struct buf text;
        buf_init(&text, 0);
        breadcrumb_write(&text, (enum conclave_elector_layout)layout, &crumb);
        for (size_t len = 0; len < text.len; len++) {
            struct conclave_breadcrumb read;
            char *bytes = copy(text.data, len);
            breadcrumb_read(bytes, len, &read);
            assert_true(read.id[0] == '\0' ||
                        (strcmp(read.id, "node-1") == 0 && read.token.czxid == 77));
            free(bytes);
        }
        buf_finish(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_can_be_read),
        cmocka_unit_test(hadoops_message_begins_with_hadoops_fields),
        cmocka_unit_test(what_others_wrote_is_data_of_nobody_known),
        cmocka_unit_test(a_text_cut_off_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
