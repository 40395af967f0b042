/* The frame of a command that asks a server something and ends: options, path, connection, work, output. */
#ifndef CLI_COMMON_CLIENT_COMMAND_H
#define CLI_COMMON_CLIENT_COMMAND_H

#include "cli/common/connection.h"
#include "cli/common/record.h"

struct client_command {
    const struct command_usage *usage;
    int path; /* index of the operand that is a path and may be left out if last; -1: none */
    /* Checks that options_parse cannot make, and input to read before the client connects:
     * OPTIONS_GO_ON or the exit code after the error was printed. May be NULL. */
    int (*check)(void *target, const struct operands *operands);
    /* The exit code; errors were printed. */
    int (*run)(struct conclave_client *client, const void *target, const struct operands *operands);
    /* Instead of run, for one request about the path: which, and what prints the answer. 0 or the error. */
    enum conclave_op_type request;
    int (*print)(struct record *r, const struct conclave_reply *reply);
};

/* {"path":PATH,KEY:COUNT} with --json, nothing without. 0 or the error of record_print. */
int report_count(bool as_json, const char *path, const char *key, int64_t count);

/* target: begins with struct common_options, holds the defaults. The exit code. */
int client_command_run(const struct client_command *command, int argc, char **argv, void *target);

#endif
