/* The server's configuration, as operators see it: everything except secrets. */
#include "daemon/effective_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_keys(void **state)
{
    struct effective_config g;
    effective_config_init(&g);
    assert_int_equal(effective_config_note(&g, "tickTime", "2000"), 0);
    assert_int_equal(effective_config_note(&g, "ssl.keyStore.password", "sesame"), 0);
    assert_int_equal(effective_config_note(&g, "ssl.keyStore.passwordPath", "/etc/pw"), 0);
    assert_int_equal(
        effective_config_note(&g, "DigestAuthenticationProvider.superDigest", "super:x="), 0);
    assert_int_equal(
        effective_config_note(&g, "SASLAuthenticationProvider.superPassword", "sesame"), 0);
    assert_int_equal(effective_config_note(&g, "tickTime", "500"), 0);
    assert_int_equal(g.count, 5);
    assert_string_equal(g.pairs[0].value, "500");
    assert_string_equal(g.pairs[1].value, GIVEN_HIDDEN);
    assert_string_equal(g.pairs[2].value, "/etc/pw");
    assert_string_equal(g.pairs[3].value, GIVEN_HIDDEN);
    assert_string_equal(g.pairs[4].value, GIVEN_HIDDEN);
    effective_config_finish(&g);
}

static void test_file(void **state)
{
    static const struct {
        const char *text;
        const char *shown;
    } rows[] = {
        {"", ""},
        {"a=b", "a=b"},
        {"# ssl.keyStore.password is elsewhere\na=b\r\n",
         "# ssl.keyStore.password is elsewhere\na=b\r\n"},
        {"ssl.keyStore.password=sesame\na=b\n", "ssl.keyStore.password=***\na=b\n"},
        {"  superDigest : super:sesame\n", "  superDigest : ***\n"},
        {"SSL.KEYSTORE.PASSWORD sesame", "SSL.KEYSTORE.PASSWORD ***"},
        {"ssl.trustStore.password=ses\\\n  ame\na=b\\\n c\n",
         "ssl.trustStore.password=***\na=b\\\n c\n"},
        {"ssl.trustStore.password=ses\\\\\na=b\n", "ssl.trustStore.password=***\na=b\n"},
        {"ssl.keyStore.pass\\u0077ord=sesame\n", "ssl.keyStore.pass\\u0077ord=***\n"},
        {"ssl.keyStore.password=\\\nsesame", "ssl.keyStore.password=***\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct effective_config g;
        effective_config_init(&g);
        assert_int_equal(effective_config_note_file(&g, slice_str(rows[i].text)), 0);
        assert_string_equal(buf_cstr(&g.file), rows[i].shown);
        effective_config_finish(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
