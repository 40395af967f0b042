/* conclave ls: the children of a node, or all nodes below it. */
#include "base/json.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/node_output.h"
#include "cli/common/options.h"

#include <stdio.h>
#include <stdlib.h>

struct ls_options {
    struct common_options common;
    bool recursive;
    bool linearizable;
};

static const struct option_row ROWS[] = {
    {"recursive", 'r', OPTION_FLAG, offsetof(struct ls_options, recursive), NULL,
     "List everything below PATH, as whole paths, parents first.", NULL},
    LINEARIZABLE_ROW(struct ls_options, linearizable),
    READ_ONLY_ROW,
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
    .operands_min = 1,
    .operands_max = 1,
};

static int list_children(struct conclave_client *client, const char *path,
                         const struct ls_options *options)
{
    bool as_json = options->common.json;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, path, 0);
    op.linearizable = options->linearizable;
    struct conclave_reply *reply = NULL;
    int error = conclave_call(client, &op, &reply);
    const char **names = NULL;
    if (error == 0) {
        names = names_sorted(reply->children, reply->children_count);
        error = names == NULL ? CONCLAVE_ENOMEM : 0;
    }
    if (error == 0 && as_json) {
        struct json j;
        json_line_begin(&j);
        json_member_string(&j, "path", path);
        json_key(&j, "children");
        json_array_begin(&j);
        for (size_t i = 0; i < reply->children_count; i++) {
            json_string(&j, names[i]);
        }
        json_array_end(&j);
        stat_json(&j, &reply->stat);
        error = json_line_print(&j, stdout);
    } else if (error == 0) {
        for (size_t i = 0; i < reply->children_count; i++) {
            puts(names[i]);
        }
    }
    free(names);
    conclave_reply_free(reply);
    return error;
}

/* The exit code. */
static int list_branch(struct conclave_client *client, const char *path,
                       const struct ls_options *options)
{
    bool as_json = options->common.json;
    char **paths = NULL;
    size_t count = 0;
    struct json j;
    int error = branch_list(client, path, options->linearizable, &paths, &count);
    if (error != 0) {
        int code = fail(USAGE.name, count > 0 ? paths[0] : path, error);
        branch_free(paths, count);
        return code;
    }
    json_line_begin(&j);
    json_member_string(&j, "path", path);
    json_key(&j, "nodes");
    json_array_begin(&j);
    /* The first is the root itself, which is not below itself. */
    for (size_t i = 1; i < count; i++) {
        if (as_json) {
            json_string(&j, paths[i]);
        } else {
            puts(paths[i]);
        }
    }
    json_array_end(&j);
    json_object_end(&j);
    if (as_json) {
        error = json_print(&j, stdout);
    }
    json_finish(&j);
    branch_free(paths, count);
    return error == 0 ? 0 : fail(USAGE.name, path, error);
}

int command_ls(int argc, char **argv)
{
    struct ls_options options = {.common = COMMON_OPTIONS_INIT};
    struct operands operands;
    struct conclave_client *client;
    int code = options_parse(&USAGE, argc, argv, &options, &operands);
    if (code == OPTIONS_GO_ON) {
        code = path_check(&USAGE, operands.words[0]);
    }
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    code = connection_open(USAGE.name, &options.common, NULL, NULL, &client);
    if (code != 0) {
        return code;
    }
    const char *path = operands.words[0];
    if (options.recursive) {
        code = list_branch(client, path, &options);
    } else {
        int error = list_children(client, path, &options);
        code = error == 0 ? 0 : fail(USAGE.name, path, error);
    }
    connection_close(client);
    return output_end(USAGE.name, code);
}
