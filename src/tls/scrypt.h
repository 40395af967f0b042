/*
 * scrypt (RFC 7914) makes each guess of a password or a secret expensive. For the users of a file, and for the secret
 * of the servers.
 *
 * Limits: one call takes memory (32 MiB with the current parameters, at most SCRYPT_MEMORY_MAX) and a tenth of a second
 * or more: not on a loop's thread, except at the start.
 */
#ifndef TLS_SCRYPT_H
#define TLS_SCRYPT_H

#include "base/buf.h"

#include <conclave/error.h>

#include <stdbool.h>

enum {
    SCRYPT_KEY_SIZE = 32,
    SCRYPT_TEXT_MAX = 160, /* size of a hash as text, with NUL */
    SCRYPT_MEMORY_MAX = 256 << 20,
};

/* Appends the hash of a password with a new salt: "$scrypt$ln=15,r=8,p=1$SALT$HASH", the last two in base64 without
 * '=', as in the PHC string format. 0 or CONCLAVE_ENOMEM. */
int scrypt_hash(struct slice password, struct buf *out) CONCLAVE_MUST_USE;

/* Whether the text is such a hash, within the limits. */
bool scrypt_is_hash(const char *text);

/* Checks the password. 0, CONCLAVE_AUTH_FAILED, CONCLAVE_EINVAL (not a hash) or CONCLAVE_ENOMEM. */
int scrypt_check(const char *text, struct slice password) CONCLAVE_MUST_USE;

/* Derives a key from a secret, the same on every server. 0 or CONCLAVE_ENOMEM. */
int scrypt_stretch(struct slice secret, const char *purpose,
                   uint8_t ret_key[SCRYPT_KEY_SIZE]) CONCLAVE_MUST_USE;

#endif
