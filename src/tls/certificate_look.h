/* What an operator should know about the certificate of a server before it is used: dates, names, issuer. */
#ifndef TLS_CERTIFICATE_LOOK_H
#define TLS_CERTIFICATE_LOOK_H

#include "tls/context.h"

#include <stdint.h>

/* A loaded certificate, and its key. */
struct certificate_look;

struct certificate_dates {
    int64_t begins_s; /* since 1970 */
    int64_t ends_s;
};

/* Loads the own certificate of the settings, its key and its chain, and the trusted certificates where there are any. 0,
 * CONCLAVE_EINVAL (`why` says which file, and why) or CONCLAVE_ENOMEM. */
int certificate_look_open(const struct tls_settings *settings, struct certificate_look **ret,
                          char why[TLS_TEXT_MAX]) CONCLAVE_MUST_USE;
void certificate_look_close(struct certificate_look *l);

void certificate_look_dates(const struct certificate_look *l, struct certificate_dates *ret);

/* Whether it is for this host, a name or a numeric address: only subject alternative names count, as in tls.h. */
bool certificate_look_is_for(const struct certificate_look *l, const char *host);

/* Whether the trusted certificates of the settings verify it, its dates apart; false with the reason, a fixed text. */
bool certificate_look_is_trusted(const struct certificate_look *l, const char **ret_why);

#endif
