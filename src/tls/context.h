/*
 * What many TLS connections share: certificate, key, trusted certificates, versions and cipher suites, read from files
 * once. A context never changes: new files make a new context, and connections keep theirs.
 *
 * Files are PEM or PKCS12, recognised by their content, not by their names. Java's own keystore types (JKS, BCFKS) are
 * refused with the command that converts them. TLS 1.2 is the oldest version. No renegotiation, no compression, no
 * resumption: every connection authenticates again.
 */
#ifndef TLS_CONTEXT_H
#define TLS_CONTEXT_H

#include "base/slice.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stdint.h>

enum {
    TLS_TEXT_MAX = 640, /* size of an error text of one line, with NUL */
    TLS_1_2 = 12,
    TLS_1_3 = 13,
};

/* The requirement for the peer's certificate. */
enum tls_peer {
    TLS_PEER_NONE, /* not requested, or not checked */
    TLS_PEER_WANT, /* requested; if there is one it must be valid (only for a server) */
    TLS_PEER_NEED, /* required, must be valid */
};

/* Strings are borrowed; NULL means none. */
struct tls_settings {
    bool server;
    enum tls_peer peer;
    /* own certificate, then its chain up to the CA; may contain the key, too */
    const char *cert_file;
    const char *cert_password; /* password of the key or of the PKCS12 file */
    const char *key_file;      /* PEM key, if it is not in cert_file */
    /* certificates trusted as issuers, or as peers themselves; NULL for a client: the system's */
    const char *trust_file;
    const char *trust_password; /* password of a PKCS12 file */
    const char *crl_file; /* PEM: revoked certificates; then every peer's issuer needs a list */
    bool crl_check_all;   /* and so do the issuers above it, up to the trusted certificate */
    /* names of suites, OpenSSL's or Java's, separated by ',' or ':'; NULL: all suites of TLS 1.3, and those of TLS 1.2
     * with forward secrecy and authenticated encryption on elliptic curves */
    const char *ciphers;
    int version_min; /* TLS_1_2 or TLS_1_3; 0: TLS_1_2 */
    int version_max; /* 0: the newest */
    /* Not null: both sides prove this secret, by TLS 1.3, and of the fields above only `server` has an effect. It must
     * be hard to guess, because an eavesdropper can check guesses. */
    struct slice secret;
    struct slice other_secret; /* accepted from the other side as well, never sent; null: none */
};

struct tls_context;

/* 0, CONCLAVE_EINVAL (files or names are unusable: `why` says which, and what to do) or CONCLAVE_ENOMEM. Files are read
 * only here. */
int tls_context_create(const struct tls_settings *settings, struct tls_context **ret,
                       char why[TLS_TEXT_MAX]) CONCLAVE_MUST_USE;

/* Adds a reference; returns c. Not from two threads at once. */
struct tls_context *tls_context_share(struct tls_context *c);

/* Drops a reference. NULL does nothing. */
void tls_context_release(struct tls_context *c);

/* When the own certificate ends, in seconds since 1970; 0: there is none. */
int64_t tls_context_until_s(const struct tls_context *c);

/* `subject="CN=…" not_after="…"` of the own certificate, for a log line; "": none. */
const char *tls_context_describe(const struct tls_context *c);

#endif
