#include "support/certificates.h"

#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/x509v3.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { DAY_S = 24 * 60 * 60 };

static char folder[64];

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(ext);
    assert_int_equal(X509_add_ext(cert, ext, -1), 1);
    X509_EXTENSION_free(ext);
}

void certificate_make(struct certificate *ret, const struct certificate *issuer, const char *cn,
                      const char *san, int days, bool ca)
{
    static long serial = 1000;
    X509 *cert = X509_new();
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    assert_non_null(cert);
    assert_non_null(key);
    X509_NAME *name = X509_get_subject_name(cert);
    X509_set_version(cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
    X509_gmtime_adj(X509_getm_notBefore(cert), -2 * DAY_S);
    X509_gmtime_adj(X509_getm_notAfter(cert), (long)days * DAY_S);
    if (cn[0] != '\0') {
        assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                                    (const unsigned char *)cn, -1, -1, 0),
                         1);
    }
    X509 *above = issuer != NULL ? issuer->cert : cert;
    assert_int_equal(X509_set_issuer_name(cert, X509_get_subject_name(above)), 1);
    assert_int_equal(X509_set_pubkey(cert, key), 1);
    add_extension(cert, above, NID_basic_constraints, ca ? "critical,CA:TRUE" : "CA:FALSE");
    if (san != NULL) {
        add_extension(cert, above, NID_subject_alt_name, san);
    }
    assert_true(X509_sign(cert, issuer != NULL ? issuer->key : key, EVP_sha256()) > 0);
    ret->cert = cert;
    ret->key = key;
}

void certificate_finish(struct certificate *c)
{
    X509_free(c->cert);
    EVP_PKEY_free(c->key);
    *c = (struct certificate){NULL, NULL};
}

const char *certificate_folder(void)
{
    if (folder[0] == '\0') {
        snprintf(folder, sizeof folder, "/tmp/conclave-test-certs-XXXXXX");
        assert_non_null(mkdtemp(folder));
    }
    return folder;
}

void certificate_folder_remove(void)
{
    char command[128];
    if (folder[0] != '\0') {
        snprintf(command, sizeof command, "rm -r '%s'", folder);
        assert_int_equal(system(command), 0);
        folder[0] = '\0';
    }
}

const char *certificate_path(const char *name)
{
    static char paths[8][128];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", certificate_folder(), name);
    return path;
}

static FILE *open_file(const char *path, bool append)
{
    FILE *file = fopen(path, append ? "a" : "w");
    assert_non_null(file);
    return file;
}

const char *certificate_write_cert(const struct certificate *c, const char *name, bool append)
{
    const char *path = certificate_path(name);
    FILE *file = open_file(path, append);
    assert_int_equal(PEM_write_X509(file, c->cert), 1);
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *certificate_write_key(const struct certificate *c, const char *name, bool append,
                                  const char *password)
{
    const char *path = certificate_path(name);
    FILE *file = open_file(path, append);
    int len = password != NULL ? (int)strlen(password) : 0;
    assert_int_equal(PEM_write_PrivateKey(file, c->key, password != NULL ? EVP_aes_128_cbc() : NULL,
                                          (const unsigned char *)password, len, NULL, NULL),
                     1);
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *certificate_write_pkcs12(const struct certificate *c, const struct certificate *ca,
                                     const char *name, const char *password)
{
    const char *path = certificate_path(name);
    FILE *file = open_file(path, false);
    STACK_OF(X509) *above = sk_X509_new_null();
    if (ca != NULL) {
        assert_true(sk_X509_push(above, ca->cert) > 0);
    }
    PKCS12 *p12 = PKCS12_create(password, "name", c != NULL ? c->key : NULL,
                                c != NULL ? c->cert : NULL, above, 0, 0, 0, 0, 0);
    assert_non_null(p12);
    assert_int_equal(i2d_PKCS12_fp(file, p12), 1);
    PKCS12_free(p12);
    sk_X509_free(above);
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *certificate_write_crl(const struct certificate *ca, const struct certificate *revoked,
                                  const char *name)
{
    const char *path = certificate_path(name);
    FILE *file = open_file(path, false);
    X509_CRL *crl = X509_CRL_new();
    ASN1_TIME *now = X509_gmtime_adj(NULL, -DAY_S);
    ASN1_TIME *later = X509_gmtime_adj(NULL, DAY_S);
    assert_int_equal(X509_CRL_set_issuer_name(crl, X509_get_subject_name(ca->cert)), 1);
    assert_int_equal(X509_CRL_set1_lastUpdate(crl, now), 1);
    assert_int_equal(X509_CRL_set1_nextUpdate(crl, later), 1);
    if (revoked != NULL) {
        X509_REVOKED *entry = X509_REVOKED_new();
        X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(revoked->cert));
        X509_REVOKED_set_revocationDate(entry, now);
        assert_int_equal(X509_CRL_add0_revoked(crl, entry), 1);
    }
    assert_true(X509_CRL_sign(crl, ca->key, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_X509_CRL(file, crl), 1);
    assert_int_equal(fclose(file), 0);
    ASN1_TIME_free(now);
    ASN1_TIME_free(later);
    X509_CRL_free(crl);
    return path;
}

const char *certificate_write_bytes(const void *bytes, size_t len, const char *name)
{
    const char *path = certificate_path(name);
    FILE *file = open_file(path, false);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    return path;
}
