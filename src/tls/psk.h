/*
 * A secret that both sides hold, instead of certificates: TLS 1.3 with an external pre-shared key,
 * with a fresh Diffie-Hellman exchange under it. Each side proves that it holds the secret before
 * the other takes a byte of the stream. For context.c.
 */
#ifndef TLS_PSK_H
#define TLS_PSK_H

#include "tls/context.h"

#include <openssl/ssl.h>

/* Sets ctx up for the secret, which is not kept, and for nothing else. 0 or CONCLAVE_ENOMEM. */
int psk_use(SSL_CTX *ctx, struct slice secret) CONCLAVE_MUST_USE;

#endif
