/* Hex digits: both of each byte, lower case, with an end; nothing behind it changes. */
#include "base/hex.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_every_byte(void **state)
{
    (void)state;
    for (int i = 0; i < 256; i++) {
        const uint8_t byte = (uint8_t)i;
        char text[4] = "???";
        char expected[3];
        (void)snprintf(expected, sizeof expected, "%02x", (unsigned)i);
        hex_encode(&byte, 1, text);
        assert_string_equal(text, expected);
        assert_int_equal(text[3], '\0');
    }
}

static void test_several_bytes_and_none(void **state)
{
    (void)state;
    const uint8_t bytes[] = {0xde, 0xad, 0x00, 0x0f};
    char text[10];
    memset(text, '?', sizeof text);
    hex_encode(bytes, sizeof bytes, text);
    assert_string_equal(text, "dead000f");
    assert_int_equal(text[9], '?');
    hex_encode(bytes, 0, text);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_several_bytes_and_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
