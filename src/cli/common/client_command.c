/* Options, connection and output of a simple client command. */
#include "cli/common/client_command.h"

#include "cli/common/connection.h"

int client_command_run(const struct client_command *command, int argc, char **argv, void *target)
{
    const struct command_usage *usage = command->usage;
    struct operands operands;
    struct conclave_client *client;
    int code = options_parse(usage, argc, argv, target, &operands);
    if (code == OPTIONS_GO_ON && command->path >= 0 && command->path < operands.count) {
        code = path_check(usage, operands.words[command->path]);
    }
    if (code == OPTIONS_GO_ON && command->check != NULL) {
        code = command->check(target, &operands);
    }
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    code = connection_open(usage->name, target, NULL, NULL, &client);
    if (code != 0) {
        return code;
    }
    code = command->run(client, target, &operands);
    connection_close(client);
    return output_end(usage->name, code);
}
