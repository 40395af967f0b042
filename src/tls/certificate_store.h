/* Loads certificates, keys and revocation lists from files into an SSL_CTX. For context.c. */
#ifndef TLS_CERTIFICATE_STORE_H
#define TLS_CERTIFICATE_STORE_H

#include "tls/context.h"

#include <openssl/ssl.h>

/* Each returns 0, or CONCLAVE_EINVAL with `why` set, or CONCLAVE_ENOMEM. */
int certificate_store_load_own(SSL_CTX *ctx, const struct tls_settings *settings,
                               char why[TLS_TEXT_MAX]) CONCLAVE_MUST_USE;
int certificate_store_load_trust(SSL_CTX *ctx, const struct tls_settings *settings,
                                 char why[TLS_TEXT_MAX]) CONCLAVE_MUST_USE;
int certificate_store_load_crl(SSL_CTX *ctx, const struct tls_settings *settings,
                               char why[TLS_TEXT_MAX]) CONCLAVE_MUST_USE;

/* Writes the text and returns CONCLAVE_EINVAL. */
int certificate_store_fail(char why[TLS_TEXT_MAX], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
