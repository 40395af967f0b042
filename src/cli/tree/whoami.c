/* conclave whoami: who this client is to the server. */
#include "base/json.h"
#include "cli/common/client_command.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"

#include <stdio.h>

static const struct command_usage USAGE = {
    .name = "whoami",
    .forms = (const char *const[]){"[options]", NULL},
    .about = "Shows who the server takes this client for, one SCHEME:ID per line: its address, and "
             "whom its credentials (--auth) or its certificate stand for. These are what the ACLs "
             "of nodes are compared with. ZooKeeper's servers know this since version 3.7.",
    .more = "With --json: {\"identities\":[{\"scheme\":S,\"id\":I}]}.\n",
    .client = true,
};

static int identities_json(const struct conclave_reply *reply)
{
    struct json j;
    json_list_begin(&j, "identities");
    for (size_t i = 0; i < reply->identities_count; i++) {
        json_object_begin(&j);
        json_member_string(&j, "scheme", reply->identities[i].scheme);
        json_member_string(&j, "id", reply->identities[i].id);
        json_object_end(&j);
    }
    return json_list_print(&j, stdout);
}

static int whoami_run(struct conclave_client *client, const void *target,
                      const struct operands *operands)
{
    const struct common_options *options = target;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_WHO_AM_I, NULL, 0);
    struct conclave_reply *reply = NULL;
    int error = conclave_call(client, &op, &reply);
    if (error == 0 && options->json) {
        error = identities_json(reply);
    } else if (error == 0) {
        for (size_t i = 0; i < reply->identities_count; i++) {
            printf("%s:%s\n", reply->identities[i].scheme, reply->identities[i].id);
        }
    }
    conclave_reply_free(reply);
    return error == 0 ? 0 : fail(USAGE.name, NULL, error);
}

int command_whoami(int argc, char **argv)
{
    static const struct client_command COMMAND = {&USAGE, -1, NULL, whoami_run};
    struct common_options options = COMMON_OPTIONS_INIT;
    return client_command_run(&COMMAND, argc, argv, &options);
}
