/*
 * A secret of both sides, instead of certificates: TLS 1.3 with an external pre-shared key and a fresh Diffie-Hellman
 * exchange. Each side proves that it has the secret before the other accepts a byte of the stream. For context.c.
 */
#ifndef TLS_PSK_H
#define TLS_PSK_H

#include "tls/context.h"

#include <openssl/ssl.h>

/*
 * Configures ctx for the secret and nothing else; does not keep the secret. 0 or CONCLAVE_ENOMEM.
 *
 * With `other` (null: none) a server accepts both secrets, and a client proves the first, and says which one it proves. A
 * side with one secret does not say that: then the other side takes its own first one. So a secret is replaced in three
 * steps, one server after the other: old alone, "old, new", "new, old", new alone.
 */
int psk_use(SSL_CTX *ctx, struct slice secret, struct slice other) CONCLAVE_MUST_USE;

#endif
