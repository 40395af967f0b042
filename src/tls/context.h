/*
 * What many TLS connections share: certificate, key, trusted certificates, versions and cipher
 * suites, read from files once. A context never changes: new files make a new context, and
 * connections keep the one they began with.
 *
 * Files are PEM or PKCS12, told apart by what they hold, not by their names. Java's own keystore
 * forms (JKS, BCFKS) are refused with the command that converts them. TLS 1.2 is the least version.
 * No renegotiation, no compression, no resumption: every connection proves its certificate anew.
 */
#ifndef TLS_CONTEXT_H
#define TLS_CONTEXT_H

#include "base/slice.h"

#include <conclave/error.h>

#include <stdbool.h>

enum {
    TLS_TEXT_MAX = 640, /* a line that says what failed, with NUL */
    TLS_1_2 = 12,
    TLS_1_3 = 13,
};

/* What is wanted of the peer's certificate. */
enum tls_peer {
    TLS_PEER_NONE, /* not asked for, or not looked at */
    TLS_PEER_WANT, /* asked for; if there is one it must be good (a server only) */
    TLS_PEER_NEED, /* must be there and be good */
};

/* Strings are borrowed; NULL means none. */
struct tls_settings {
    bool server;
    enum tls_peer peer;
    /* own certificate, then those between it and the CA; may hold the key, too */
    const char *cert_file;
    const char *cert_password; /* of the key or of the PKCS12 file */
    const char *key_file;      /* PEM key, when it does not stand in cert_file */
    /* certificates trusted as issuers, or as peers themselves; NULL for a client: the system's */
    const char *trust_file;
    const char *trust_password; /* of a PKCS12 file */
    const char *crl_file; /* PEM: revoked certificates; every peer's issuer must have a list then */
    bool crl_check_all;   /* and so must the issuers above it, up to the trusted certificate */
    /* names of suites, OpenSSL's or Java's, divided by ',' or ':'; NULL: all suites of TLS 1.3, and
     * of TLS 1.2 those with forward secrecy and authenticated encryption on elliptic curves */
    const char *ciphers;
    int version_min; /* TLS_1_2 or TLS_1_3; 0: TLS_1_2 */
    int version_max; /* 0: the newest */
    /* Not null: both sides prove this secret, by TLS 1.3, and all fields above but `server` have no
     * effect. It should be one that cannot be guessed: who listens in can try guesses. */
    struct slice secret;
};

struct tls_context;

/* 0, or CONCLAVE_EINVAL (the files or names are not usable: `why` says which, and what to do) or
 * CONCLAVE_ENOMEM. Files are read here and not again. */
int tls_context_create(const struct tls_settings *settings, struct tls_context **ret,
                       char why[TLS_TEXT_MAX]) CONCLAVE_MUST_USE;

/* Another holder of the same context; returns it. Not from two threads at once. */
struct tls_context *tls_context_share(struct tls_context *c);

/* Gives one hold back. Takes NULL. */
void tls_context_release(struct tls_context *c);

/* `subject="CN=…" not_after="…"` of the own certificate, for a log line; "" without one. */
const char *tls_context_describe(const struct tls_context *c);

#endif
