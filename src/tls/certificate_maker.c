#include "tls/certificate_maker.h"

#include "tls/certificate_store.h"

#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SERIAL_BITS = 127,  /* positive in 16 bytes */
    BACKDATED_S = 3600, /* clocks of other machines may be behind */
    DAY_S = 86400,
    ALT_NAMES_SIZE = CERTIFICATE_NAMES_MAX * 262,
};

struct certificate_pair {
    EVP_PKEY *key;
    X509 *certificate;
};

void certificate_pair_destroy(struct certificate_pair *p)
{
    if (p != NULL) {
        EVP_PKEY_free(p->key);
        X509_free(p->certificate);
        free(p);
    }
}

/* Takes both over; 0 or CONCLAVE_ENOMEM. */
static int pair_make(EVP_PKEY *key, X509 *certificate, struct certificate_pair **ret)
{
    struct certificate_pair *p = calloc(1, sizeof *p);
    if (p == NULL) {
        EVP_PKEY_free(key);
        X509_free(certificate);
        return CONCLAVE_ENOMEM;
    }
    p->key = key;
    p->certificate = certificate;
    *ret = p;
    return 0;
}

/* --- the parts of a certificate ---------------------------------------------------------------- */

static bool set_serial(X509 *x)
{
    BIGNUM *number = BN_new();
    bool ok = number != NULL &&
              BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
              BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x)) != NULL;
    BN_free(number);
    return ok;
}

static bool set_times(X509 *x, int days, const X509 *ca)
{
    bool ok = X509_gmtime_adj(X509_getm_notBefore(x), -BACKDATED_S) != NULL &&
              X509_time_adj_ex(X509_getm_notAfter(x), days, 0, NULL) != NULL;
    if (ok && ca != NULL && ASN1_TIME_compare(X509_get0_notAfter(x), X509_get0_notAfter(ca)) > 0) {
        ok = X509_set1_notAfter(x, X509_get0_notAfter(ca)) == 1;
    }
    return ok;
}

static bool add_extension(X509 *x, const X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, (X509 *)issuer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool ok = e != NULL && X509_add_ext(x, e, -1) == 1;
    X509_EXTENSION_free(e);
    return ok;
}

static bool set_subject(X509 *x, const char *common_name)
{
    X509_NAME *name = X509_get_subject_name(x);
    return strlen(common_name) > CERTIFICATE_COMMON_NAME_MAX
               ? X509_NAME_add_entry_by_NID(name, NID_organizationName, MBSTRING_UTF8,
                                            (const unsigned char *)"conclave", -1, -1, 0) == 1
               : X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8,
                                            (const unsigned char *)common_name, -1, -1, 0) == 1;
}

/* A certificate with number, times and key, whose issuer is `ca`, or itself. NULL: OpenSSL failed. */
static X509 *certificate_begin(EVP_PKEY *key, int days, const X509 *ca)
{
    X509 *x = X509_new();
    if (x != NULL && X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
        set_times(x, days, ca) && X509_set_pubkey(x, key) == 1) {
        return x;
    }
    X509_free(x);
    return NULL;
}

int certificate_pair_create_ca(const char *common_name, int days, struct certificate_pair **ret)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = key != NULL ? certificate_begin(key, days, NULL) : NULL;
    bool ok = x != NULL && set_subject(x, common_name) &&
              X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
              add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
              add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
              add_extension(x, x, NID_subject_key_identifier, "hash") &&
              X509_sign(x, key, EVP_sha256()) > 0;
    if (!ok) {
        EVP_PKEY_free(key);
        X509_free(x);
        return CONCLAVE_ENOMEM;
    }
    return pair_make(key, x, ret);
}

/* --- alternative names -------------------------------------------------------------------------- */

static bool is_address(const char *name)
{
    ASN1_OCTET_STRING *bytes = a2i_IPADDRESS(name);
    ASN1_OCTET_STRING_free(bytes);
    return bytes != NULL;
}

static bool is_host_name(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len < 254 && name[0] != '-' && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == len;
}

/* "DNS:a,IP:10.0.0.1". */
static int alt_names(const struct certificate_wish *wish, char out[ALT_NAMES_SIZE],
                     char why[TLS_TEXT_MAX])
{
    size_t len = 0;
    if (wish->n_names > CERTIFICATE_NAMES_MAX) {
        return certificate_store_fail(why, "more than %d names for one certificate",
                                      CERTIFICATE_NAMES_MAX);
    }
    out[0] = '\0';
    for (size_t i = 0; i < wish->n_names; i++) {
        const char *name = wish->names[i];
        bool address = is_address(name);
        if (!address && !is_host_name(name)) {
            return certificate_store_fail(why, "\"%.255s\" is neither a host name nor an address",
                                          name);
        }
        len += (size_t)snprintf(out + len, ALT_NAMES_SIZE - len, "%s%s:%s", i > 0 ? "," : "",
                                address ? "IP" : "DNS", name);
        assert(len < ALT_NAMES_SIZE);
    }
    return 0;
}

/* --- signing -------------------------------------------------------------------------------------- */

