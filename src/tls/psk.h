/*
 * A secret of both sides, instead of certificates: TLS 1.3 with an external pre-shared key and a fresh Diffie-Hellman
 * exchange. Each side proves that it has the secret before the other accepts a byte of the stream. For context.c.
 */
#ifndef TLS_PSK_H
#define TLS_PSK_H

#include "tls/context.h"

#include <openssl/ssl.h>

/* Configures ctx for the secret and nothing else; does not keep the secret. 0 or CONCLAVE_ENOMEM. */
int psk_use(SSL_CTX *ctx, struct slice secret) CONCLAVE_MUST_USE;

#endif
