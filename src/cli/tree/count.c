/* conclave count: how many nodes there are below a node, counted by the server. */
#include "base/json.h"
#include "cli/common/client_command.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/node_output.h"

#include <inttypes.h>
#include <stdio.h>

static const struct command_usage USAGE = {
    .name = "count",
    .forms = (const char *const[]){"PATH [options]", NULL},
    .about = "Prints the number of nodes below a node, at any depth. The server counts, so nothing "
             "else is sent. ZooKeeper's servers know this since version 3.6.",
    .rows = READ_ROWS,
    .more = "With --json: {\"path\":PATH,\"count\":NUMBER}.\n",
    .client = true,
    .operands_min = 1,
    .operands_max = 1,
};

static int count_run(struct conclave_client *client, const void *target,
                     const struct operands *operands)
{
    const struct read_options *options = target;
    struct conclave_op op =
        conclave_op_path(CONCLAVE_OP_GET_ALL_CHILDREN_NUMBER, operands->words[0], 0);
    op.linearizable = options->linearizable;
    struct conclave_reply *reply = NULL;
    int error = conclave_call(client, &op, &reply);
    if (error == 0 && options->common.json) {
        struct json j;
        json_line_begin(&j);
        json_member_string(&j, "path", op.path);
        json_member_int(&j, "count", reply->total_number);
        error = json_line_print(&j, stdout);
    } else if (error == 0) {
        printf("%" PRId64 "\n", reply->total_number);
    }
    conclave_reply_free(reply);
    return error == 0 ? 0 : fail(USAGE.name, op.path, error);
}

int command_count(int argc, char **argv)
{
    static const struct client_command COMMAND = {&USAGE, 0, NULL, count_run};
    struct read_options options = {.common = COMMON_OPTIONS_INIT};
    return client_command_run(&COMMAND, argc, argv, &options);
}
