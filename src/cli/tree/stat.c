/* conclave stat: what the server knows about a node beside its data. */
#include "base/json.h"
#include "cli/common/client_command.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/node_output.h"
#include "cli/common/options.h"

#include <stdio.h>

static const struct command_usage USAGE = {
    .name = "stat",
    .forms = (const char *const[]){"PATH [options]", NULL},
    .about = "Shows a node's stat, one \"name value\" per line:\n"
             "\n"
             "  czxid, mzxid, pzxid  change that made it, that last changed its data, its\n"
             "                       children; the czxid of a leader's node is its token\n"
             "  ctime, mtime         when, by the server's clock, in UTC\n"
             "  version              number of changes of its data; cversion: of its\n"
             "                       children; aversion: of its ACL\n"
             "  ephemeral_owner      session it goes with; 0x0: none\n"
             "  data_length          bytes of data\n"
             "  num_children         number of children\n",
    .rows = READ_ROWS,
    .more = "With --json: {\"path\":PATH,\"stat\":{...}} with the same names.\n",
    .client = true,
    .operands_min = 1,
    .operands_max = 1,
};

static int stat_report(const char *path, const struct conclave_stat *stat, bool as_json)
{
    struct json j;
    if (!as_json) {
        stat_print(stat);
        return 0;
    }
    json_line_begin(&j);
    json_member_string(&j, "path", path);
    stat_json(&j, stat);
    return json_line_print(&j, stdout);
}

static int stat_run(struct conclave_client *client, const void *target,
                    const struct operands *operands)
{
    const struct read_options *options = target;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, operands->words[0], 0);
    op.linearizable = options->linearizable;
    struct conclave_reply *reply = NULL;
    int error = conclave_call(client, &op, &reply);
    if (error == 0) {
        error = stat_report(op.path, &reply->stat, options->common.json);
    }
    int code = error == 0 ? 0 : fail(USAGE.name, op.path, error);
    conclave_reply_free(reply);
    return code;
}

int command_stat(int argc, char **argv)
{
    static const struct client_command COMMAND = {&USAGE, 0, NULL, stat_run};
    struct read_options options = {.common = COMMON_OPTIONS_INIT};
    return client_command_run(&COMMAND, argc, argv, &options);
}
