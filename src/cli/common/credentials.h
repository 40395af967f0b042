/*
 * Credentials, TLS and SASL of a command's connection: from the common options and, without these, from the environment.
 * Credentials are SCHEME:CREDENTIALS, from --auth, --auth-file or $CONCLAVE_AUTH. No message shows them.
 */
#ifndef CLI_COMMON_CREDENTIALS_H
#define CLI_COMMON_CREDENTIALS_H

#include "cli/common/options.h"

#include <conclave/client.h>

/* Adds those of the options or, without any there, of the environment. 0, or the exit code after
 * the error was told. */
int credentials_add(const char *command, const struct common_options *options,
                    struct conclave_client *client);

/* Warns when others can read a file that holds a secret. */
void credentials_check_file(const char *command, const char *file);

/* Adds those of a text, one per line; empty lines and those that begin with '#' are passed over.
 * source: where it comes from, for the message. 0 or the exit code. */
int credentials_add_text(const char *command, const char *source, const char *text,
                         struct conclave_client *client);

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
