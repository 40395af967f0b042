#define _GNU_SOURCE /* memmem */
#include "tls/certificate_store.h"

#include "base/buf.h"
#include "tls/certificate_name.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { STORE_FILE_MAX = 4 << 20 };

enum store_form {
    STORE_PEM,
    STORE_PKCS12,
};

int certificate_store_fail(char why[TLS_TEXT_MAX], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, TLS_TEXT_MAX, fmt, ap);
    va_end(ap);
    certificate_name_clean(why);
    return CONCLAVE_EINVAL;
}

/* The reason of OpenSSL's newest error. */
static const char *store_reason(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason != NULL ? reason : "no reason given";
}

static int store_read(const char *path, struct buf *out, char why[TLS_TEXT_MAX])
{
    char block[8192];
    size_t n;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return certificate_store_fail(why, "cannot read %s: %s", path, strerror(errno));
    }
    while (out->len <= STORE_FILE_MAX && (n = fread(block, 1, sizeof block, file)) > 0) {
        buf_append(out, block, n);
    }
    int rc = 0;
    if (ferror(file)) {
        rc = certificate_store_fail(why, "cannot read %s: %s", path, strerror(errno));
    } else if (!buf_ok(out)) {
        rc = CONCLAVE_ENOMEM;
    } else if (out->len > STORE_FILE_MAX) {
        rc = certificate_store_fail(why, "%s is larger than 4 MiB, so it is not a certificate file",
                                    path);
    }
    OPENSSL_cleanse(block, sizeof block); /* it may have contained a key */
    if (fclose(file) != 0 && rc == 0) {
        rc = certificate_store_fail(why, "cannot read %s: %s", path, strerror(errno));
    }
    return rc;
}

static int store_form_of(const char *path, const struct buf *bytes, enum store_form *ret,
                         char why[TLS_TEXT_MAX])
{
    static const uint8_t jks[] = {0xfe, 0xed, 0xfe, 0xed};
    static const uint8_t jceks[] = {0xce, 0xce, 0xce, 0xce};
    if (bytes->len == 0) {
        return certificate_store_fail(why, "%s is empty", path);
    }
    if (bytes->len >= sizeof jks && (memcmp(bytes->data, jks, sizeof jks) == 0 ||
                                     memcmp(bytes->data, jceks, sizeof jceks) == 0)) {
        return certificate_store_fail(
            why,
            "%s is a Java keystore (JKS), which is not supported: convert it with keytool "
            "-importkeystore -srckeystore %s -destkeystore NEW.p12 -deststoretype PKCS12",
            path, path);
    }
    /* PKCS12 is DER, which begins with the tag of a sequence. */
    if (bytes->data[0] == 0x30) {
        *ret = STORE_PKCS12;
        return 0;
    }
    if (memmem(bytes->data, bytes->len, "-----BEGIN ", 11) != NULL) {
        *ret = STORE_PEM;
        return 0;
    }
    return certificate_store_fail(why, "%s is not PEM or PKCS12", path);
}

