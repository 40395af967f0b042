/*
 * Credentials, TLS and SASL of a command's connection: from the common options and, without these, from the environment.
 * Credentials are SCHEME:CREDENTIALS, from --auth, --auth-file or $CONCLAVE_AUTH. No message shows them.
 */
#ifndef CLI_COMMON_CREDENTIALS_H
#define CLI_COMMON_CREDENTIALS_H

#include "cli/common/options.h"

#include <conclave/client.h>

/* Adds those of the options or, without any there, of the environment. 0, or the exit code after
 * the error was printed. */
int credentials_add(const char *command, const struct common_options *options,
                    struct conclave_client *client);

/* Warns when others can read a file that holds a secret. */
void credentials_check_file(const char *command, const char *file);

/* Adds those of a text, one per line; empty lines and those that begin with '#' are passed over.
 * source: where it comes from, for the message. 0 or the exit code. */
int credentials_add_text(const char *command, const char *source, const char *text,
                         struct conclave_client *client);

/* The credentials of a connection; owns the memory to which the client's options point. */
struct connection_security {
    struct conclave_tls_options tls;
    struct conclave_sasl_options sasl;
    char why[512]; /* the fault of either, after conclave_client_open */
};

/* Sets client_options->tls and ->sasl, NULL where they are not wanted; they are good as long as
 * `s`. command: for a warning. */
void connection_security_fill(struct connection_security *s, const char *command,
                              const struct common_options *options,
                              struct conclave_client_options *client_options);

/* Takes from `from` each of the two that line does not give, as a whole. True when line gives neither. */
bool connection_security_inherit(struct common_options *line, const struct common_options *from);

#endif
