/* Addresses and requests of a switch's members: what is written is read, and what others wrote is
 * no trouble. */
#include "cli/switch/member_description.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void an_address_is_read_as_it_was_written(void **state)
{
    struct address a = {.host = "db1", .port = 5432, .data = slice_str("rack=3\n\nmore")};
    struct address read;
    struct buf text;
    buf_init(&text, 0);
    address_write(&text, ADDRESS_NATIVE, &a);
    address_read(text.data, text.len, &read);
    assert_string_equal(read.host, "db1");
    assert_int_equal(read.port, 5432);
    assert_true(slice_equal(read.data, a.data));
    buf_finish(&text);
}

static void hadoops_message_has_hadoops_fields(void **state)
{
    static const char expected[] = "\x0a\x02ns\x12\x03nn1\x1a\x01h\x20\xd4\x3e\x28\xd3\x3e";
    struct address a = {
        .id = "nn1", .host = "h", .port = 8020, .service = "ns", .failover_port = 8019};
    struct address read;
    struct buf text;
    buf_init(&text, 0);
    address_write(&text, ADDRESS_HDFS, &a);
    assert_int_equal(text.len, sizeof expected - 1);
    assert_memory_equal(text.data, expected, text.len);
    address_read(text.data, text.len, &read);
    assert_string_equal(read.id, "nn1");
    assert_string_equal(read.host, "h");
    assert_int_equal(read.port, 8020);
    buf_finish(&text);
}

/* Any beginning, any byte: nothing is read beyond the end, and something comes out. */
static void what_others_wrote_is_data(void **state)
{
    static const char hadoop[] = "\x0a\x02ns\x12\x03nn1\x1a\x01h\x20\xd4\x3e\x28\xd3\x3e";
    struct address read;
    for (size_t len = 0; len < sizeof hadoop; len++) {
        char copy[sizeof hadoop];
        memcpy(copy, hadoop, len);
        address_read(copy, len, &read);
        assert_int_equal(read.data.len, len);
    }
    address_read("\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7fx", 11, &read);
    assert_string_equal(read.id, "");
    address_read("host=\nport=99999999999999999999999999\n", 38, &read);
    assert_string_equal(read.host, "");
    assert_int_equal(read.port, 0);
    address_read("something else", 14, &read);
    assert_string_equal(read.host, "");
    assert_int_equal(read.data.len, 14);
    address_read(NULL, 0, &read);
    assert_int_equal(read.data.len, 0);
}

static void a_request_without_a_token_is_none(void **state)
{
    struct switch_request request = {.token = 41, .stay_out_ms = 30000};
    struct switch_request read;
    struct buf text;
    buf_init(&text, 0);
    request_write(&text, &request);
    assert_true(request_read(text.data, text.len, &read));
    assert_int_equal(read.token, 41);
    assert_int_equal(read.stay_out_ms, 30000);
    assert_false(request_read("token=0\n", 8, &read));
    assert_false(request_read("token=x\n", 8, &read));
    assert_false(request_read("", 0, &read));
    buf_reset(&text);
    request = (struct switch_request){.to = "a", .observer = true};
    request_write(&text, &request);
    assert_true(request_read(text.data, text.len, &read));
    assert_string_equal(read.to, "a");
    assert_true(read.observer);
    assert_true(request_read("to=a\nrole=standby\n", 18, &read));
    assert_false(read.observer);
    assert_false(request_read("to=a\nrole=king\n", 15, &read));
    assert_false(request_read("to=a\n", 5, &read));
    buf_finish(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_read_as_it_was_written),
        cmocka_unit_test(hadoops_message_has_hadoops_fields),
        cmocka_unit_test(what_others_wrote_is_data),
        cmocka_unit_test(a_request_without_a_token_is_none),
    };
    return cmocka_run_group_tests_name("switch_card", tests, NULL, NULL);
}
