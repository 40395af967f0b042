/*
 * Credentials that a command gives to the server: SCHEME:CREDENTIALS, from --auth, --auth-file or
 * $CONCLAVE_AUTH. They are shown nowhere: no message has them.
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

#endif
