/* The frame of a command that asks a server something and ends: options, path, connection, work,
 * output. */
#ifndef CLI_COMMON_CLIENT_COMMAND_H
#define CLI_COMMON_CLIENT_COMMAND_H

#include "cli/common/options.h"

#include <conclave/client.h>

struct client_command {
    const struct command_usage *usage;
    int path; /* index of the operand that is a path and may be left out if last; -1: none */
    /* What options_parse cannot know, and what is to be read before there is a connection:
     * OPTIONS_GO_ON or the exit code after the error was told. May be NULL. */
    int (*check)(void *target, const struct operands *operands);
    /* The exit code; errors were told. */
    int (*run)(struct conclave_client *client, const void *target, const struct operands *operands);
};

/* target: begins with struct common_options, holds the defaults. The exit code. */
int client_command_run(const struct client_command *command, int argc, char **argv, void *target);

#endif