static bool certificate_end_entity(X509 *x, const struct certificate_pair *ca, const char *purposes)
{
    return X509_set_issuer_name(x, X509_get_subject_name(ca->certificate)) == 1 &&
           add_extension(x, ca->certificate, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(x, ca->certificate, NID_key_usage, "critical,digitalSignature") &&
           (purposes == NULL || add_extension(x, ca->certificate, NID_ext_key_usage, purposes)) &&
           add_extension(x, ca->certificate, NID_subject_key_identifier, "hash") &&
           add_extension(x, ca->certificate, NID_authority_key_identifier, "keyid:always");
}

int certificate_pair_issue(const struct certificate_pair *ca, const struct certificate_wish *wish,
                           struct certificate_pair **ret, char why[TLS_TEXT_MAX])
{
    char names[ALT_NAMES_SIZE] = "";
    int rc = alt_names(wish, names, why);
    if (rc != 0) {
        return rc;
    }
    /* A server of an ensemble also connects to the others. */
    const char *purposes = wish->server ? "serverAuth,clientAuth" : "clientAuth";
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = key != NULL ? certificate_begin(key, wish->days, ca->certificate) : NULL;
    bool ok =
        x != NULL && set_subject(x, wish->common_name) && certificate_end_entity(x, ca, purposes) &&
        (names[0] == '\0' || add_extension(x, ca->certificate, NID_subject_alt_name, names)) &&
        X509_sign(x, ca->key, EVP_sha256()) > 0;
    if (!ok) {
        EVP_PKEY_free(key);
        X509_free(x);
        return CONCLAVE_ENOMEM;
    }
    return pair_make(key, x, ret);
}

/* Copies an extension, if there is one. */
static bool copy_extension(X509 *to, const X509 *from, int nid)
{
    int at = X509_get_ext_by_NID(from, nid, -1);
    return at < 0 || X509_add_ext(to, X509_get_ext(from, at), -1) == 1;
}

int certificate_pair_renew(const struct certificate_pair *ca, const struct certificate_pair *old,
                           int days, struct certificate_pair **ret, char why[TLS_TEXT_MAX])
{
    if (!certificate_pair_is_of(old, ca)) {
        return certificate_store_fail(why, "another CA signed it");
    }
    X509 *x = certificate_begin(old->key, days, ca->certificate);
    bool ok = x != NULL && X509_set_subject_name(x, X509_get_subject_name(old->certificate)) == 1 &&
              certificate_end_entity(x, ca, NULL) &&
              copy_extension(x, old->certificate, NID_ext_key_usage) &&
              copy_extension(x, old->certificate, NID_subject_alt_name) &&
              X509_sign(x, ca->key, EVP_sha256()) > 0 && EVP_PKEY_up_ref(old->key) == 1;
    if (!ok) {
        X509_free(x);
        return CONCLAVE_ENOMEM;
    }
    return pair_make(old->key, x, ret);
}

/* --- texts ----------------------------------------------------------------------------------------- */

/* Never asks for a password on the terminal. */
static int no_password(char *out, int size, int writing, void *ctx)
{
    return -1;
}

int certificate_pair_read(struct slice certificate, struct slice key, struct certificate_pair **ret,
                          char why[TLS_TEXT_MAX])
{
    BIO *in = BIO_new_mem_buf(certificate.data, (int)certificate.len);
    BIO *in_key = BIO_new_mem_buf(key.data, (int)key.len);
    X509 *x = in != NULL ? PEM_read_bio_X509(in, NULL, no_password, NULL) : NULL;
    EVP_PKEY *k = in_key != NULL ? PEM_read_bio_PrivateKey(in_key, NULL, no_password, NULL) : NULL;
    bool fits = x != NULL && k != NULL && X509_check_private_key(x, k) == 1;
    BIO_free(in);
    BIO_free(in_key);
    if (fits) {
        return pair_make(k, x, ret);
    }
    int rc = certificate_store_fail(why, "%s",
                                    x == NULL   ? "the certificate is not PEM"
                                    : k == NULL ? "the key is not PEM, or has a password"
                                                : "certificate and key do not belong together");
    X509_free(x);
    EVP_PKEY_free(k);
    return rc;
}

static bool take_text(BIO *out, struct buf *to)
{
    char *text;
    long len = BIO_get_mem_data(out, &text);
    buf_append(to, text, len > 0 ? (size_t)len : 0);
    return len > 0 && buf_ok(to);
}

int certificate_pair_write(const struct certificate_pair *p, struct buf *certificate,
                           struct buf *key)
{
    BIO *out = BIO_new(BIO_s_mem());
    BIO *out_key = BIO_new(BIO_s_secmem());
    bool ok = out != NULL && out_key != NULL && PEM_write_bio_X509(out, p->certificate) == 1 &&
              PEM_write_bio_PKCS8PrivateKey(out_key, p->key, NULL, NULL, 0, NULL, NULL) == 1 &&
              take_text(out, certificate) && take_text(out_key, key);
    BIO_free(out);
    BIO_free(out_key);
    return ok ? 0 : CONCLAVE_ENOMEM;
}

bool certificate_pair_is_ca(const struct certificate_pair *p)
{
    return X509_check_ca(p->certificate) == 1;
}

bool certificate_pair_is_of(const struct certificate_pair *p, const struct certificate_pair *ca)
{
    return X509_verify(p->certificate, ca->key) == 1;
}

void certificate_pair_end(const struct certificate_pair *p, char ret[CERTIFICATE_END_MAX])
{
    struct tm t;
    if (ASN1_TIME_to_tm(X509_get0_notAfter(p->certificate), &t) == 1) {
        snprintf(ret, CERTIFICATE_END_MAX, "%04d-%02d-%02d", (t.tm_year + 1900) % 10000,
                 (t.tm_mon + 1) % 100, t.tm_mday % 100);
    } else {
        memcpy(ret, "?", 2);
    }
}
