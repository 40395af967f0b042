/* Contexts from files: every form, every reason for which one is refused, ciphers and versions. */
#include "tls/tls.h"

#include "support/certificates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct certificate ca;
static struct certificate server;
static struct certificate other;

static int setup(void **state)
{
    certificate_make(&ca, NULL, "CA", NULL, 30, true);
    certificate_make(&server, &ca, "server", "DNS:localhost", 30, false);
    certificate_make(&other, NULL, "other", NULL, 30, true);
    certificate_write_cert(&ca, "ca.pem", false);
    certificate_write_cert(&server, "server.pem", false);
    certificate_write_key(&server, "server.key", false, NULL);
    certificate_write_key(&server, "secret.key", false, "pass word");
    certificate_write_key(&other, "other.key", false, NULL);
    /* ZooKeeper's form: key and chain in one file, in any order. */
    certificate_write_key(&server, "both.pem", false, NULL);
    certificate_write_cert(&server, "both.pem", true);
    certificate_write_cert(&ca, "both.pem", true);
    certificate_write_pkcs12(&server, &ca, "server.p12", "pass word");
    certificate_write_pkcs12(NULL, &ca, "trust.p12", "pass word");
    return 0;
}

static int teardown(void **state)
{
    certificate_finish(&ca);
    certificate_finish(&server);
    certificate_finish(&other);
    certificate_folder_remove();
    return 0;
}

/* wanted NULL: it must succeed; else its reason must hold it, and the password must not show. */
static void expect(const struct tls_settings *settings, const char *wanted)
{
    char why[TLS_TEXT_MAX];
    struct tls_context *context = NULL;
    int rc = tls_context_create(settings, &context, why);
    if (wanted == NULL) {
        if (rc != 0) {
            fail_msg("refused: %s", why);
        }
        tls_context_release(context);
        return;
    }
    assert_int_equal(rc, CONCLAVE_EINVAL);
    assert_null(context);
    if (strstr(why, wanted) == NULL) {
        fail_msg("'%s' does not say '%s'", why, wanted);
    }
    assert_null(strstr(why, "pass word"));
    assert_null(strchr(why, '"'));
}

static struct tls_settings server_of(const char *cert, const char *key, const char *password)
{
    return (struct tls_settings){
        .server = true,
        .cert_file = cert,
        .key_file = key,
        .cert_password = password,
    };
}

static void test_own(void **state)
{
    static const struct {
        const char *cert;
        const char *key;
        const char *password;
        const char *wanted;
    } cases[] = {
        {"server.pem", "server.key", NULL, NULL},
        {"server.pem", "secret.key", "pass word", NULL},
        {"server.pem", "secret.key", "wrong", "its password is wrong"},
        {"server.pem", "secret.key", NULL, "its password is not given"},
        {"both.pem", NULL, NULL, NULL},
        {"both.pem", NULL, "needless", NULL},
        {"server.p12", NULL, "pass word", NULL},
        {"server.p12", NULL, "wrong", "its password is wrong"},
        {"server.p12", NULL, NULL, "its password is not given"},
        {"trust.p12", NULL, "pass word", "contains no private key"},
        {"server.pem", NULL, NULL, "contains no private key"},
        {"server.pem", "server.pem", NULL, "contains no private key"},
        {"server.key", "server.key", NULL, "contains no certificate"},
        {"server.pem", "other.key", NULL, "belongs to another certificate"},
        {"missing.pem", "server.key", NULL, "No such file"},
        {"server.pem", "missing.key", NULL, "No such file"},
        {"server.pem", "empty", NULL, "contains no private key"},
    };
    (void)certificate_write_bytes("", 0, "empty");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tls_settings s = server_of(
            certificate_path(cases[i].cert),
            cases[i].key != NULL ? certificate_path(cases[i].key) : NULL, cases[i].password);
        expect(&s, cases[i].wanted);
    }
    struct tls_settings none = {.server = true};
    expect(&none, "no certificate");
    struct tls_settings client = {.peer = TLS_PEER_NEED};
    expect(&client, NULL);
}

