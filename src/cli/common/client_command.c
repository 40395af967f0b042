/* Options, connection and output of a simple client command. */
#include "cli/common/client_command.h"

static int request_run(const struct client_command *command, struct conclave_client *client,
                       const struct common_options *options, const char *path)
{
    struct conclave_op op = conclave_op_path(command->request, path, 0);
    struct conclave_reply *reply = NULL;
    struct record r;
    op.linearizable = options->linearizable;
    int error = conclave_call(client, &op, &reply);
    if (error == 0) {
        record_begin(&r, options->json);
        if (path != NULL) {
            record_add_path(&r, path);
        }
        error = command->print(&r, reply);
        int printed = record_print(&r);
        error = error == 0 ? printed : error;
    }
    conclave_reply_free(reply);
    return error == 0 ? 0 : fail(command->usage->name, path, error);
}

int report_count(bool as_json, const char *path, const char *key, int64_t count)
{
    struct record r;
    if (!as_json) {
        return 0;
    }
    record_begin(&r, true);
    record_add_path(&r, path);
    record_int(&r, key, count);
    return record_print(&r);
}

int client_command_run(const struct client_command *command, int argc, char **argv, void *target)
{
    const struct command_usage *usage = command->usage;
    struct operands operands;
    struct conclave_client *client;
    int code = options_parse(usage, argc, argv, target, &operands);
    const char *path = NULL;
    if (code == OPTIONS_GO_ON && command->path >= 0 && command->path < operands.count) {
        path = operands.words[command->path];
        code = path_check(usage, path);
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
    code = command->run != NULL ? command->run(client, target, &operands)
                                : request_run(command, client, target, path);
    connection_close(client);
    return output_end(usage->name, code);
}
