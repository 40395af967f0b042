/* conclave sync: waits until the server shows all that was acknowledged before, anywhere. */
#include "base/json.h"
#include "cli/common/client_command.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"

#include <stdio.h>

static const struct command_usage USAGE = {
    .name = "sync",
    .forms = (const char *const[]){"PATH [options]", NULL},
    .about = "Brings the server that this client is connected to up to date with the leader: "
             "what is read behind it, by the same connection, shows every change that was "
             "acknowledged before it. PATH need not exist. Of use in \"conclave shell\".",
    .more = "With --json: {\"path\":PATH,\"zxid\":ZXID}; without it nothing is printed.\n",
    .client = true,
    .operands_min = 1,
    .operands_max = 1,
};

static int sync_run(struct conclave_client *client, const void *target,
                    const struct operands *operands)
{
    const struct common_options *options = target;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, operands->words[0], 0);
    struct conclave_reply *reply = NULL;
    int error = conclave_call(client, &op, &reply);
    if (error == 0 && options->json) {
        struct json j;
        json_line_begin(&j);
        json_member_string(&j, "path", reply->path);
        json_member_hex(&j, "zxid", reply->zxid);
        error = json_line_print(&j, stdout);
    }
    conclave_reply_free(reply);
    return error == 0 ? 0 : fail(USAGE.name, op.path, error);
}

int command_sync(int argc, char **argv)
{
    static const struct client_command COMMAND = {&USAGE, 0, NULL, sync_run};
    struct common_options options = COMMON_OPTIONS_INIT;
    return client_command_run(&COMMAND, argc, argv, &options);
}
