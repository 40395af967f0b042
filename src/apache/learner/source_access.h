/*
 * What the link to an Apache ZooKeeper proves and checks, when its servers want that of each other: TLS with certificates
 * (sslQuorum), a login by SASL (quorum.auth.enableSasl), or both.
 *
 * Limits: of SASL only DIGEST-MD5. Files are read once.
 */
#ifndef APACHE_LEARNER_SOURCE_ACCESS_H
#define APACHE_LEARNER_SOURCE_ACCESS_H

#include "tls/context.h"

struct cyrus_settings;

/* Strings are borrowed. */
struct source_settings {
    bool tls;
    struct tls_settings certificates; /* with tls */
    bool verify_hosts;                /* a certificate must name the host of the list of servers */
    const char *user;                 /* NULL: no SASL */
    const char *password;
};

struct source_access {
    struct tls_context *tls; /* NULL: no TLS */
    bool verify_hosts;
    struct cyrus_settings *login; /* NULL: no SASL */
};

/* 0; or CONCLAVE_EINVAL, CONCLAVE_EUNSUPPORTED or CONCLAVE_ENOMEM with *ret_text: the fault and its remedy. */
int source_access_init(struct source_access *a, const struct source_settings *settings,
                       char **ret_text) CONCLAVE_MUST_USE;

/* Takes what is all zero. */
void source_access_finish(struct source_access *a);

#endif
