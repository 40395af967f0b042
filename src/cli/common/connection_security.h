/*
 * TLS and SASL of a command's connection: from the common options and, for what they leave open, from
 * the environment.
 */
#ifndef CLI_COMMON_CONNECTION_SECURITY_H
#define CLI_COMMON_CONNECTION_SECURITY_H

#include "cli/common/options.h"

#include <conclave/client.h>

/* What a connection is opened with; holds what the client's options point to. */
struct connection_security {
    struct conclave_tls_options tls;
    struct conclave_sasl_options sasl;
    char why[512]; /* what is wrong with either, after conclave_client_open */
};

/* Sets client_options->tls and ->sasl, NULL where they are not wanted; they are good as long as
 * `s`. command: for a warning. */
void connection_security_fill(struct connection_security *s, const char *command,
                              const struct common_options *options,
                              struct conclave_client_options *client_options);

/* What line leaves open is taken from `from`, as a whole for each of both. True when line said nothing of them. */
bool connection_security_inherit(struct common_options *line, const struct common_options *from);

#endif