static int store_password(char *out, int size, int rwflag, void *ctx)
{
    const char *password = ctx;
    size_t len = password != NULL ? strlen(password) : 0;
    if (password == NULL || len > (size_t)size) {
        return -1;
    }
    /* bytes, no string: NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
    memcpy(out, password, len);
    return (int)len;
}

/* PEM */

/* NULL: out of memory. An empty file has no block, which OpenSSL would refuse. */
static BIO *store_bio(const struct buf *bytes)
{
    assert(bytes->len <= STORE_FILE_MAX); /* store_read guarantees it: OpenSSL takes an int */
    return BIO_new_mem_buf(bytes->len > 0 ? (const void *)bytes->data : "", (int)bytes->len);
}

/* Reads the certificates in the order of the file; at least one. */
static int store_pem_certs(const char *path, const struct buf *bytes, STACK_OF(X509) * certs,
                           char why[TLS_TEXT_MAX])
{
    BIO *bio = store_bio(bytes);
    X509 *cert;
    if (bio == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int rc = 0;
    while ((cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        if (sk_X509_push(certs, cert) == 0) {
            X509_free(cert);
            rc = CONCLAVE_ENOMEM;
            break;
        }
    }
    /* "No start line" is the normal end of the file. */
    if (rc == 0 && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
        rc = certificate_store_fail(why, "%s: certificate %d in it is damaged: %s", path,
                                    sk_X509_num(certs) + 1, store_reason());
    }
    ERR_clear_error();
    BIO_free(bio);
    if (rc == 0 && sk_X509_num(certs) == 0) {
        rc = certificate_store_fail(why, "%s: contains no certificate", path);
    }
    return rc;
}

static int store_pem_key(const char *path, const struct buf *bytes, const char *password,
                         EVP_PKEY **ret, char why[TLS_TEXT_MAX])
{
    BIO *bio = store_bio(bytes);
    if (bio == NULL) {
        return CONCLAVE_ENOMEM;
    }
    ERR_clear_error();
    *ret = PEM_read_bio_PrivateKey(bio, NULL, store_password, (void *)(uintptr_t)password);
    BIO_free(bio);
    if (*ret != NULL) {
        return 0;
    }
    int rc;
    if (bytes->len == 0 || memmem(bytes->data, bytes->len, "PRIVATE KEY-----", 16) == NULL) {
        rc = certificate_store_fail(
            why, "%s contains no private key: name the file of the key, too", path);
    } else if (memmem(bytes->data, bytes->len, "ENCRYPTED", 9) != NULL) {
        rc = certificate_store_fail(why, "%s: the private key is encrypted and its password is %s",
                                    path, password == NULL ? "not given" : "wrong");
    } else {
        rc =
            certificate_store_fail(why, "%s: the private key is damaged: %s", path, store_reason());
    }
    ERR_clear_error();
    return rc;
}

/* PKCS12 */

/* ret_key and ret_cert may be NULL: a store of trusted certificates has none. */
static int store_pkcs12(const char *path, const struct buf *bytes, const char *password,
                        EVP_PKEY **ret_key, X509 **ret_cert, STACK_OF(X509) * *ret_others,
                        char why[TLS_TEXT_MAX])
{
    const unsigned char *at = bytes->data;
    int rc = 0;
    ERR_clear_error();
    PKCS12 *p12 = d2i_PKCS12(NULL, &at, (long)bytes->len);
    if (p12 == NULL) {
        rc = certificate_store_fail(
            why,
            "%s is not PEM or PKCS12 (a keystore of another type, such as BCFKS, must "
            "be converted to PKCS12 with keytool -importkeystore)",
            path);
    } else if (PKCS12_parse(p12, password, ret_key, ret_cert, ret_others) != 1) {
        bool mac = ERR_GET_REASON(ERR_peek_last_error()) == PKCS12_R_MAC_VERIFY_FAILURE ||
                   ERR_GET_REASON(ERR_peek_error()) == PKCS12_R_MAC_VERIFY_FAILURE;
        rc = mac ? certificate_store_fail(why, "%s: its password is %s", path,
                                          password == NULL ? "not given" : "wrong")
                 : certificate_store_fail(
                       why,
                       "%s: cannot decrypt the file: %s (convert a file with old ciphers: "
                       "openssl pkcs12 -legacy, or keytool -importkeystore of Java 17)",
                       path, store_reason());
    }
    PKCS12_free(p12);
    ERR_clear_error();
    return rc;
}

/* Own certificate and key */

static int store_use(SSL_CTX *ctx, const char *path, EVP_PKEY *key, X509 *cert,
                     STACK_OF(X509) * others, int first_other, char why[TLS_TEXT_MAX])
{
    if (SSL_CTX_use_certificate(ctx, cert) != 1) {
        return certificate_store_fail(why, "%s: the certificate cannot be used: %s", path,
                                      store_reason());
    }
    assert(cert != NULL && key != NULL);
    for (int i = first_other; i < sk_X509_num(others); i++) {
        if (SSL_CTX_add1_chain_cert(ctx, sk_X509_value(others, i)) != 1) {
            return certificate_store_fail(why, "%s: certificate %d in it cannot be used: %s", path,
                                          i + 1, store_reason());
        }
    }
    /* Checked first, because OpenSSL's error in SSL_CTX_use_PrivateKey is less clear. */
    if (X509_check_private_key(cert, key) != 1) {
        return certificate_store_fail(why, "%s: the private key belongs to another certificate",
                                      path);
    }
    if (SSL_CTX_use_PrivateKey(ctx, key) != 1) {
        return certificate_store_fail(why, "%s: the private key cannot be used: %s", path,
                                      store_reason());
    }
    return 0;
}

static int store_load_own_pem(SSL_CTX *ctx, const struct tls_settings *s, const struct buf *bytes,
                              char why[TLS_TEXT_MAX])
{
    struct buf key_bytes;
    EVP_PKEY *key = NULL;
    STACK_OF(X509) *certs = sk_X509_new_null();
    buf_init(&key_bytes, 0);
    int rc = certs == NULL ? CONCLAVE_ENOMEM : store_pem_certs(s->cert_file, bytes, certs, why);
    if (rc == 0 && s->key_file != NULL) {
        rc = store_read(s->key_file, &key_bytes, why);
    }
    if (rc == 0) {
        rc = s->key_file != NULL
                 ? store_pem_key(s->key_file, &key_bytes, s->cert_password, &key, why)
                 : store_pem_key(s->cert_file, bytes, s->cert_password, &key, why);
    }
    if (rc == 0) {
        rc = store_use(ctx, s->cert_file, key, sk_X509_value(certs, 0), certs, 1, why);
    }
    buf_wipe(&key_bytes);
    EVP_PKEY_free(key);
    sk_X509_pop_free(certs, X509_free);
    return rc;
}

static int store_load_own_pkcs12(SSL_CTX *ctx, const struct tls_settings *s,
                                 const struct buf *bytes, char why[TLS_TEXT_MAX])
{
    EVP_PKEY *key = NULL;
    X509 *cert = NULL;
    STACK_OF(X509) *others = NULL;
    int rc = store_pkcs12(s->cert_file, bytes, s->cert_password, &key, &cert, &others, why);
    if (rc == 0 && (key == NULL || cert == NULL)) {
        rc = certificate_store_fail(why, "%s contains no private key with its certificate",
                                    s->cert_file);
    }
    if (rc == 0) {
        rc = store_use(ctx, s->cert_file, key, cert, others, 0, why);
    }
    EVP_PKEY_free(key);
    X509_free(cert);
    sk_X509_pop_free(others, X509_free);
    return rc;
}

int certificate_store_load_own(SSL_CTX *ctx, const struct tls_settings *settings,
                               char why[TLS_TEXT_MAX])
{
    struct buf bytes;
    enum store_form form = STORE_PEM;
    buf_init(&bytes, 0);
    int rc = store_read(settings->cert_file, &bytes, why);
    if (rc == 0) {
        rc = store_form_of(settings->cert_file, &bytes, &form, why);
    }
    if (rc == 0) {
        rc = form == STORE_PEM ? store_load_own_pem(ctx, settings, &bytes, why)
                               : store_load_own_pkcs12(ctx, settings, &bytes, why);
    }
    buf_wipe(&bytes);
    return rc;
}

/* Trusted certificates and revocation lists */

static int store_trust(SSL_CTX *ctx, bool server, X509 *cert)
{
    /* The names tell a client which of its certificates the server wants. */
    bool ok = X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), cert) == 1 &&
              (!server || SSL_CTX_add_client_CA(ctx, cert) == 1);
    return ok ? 0 : CONCLAVE_ENOMEM;
}

int certificate_store_load_trust(SSL_CTX *ctx, const struct tls_settings *settings,
                                 char why[TLS_TEXT_MAX])
{
    const char *path = settings->trust_file;
    struct buf bytes;
    enum store_form form = STORE_PEM;
    EVP_PKEY *key = NULL;
    X509 *cert = NULL;
    STACK_OF(X509) *certs = NULL;
    buf_init(&bytes, 0);
    int rc = store_read(path, &bytes, why);
    if (rc == 0) {
        rc = store_form_of(path, &bytes, &form, why);
    }
    if (rc == 0 && form == STORE_PKCS12) {
        rc = store_pkcs12(path, &bytes, settings->trust_password, &key, &cert, &certs, why);
        if (rc == 0 && certs == NULL && cert == NULL) {
            rc = certificate_store_fail(why, "%s contains no certificate", path);
        }
    } else if (rc == 0) {
        certs = sk_X509_new_null();
        rc = certs == NULL ? CONCLAVE_ENOMEM : store_pem_certs(path, &bytes, certs, why);
    }
    if (rc == 0 && cert != NULL) {
        rc = store_trust(ctx, settings->server, cert);
    }
    for (int i = 0; rc == 0 && i < sk_X509_num(certs); i++) {
        rc = store_trust(ctx, settings->server, sk_X509_value(certs, i));
    }
    buf_wipe(&bytes);
    EVP_PKEY_free(key);
    X509_free(cert);
    sk_X509_pop_free(certs, X509_free);
    return rc;
}

int certificate_store_load_crl(SSL_CTX *ctx, const struct tls_settings *settings,
                               char why[TLS_TEXT_MAX])
{
    const char *path = settings->crl_file;
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    X509_CRL *crl;
    struct buf bytes;
    BIO *bio = NULL;
    int count = 0;
    buf_init(&bytes, 0);
    int rc = store_read(path, &bytes, why);
    if (rc != 0) {
        goto out;
    }
    bio = store_bio(&bytes);
    if (bio == NULL) {
        rc = CONCLAVE_ENOMEM;
        goto out;
    }
    while (rc == 0 && (crl = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)) != NULL) {
        rc = X509_STORE_add_crl(store, crl) == 1 ? 0 : CONCLAVE_ENOMEM;
        X509_CRL_free(crl);
        count++;
    }
    ERR_clear_error();
    if (rc == 0 && count == 0) {
        rc = certificate_store_fail(why, "%s contains no revocation list in PEM form", path);
    } else if (rc == 0) {
        X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK |
                                        (settings->crl_check_all ? X509_V_FLAG_CRL_CHECK_ALL : 0));
    }
out:
    BIO_free(bio);
    buf_wipe(&bytes);
    return rc;
}
