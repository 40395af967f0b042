/*
 * Makes a CA, and certificates that it signs: P-256 keys, SHA-256, the extensions that RFC 5280 wants. For tests and small
 * sites: the CA's key is a file, there is no revocation, and nobody approves a request.
 */
#ifndef TLS_CERTIFICATE_MAKER_H
#define TLS_CERTIFICATE_MAKER_H

#include "base/buf.h"
#include "tls/context.h"

#include <stdint.h>

enum {
    CERTIFICATE_NAMES_MAX = 32,
    CERTIFICATE_END_MAX = 48,         /* room for the text of a date */
    CERTIFICATE_COMMON_NAME_MAX = 64, /* X.520's limit; a longer one is left out of the subject */
};

/* A certificate and its key. */
struct certificate_pair;

/* What a certificate is for. Strings are borrowed. */
struct certificate_wish {
    const char *common_name;
    const char *const
        *names;     /* alternative names: host names, or IP addresses in their usual form */
    size_t n_names; /* at most CERTIFICATE_NAMES_MAX; 0: a client, which no host name fits */
    bool server;    /* also to serve; else only to connect */
    int days;       /* until it ends, but not after its CA */
};

/* Each returns 0, CONCLAVE_ENOMEM (also for OpenSSL's own failures), or CONCLAVE_EINVAL with `why`. */

int certificate_pair_create_ca(const char *common_name, int days,
                               struct certificate_pair **ret) CONCLAVE_MUST_USE;

int certificate_pair_issue(const struct certificate_pair *ca, const struct certificate_wish *wish,
                           struct certificate_pair **ret, char why[TLS_TEXT_MAX]) CONCLAVE_MUST_USE;

/* The same subject, names, purpose and key, with a new number and a new end. */
int certificate_pair_renew(const struct certificate_pair *ca, const struct certificate_pair *old,
                           int days, struct certificate_pair **ret,
                           char why[TLS_TEXT_MAX]) CONCLAVE_MUST_USE;

/* Reads PEM texts, and checks that certificate and key belong together. */
int certificate_pair_read(struct slice certificate, struct slice key, struct certificate_pair **ret,
                          char why[TLS_TEXT_MAX]) CONCLAVE_MUST_USE;

void certificate_pair_destroy(struct certificate_pair *p);

/* Appends PEM; wipe the key's buffer after use. */
int certificate_pair_write(const struct certificate_pair *p, struct buf *certificate,
                           struct buf *key) CONCLAVE_MUST_USE;

bool certificate_pair_is_ca(const struct certificate_pair *p);

/* Whether `ca` signed it. */
bool certificate_pair_is_of(const struct certificate_pair *p, const struct certificate_pair *ca);

/* "2027-11-24": the last day; "?" if it cannot be told. */
void certificate_pair_end(const struct certificate_pair *p, char ret[CERTIFICATE_END_MAX]);

#endif
