/* conclave get: the data of a node, byte for byte. */
#include "base/json.h"
#include "cli/common/client_command.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/node_output.h"
#include "cli/common/options.h"

#include <stdio.h>
#include <unistd.h>

static const struct command_usage USAGE = {
    .name = "get",
    .forms = (const char *const[]){"PATH [options]", NULL},
    .about =
        "Writes the data of a node to the output as it is, so binary data can go to a file or a "
        "pipe. Only on a terminal a missing newline is added.",
    .rows = READ_ROWS,
    .more =
        "With --json: {\"path\":PATH,\"data\":TEXT,\"stat\":{...}}. Data that is not UTF-8 comes as "
        "\"data_base64\" instead of \"data\"; a node without data has \"data\":null.\n",
    .client = true,
    .operands_min = 1,
    .operands_max = 1,
};

static int get_print(const char *path, const struct conclave_reply *reply, bool as_json)
{
    struct json j;
    if (!as_json) {
        size_t len = reply->data_len;
        bool written = len == 0 || fwrite(reply->data, 1, len, stdout) == len;
        if (written && len > 0 && ((const char *)reply->data)[len - 1] != '\n' && isatty(1) == 1) {
            written = putchar('\n') != EOF; /* so that a prompt does not stand behind the data */
        }
        return written ? 0 : CONCLAVE_EIO;
    }
    json_line_begin(&j);
    json_member_string(&j, "path", path);
    json_data(&j, reply->data, reply->data_len);
    stat_json(&j, &reply->stat);
    return json_line_print(&j, stdout);
}

static int get_run(struct conclave_client *client, const void *target,
                   const struct operands *operands)
{
    const struct read_options *options = target;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, operands->words[0], 0);
    op.linearizable = options->linearizable;
    struct conclave_reply *reply = NULL;
    int error = conclave_call(client, &op, &reply);
    if (error == 0) {
        error = get_print(op.path, reply, options->common.json);
    }
    int code = error == 0 ? 0 : fail(USAGE.name, op.path, error);
    conclave_reply_free(reply);
    return code;
}

int command_get(int argc, char **argv)
{
    static const struct client_command COMMAND = {&USAGE, 0, NULL, get_run};
    struct read_options options = {.common = COMMON_OPTIONS_INIT};
    return client_command_run(&COMMAND, argc, argv, &options);
}
