/* Certificates that the maker makes: what OpenSSL reads in them, renewal, and what is refused. */
#include "tls/certificate_maker.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static X509 *read_certificate(const struct certificate_pair *p)
{
    struct buf cert;
    struct buf key;
    buf_init(&cert, 0);
    buf_init(&key, 0);
    assert_int_equal(certificate_pair_write(p, &cert, &key), 0);
    BIO *in = BIO_new_mem_buf(cert.data, (int)cert.len);
    X509 *x = PEM_read_bio_X509(in, NULL, NULL, NULL);
    assert_non_null(x);
    BIO_free(in);
    buf_finish(&cert);
    buf_wipe(&key);
    return x;
}

static struct certificate_pair *issue(const struct certificate_pair *ca, const char *const *names,
                                      size_t n)
{
    struct certificate_wish wish = {
        .common_name = names[0], .names = names, .n_names = n, .server = true, .days = 30};
    char why[TLS_TEXT_MAX];
    struct certificate_pair *p = NULL;
    assert_int_equal(certificate_pair_issue(ca, &wish, &p, why), 0);
    return p;
}

static void test_a_server(void **state)
{
    static const char *const names[] = {"one.example", "10.0.0.1", "fd00::1"};
    struct certificate_pair *ca;
    assert_int_equal(certificate_pair_create_ca("Test CA", 100, &ca), 0);
    struct certificate_pair *p = issue(ca, names, 3);
    X509 *x = read_certificate(p);
    assert_int_equal(X509_check_host(x, "one.example", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(x, "two.example", 0, 0, NULL), 0);
    assert_int_equal(X509_check_ip_asc(x, "10.0.0.1", 0), 1);
    assert_int_equal(X509_check_ip_asc(x, "fd00::1", 0), 1);
    assert_int_equal(X509_check_purpose(x, X509_PURPOSE_SSL_SERVER, 0), 1);
    assert_int_equal(X509_check_purpose(x, X509_PURPOSE_SSL_CLIENT, 0), 1);
    assert_true(certificate_pair_is_of(p, ca));
    assert_true(certificate_pair_is_ca(ca));
    assert_false(certificate_pair_is_ca(p));
    X509_free(x);
    certificate_pair_destroy(p);
    certificate_pair_destroy(ca);
}

static void test_a_client(void **state)
{
    struct certificate_wish wish = {.common_name = "anna", .days = 30};
    char why[TLS_TEXT_MAX];
    struct certificate_pair *ca;
    struct certificate_pair *p = NULL;
    assert_int_equal(certificate_pair_create_ca("Test CA", 100, &ca), 0);
    assert_int_equal(certificate_pair_issue(ca, &wish, &p, why), 0);
    X509 *x = read_certificate(p);
    assert_int_equal(X509_check_purpose(x, X509_PURPOSE_SSL_CLIENT, 0), 1);
    assert_int_equal(X509_check_purpose(x, X509_PURPOSE_SSL_SERVER, 0), 0);
    X509_free(x);
    certificate_pair_destroy(p);
    certificate_pair_destroy(ca);
}

/* The same key, names and purposes; another number; it ends with the CA at the latest. */
static void test_a_renewal(void **state)
{
    static const char *const names[] = {"one.example"};
    char why[TLS_TEXT_MAX];
    char end[CERTIFICATE_END_MAX];
    char ca_end[CERTIFICATE_END_MAX];
    struct certificate_pair *ca;
    struct certificate_pair *other;
    struct certificate_pair *fresh = NULL;
    assert_int_equal(certificate_pair_create_ca("Test CA", 100, &ca), 0);
    assert_int_equal(certificate_pair_create_ca("Test CA", 100, &other), 0);
    struct certificate_pair *p = issue(ca, names, 1);
    assert_int_equal(certificate_pair_renew(other, p, 30, &fresh, why), CONCLAVE_EINVAL);
    assert_string_equal(why, "another CA signed it");
    assert_int_equal(certificate_pair_renew(ca, p, 1000, &fresh, why), 0);
    X509 *before = read_certificate(p);
    X509 *after = read_certificate(fresh);
    assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(before), X509_get0_pubkey(after)), 1);
    assert_int_not_equal(
        ASN1_INTEGER_cmp(X509_get0_serialNumber(before), X509_get0_serialNumber(after)), 0);
    assert_int_equal(X509_check_host(after, "one.example", 0, 0, NULL), 1);
    assert_int_equal(X509_check_purpose(after, X509_PURPOSE_SSL_SERVER, 0), 1);
    certificate_pair_end(fresh, end);
    certificate_pair_end(ca, ca_end);
    assert_string_equal(end, ca_end);
    X509_free(before);
    X509_free(after);
    certificate_pair_destroy(fresh);
    certificate_pair_destroy(p);
    certificate_pair_destroy(ca);
    certificate_pair_destroy(other);
}

static void test_what_is_refused(void **state)
{
    static const char *const bad[] = {"*.example", "a b", "a,DNS:b", "-a", "", "a/b"};
    char why[TLS_TEXT_MAX];
    struct certificate_pair *ca;
    struct certificate_pair *p = NULL;
    assert_int_equal(certificate_pair_create_ca("Test CA", 100, &ca), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct certificate_wish wish = {
            .common_name = "x", .names = &bad[i], .n_names = 1, .days = 1};
        assert_int_equal(certificate_pair_issue(ca, &wish, &p, why), CONCLAVE_EINVAL);
    }
    assert_int_equal(certificate_pair_read(slice_str("no PEM"), slice_str("none"), &p, why),
                     CONCLAVE_EINVAL);
    assert_non_null(strstr(why, "not PEM"));
    certificate_pair_destroy(ca);
    certificate_pair_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_server),
        cmocka_unit_test(test_a_client),
        cmocka_unit_test(test_a_renewal),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
