/* Subjects as text: the same as Java's X500Principal.getName gives for them. */
#include "tls/certificate_name.h"

#include <openssl/objects.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct part {
    const char *attribute;
    int type;
    const char *value;
    int len; /* -1: of the string */
    int set; /* 0: a part of its own, -1: joins the one before */
};

static void expect(const struct part *parts, size_t count, const char *wanted)
{
    X509_NAME *name = X509_NAME_new();
    struct buf out;
    buf_init(&out, 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(X509_NAME_add_entry_by_txt(name, parts[i].attribute, parts[i].type,
                                                    (const unsigned char *)parts[i].value,
                                                    parts[i].len, -1, parts[i].set),
                         1);
    }
    certificate_name_print(name, &out);
    assert_true(buf_ok(&out));
    assert_string_equal(buf_cstr(&out), wanted);
    buf_finish(&out);
    X509_NAME_free(name);
}

#define UTF8(attribute, value)                                                                     \
    {                                                                                              \
        attribute, V_ASN1_UTF8STRING, value, -1, 0                                                 \
    }
#define EXPECT(wanted, ...)                                                                        \
    do {                                                                                           \
        const struct part parts[] = {__VA_ARGS__};                                                 \
        expect(parts, sizeof parts / sizeof parts[0], wanted);                                     \
    } while (0)

static void test_order(void **state)
{
    EXPECT("CN=a", UTF8("CN", "a"));
    EXPECT("CN=c,OU=b,O=a", UTF8("O", "a"), UTF8("OU", "b"), UTF8("CN", "c"));
    EXPECT("CN=x,DC=example,DC=org", {"DC", V_ASN1_IA5STRING, "org", -1, 0},
           {"DC", V_ASN1_IA5STRING, "example", -1, 0}, UTF8("CN", "x"));
    EXPECT("UID=u,STREET=s,L=l,ST=st,C=DE", {"C", V_ASN1_PRINTABLESTRING, "DE", -1, 0},
           UTF8("ST", "st"), UTF8("L", "l"), UTF8("street", "s"), UTF8("UID", "u"));
    EXPECT("CN=a+OU=b,O=c", UTF8("O", "c"), UTF8("CN", "a"),
           {"OU", V_ASN1_UTF8STRING, "b", -1, -1});
}

static void test_escapes(void **state)
{
    EXPECT("O=Acme\\, Inc", UTF8("O", "Acme, Inc"));
    EXPECT("O=a\\+b\\=c\\;d\\<e\\>f\\#g\\\"h\\\\i", UTF8("O", "a+b=c;d<e>f#g\"h\\i"));
    EXPECT("O=\\ \\ a  b\\ ", UTF8("O", "  a  b "));
    EXPECT("O=\\ ", UTF8("O", " "));
    EXPECT("O=", UTF8("O", ""));
    EXPECT("CN=Jos\xc3\xa9", UTF8("CN", "Jos\xc3\xa9"));
    EXPECT("CN=Jos\xc3\xa9", {"CN", V_ASN1_T61STRING, "Jos\xe9", -1, 0});
    EXPECT("CN=\xc3\xa9", {"CN", V_ASN1_BMPSTRING, "\x00\xe9", 2, 0});
    EXPECT("CN=a\\00b", {"CN", V_ASN1_UTF8STRING, "a\0b", 3, 0});
}

static void test_without_keyword(void **state)
{
    EXPECT("1.2.840.113549.1.9.1=#16057840792e7a,CN=a", UTF8("CN", "a"),
           {"emailAddress", V_ASN1_IA5STRING, "x@y.z", -1, 0});
    EXPECT("2.5.4.5=#130131", {"serialNumber", V_ASN1_PRINTABLESTRING, "1", -1, 0});
}

static void test_empty_and_bound(void **state)
{
    X509_NAME *name = X509_NAME_new();
    struct buf out;
    buf_init(&out, 8);
    certificate_name_print(name, &out);
    assert_true(buf_ok(&out));
    assert_int_equal(out.len, 0);
    assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                                (const unsigned char *)"longer than that", -1, -1,
                                                0),
                     1);
    certificate_name_print(name, &out);
    assert_false(buf_ok(&out));
    buf_finish(&out);
    X509_NAME_free(name);
}

static void test_clean(void **state)
{
    char text[] = "a\"b\nc\x7f\xc3\xa9 d";
    certificate_name_clean(text);
    assert_string_equal(text, "a?b?c?\xc3\xa9 d");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),           cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_without_keyword), cmocka_unit_test(test_empty_and_bound),
        cmocka_unit_test(test_clean),
    };
    return cmocka_run_group_tests_name("tls/name", tests, NULL, NULL);
}
