/* conclave ls: the children of a node, or all nodes below it. */
#include "cli/common/client_command.h"
#include "cli/common/node_output.h"

#include <stdlib.h>

struct ls_options {
    struct common_options common;
    bool recursive;
};

static const struct option_row ROWS[] = {
    {"recursive", 'r', OPTION_FLAG, offsetof(struct ls_options, recursive), NULL,
     "List everything below PATH, as whole paths, parents first."},
    OPTION_GROUP(READ_ROWS, 0),
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "ls",
    .forms = (const char *const[]){"PATH [options]", NULL},
    .about = "Lists the names of a node's children, one per line, in order of their bytes.",
    .rows = ROWS,
    .more = "With --json: {\"path\":PATH,\"children\":[NAMES],\"stat\":{...}}, or with --recursive "
            "{\"path\":PATH,\"nodes\":[PATHS]}. The tree may change while a branch is read.\n",
    .client = true,
    .operands = {1, 1},
};

static int list_children(struct conclave_client *client, const char *path,
                         const struct ls_options *options)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, path, 0);
    struct conclave_reply *reply = NULL;
    const char **names = NULL;
    op.linearizable = options->common.linearizable;
    int error = conclave_call(client, &op, &reply);
    if (error == 0) {
        names = names_sorted(reply->children, reply->children_count);
        error = names == NULL ? CONCLAVE_ENOMEM : 0;
    }
    if (error == 0) {
        struct record r;
        record_begin(&r, options->common.json);
        record_add_path(&r, path);
        record_names(&r, "children", names, reply->children_count);
        if (r.json) {
            stat_json(&r.j, &reply->stat);
        }
        error = record_print(&r);
    }
    free(names);
    conclave_reply_free(reply);
    return error == 0 ? 0 : fail(USAGE.name, path, error);
}

static int list_branch(struct conclave_client *client, const char *path,
                       const struct ls_options *options)
{
    char **paths = NULL;
    size_t count = 0;
    const char *at = path;
    int error = branch_list(client, path, options->common.linearizable, &paths, &count);
    if (error == 0) {
        struct record r;
        record_begin(&r, options->common.json);
        record_add_path(&r, path);
        /* The first is the root itself, which is not below itself. */
        record_names(&r, "nodes", (const char *const *)paths + 1, count - 1);
        error = record_print(&r);
    } else if (count > 0) {
        at = paths[0];
    }
    int code = error == 0 ? 0 : fail(USAGE.name, at, error);
    branch_free(paths, count);
    return code;
}

static int ls_run(struct conclave_client *client, const void *target,
                  const struct operands *operands)
{
    const struct ls_options *options = target;
    return options->recursive ? list_branch(client, operands->words[0], options)
                              : list_children(client, operands->words[0], options);
}

int command_ls(int argc, char **argv)
{
    static const struct client_command COMMAND = {.usage = &USAGE, .run = ls_run};
    struct ls_options options = {.common = COMMON_OPTIONS_INIT};
    return client_command_run(&COMMAND, argc, argv, &options);
}