static void test_strange_files(void **state)
{
    static const char jks[] = "\xfe\xed\xfe\xed\x00\x00\x00\x02 and so on";
    static const char bcfks[] = "\x30\x82\x01\x00 something else";
    static const char damaged[] = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    static const char text[] = "hello";
    struct tls_settings s =
        server_of(certificate_write_bytes(jks, sizeof jks, "a.jks"), NULL, NULL);
    expect(&s, "keytool -importkeystore");
    s.cert_file = certificate_write_bytes(bcfks, sizeof bcfks, "a.bcfks");
    expect(&s, "BCFKS");
    s.cert_file = certificate_write_bytes(damaged, sizeof damaged - 1, "a.pem");
    expect(&s, "certificate 1 in it is damaged");
    s.cert_file = certificate_write_bytes(text, sizeof text, "a.txt");
    expect(&s, "is not PEM or PKCS12");
    s.cert_file = certificate_write_bytes("", 0, "empty");
    expect(&s, "is empty");
    s.cert_file = certificate_folder();
    expect(&s, "cannot read");
}

static void test_trust(void **state)
{
    struct tls_settings s =
        server_of(certificate_path("server.pem"), certificate_path("server.key"), NULL);
    s.peer = TLS_PEER_NEED;
    expect(&s, "no file of trusted certificates");
    s.trust_file = certificate_path("ca.pem");
    expect(&s, NULL);
    s.trust_file = certificate_path("trust.p12");
    expect(&s, "its password is not given");
    s.trust_password = "pass word";
    expect(&s, NULL);
    s.trust_file = certificate_path("server.key");
    expect(&s, "contains no certificate");
    s.trust_file = certificate_path("ca.pem");
    s.crl_file = certificate_path("ca.pem");
    expect(&s, "no revocation list");
    s.crl_file = certificate_write_crl(&ca, NULL, "none.crl");
    expect(&s, NULL);
}

/* An empty file is no lack of memory. */
static void test_empty_list(void **state)
{
    struct tls_settings s =
        server_of(certificate_path("server.pem"), certificate_path("server.key"), NULL);
    s.crl_file = certificate_write_bytes("", 0, "empty");
    expect(&s, "no revocation list");
}

static void test_ciphers(void **state)
{
    static const struct {
        const char *list;
        const char *wanted;
    } cases[] = {
        {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", NULL},
        {"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384", NULL},
        {"TLS_AES_128_GCM_SHA256", NULL},
        {" TLS_AES_128_GCM_SHA256 , ECDHE-ECDSA-AES128-GCM-SHA256,", NULL},
        {"TLS_NO_SUCH_SUITE", "OpenSSL does not know 'TLS_NO_SUCH_SUITE'"},
        {"TLS_AES_NO_SUCH", "cipher suites"},
        {"", "the list is empty"},
        {",,", "the list is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tls_settings s =
            server_of(certificate_path("server.pem"), certificate_path("server.key"), NULL);
        s.ciphers = cases[i].list;
        expect(&s, cases[i].wanted);
    }
}

static void test_describe(void **state)
{
    char why[TLS_TEXT_MAX];
    struct tls_context *context = NULL;
    struct tls_settings s = server_of(certificate_path("both.pem"), NULL, NULL);
    assert_int_equal(tls_context_create(&s, &context, why), 0);
    assert_int_equal(
        strncmp(tls_context_describe(context), "subject=\"CN=server\" not_after=20", 32), 0);
    assert_ptr_equal(tls_context_share(context), context);
    tls_context_release(context);
    tls_context_release(context);
    tls_context_release(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own),     cmocka_unit_test(test_strange_files),
        cmocka_unit_test(test_trust),   cmocka_unit_test(test_empty_list),
        cmocka_unit_test(test_ciphers), cmocka_unit_test(test_describe),
    };
    return cmocka_run_group_tests_name("tls/context", tests, setup, teardown);
}
