#include "tls/certificate_look.h"

#include "tls/certificate_store.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <assert.h>
#include <stdlib.h>
#include <time.h>

struct certificate_look {
    SSL_CTX *ctx;
    X509 *cert; /* of the context */
};

int certificate_look_open(const struct tls_settings *settings, struct certificate_look **ret,
                          char why[TLS_TEXT_MAX])
{
    struct certificate_look *l = calloc(1, sizeof *l);
    int rc = CONCLAVE_ENOMEM;
    if (l == NULL || (l->ctx = SSL_CTX_new(TLS_method())) == NULL) {
        goto out;
    }
    if (settings->cert_file == NULL) {
        rc = certificate_store_fail(why,
                                    "there is no certificate: name its file in the keys of TLS");
        goto out;
    }
    rc = certificate_store_load_own(l->ctx, settings, why);
    if (rc == 0 && settings->trust_file != NULL) {
        rc = certificate_store_load_trust(l->ctx, settings, why);
    }
    l->cert = SSL_CTX_get0_certificate(l->ctx);
out:
    if (rc == 0) {
        *ret = l;
    } else {
        certificate_look_close(l);
    }
    return rc;
}

void certificate_look_close(struct certificate_look *l)
{
    if (l != NULL) {
        SSL_CTX_free(l->ctx);
        free(l);
    }
}

static int64_t seconds_of(const ASN1_TIME *t)
{
    struct tm tm;
    return ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

void certificate_look_dates(const struct certificate_look *l, struct certificate_dates *ret)
{
    assert(l->cert != NULL);
    ret->begins_s = seconds_of(X509_get0_notBefore(l->cert));
    ret->ends_s = seconds_of(X509_get0_notAfter(l->cert));
}

bool certificate_look_is_for(const struct certificate_look *l, const char *host)
{
    unsigned flags = X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS;
    return X509_check_ip_asc(l->cert, host, flags) == 1 ||
           X509_check_host(l->cert, host, 0, flags, NULL) == 1;
}

bool certificate_look_is_trusted(const struct certificate_look *l, const char **ret_why)
{
    STACK_OF(X509) *chain = NULL;
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    *ret_why = "out of memory";
    SSL_CTX_get0_chain_certs(l->ctx, &chain);
    if (ctx == NULL ||
        X509_STORE_CTX_init(ctx, SSL_CTX_get_cert_store(l->ctx), l->cert, chain) != 1) {
        X509_STORE_CTX_free(ctx);
        return false;
    }
    X509_STORE_CTX_set_flags(ctx, X509_V_FLAG_NO_CHECK_TIME | X509_V_FLAG_PARTIAL_CHAIN);
    bool good = X509_verify_cert(ctx) == 1;
    *ret_why = X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx));
    X509_STORE_CTX_free(ctx);
    return good;
}
