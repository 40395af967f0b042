/* conclave rm: a node, or a branch from its leaves up. */
#include "cli/common/client_command.h"
#include "cli/common/node_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rm_options {
    struct common_options common;
    bool recursive;
    int64_t version;
    const char *fenced_by;
};

static const struct option_row ROWS[] = {
    {"recursive", 'r', OPTION_FLAG, offsetof(struct rm_options, recursive), NULL,
     "Remove everything below PATH first, node by node, children before parents."},
    {"version", 0, OPTION_INTEGER, offsetof(struct rm_options, version), "N",
     "Only if the node's version is N; see \"conclave stat\". Default: whatever it is."},
    OPTION_GROUP(FENCED_BY_ROWS, offsetof(struct rm_options, fenced_by)),
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "rm",
    .forms = (const char *const[]){"PATH [options]", NULL},
    .about = "Removes a node that has no children, or with --recursive a whole branch.",
    .rows = ROWS,
    .more = "With --json: {\"path\":PATH,\"removed\":NUMBER OF NODES}; without it nothing is "
            "printed. A branch is not removed in one step: others may see part of it, and nodes "
            "made meanwhile are removed, too. \"rm / --recursive\" removes everything but the root "
            "and /zookeeper.\n",
    .client = true,
    .operands = {1, 1},
};

/* New children may appear while a branch is removed; after this many rounds somebody is working against us. */
#define ROUNDS_MAX 16

static int remove_one(struct conclave_client *client, const char *path,
                      const struct rm_options *options, int64_t *removed)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, path, (int32_t)options->version);
    struct conclave_reply *reply;
    const struct conclave_reply *result;
    int error = call_fenced(client, options->fenced_by, &op, &reply, &result);
    conclave_reply_free(reply);
    *removed += error == 0;
    return error;
}

/* One pass over the nodes that are there now, last listed first. CONCLAVE_NOT_EMPTY: something was added meanwhile. */
static int remove_branch_once(struct conclave_client *client, const char *root,
                              const struct rm_options *options, int64_t *removed, char **ret_at)
{
    char **paths = NULL;
    size_t count = 0;
    int error = branch_list(client, root, false, &paths, &count);
    size_t at = 0;
    for (size_t i = count; error == 0 && i-- > 0;) {
        at = i;
        /* The root of the tree itself cannot be removed: "/" means all that is below. */
        bool own = strcmp(paths[i], "/") == 0 || strcmp(paths[i], "/zookeeper") == 0 ||
                   strncmp(paths[i], "/zookeeper/", 11) == 0;
        if (own && strcmp(root, "/") == 0) {
            continue;
        }
        error = remove_one(client, paths[i], options, removed);
        if (error == CONCLAVE_NO_NODE) {
            error = 0;
        }
    }
    *ret_at = error != 0 && count > 0 ? strdup(paths[at]) : NULL;
    branch_free(paths, count);
    return error;
}

/* ret_at, on the heap: the node at which it failed, where that is known. */
static int remove_branch(struct conclave_client *client, const char *root,
                         const struct rm_options *options, int64_t *removed, char **ret_at)
{
    int error = CONCLAVE_NOT_EMPTY;
    for (int round = 0; error == CONCLAVE_NOT_EMPTY && round < ROUNDS_MAX; round++) {
        free(*ret_at);
        error = remove_branch_once(client, root, options, removed, ret_at);
    }
    return error;
}

static int rm_check(void *target, const struct operands *operands)
{
    const struct rm_options *options = target;
    bool root = strcmp(operands->words[0], "/") == 0;
    const struct usage_rule rules[] = {
        {options->recursive && options->version != -1,
         "--version goes with one node, not with --recursive"},
        {root && !options->recursive, "the root always stays; with --recursive everything below it "
                                      "is removed, save /zookeeper"},
        {false, NULL},
    };
    return usage_check(&USAGE, rules);
}

static int rm_run(struct conclave_client *client, const void *target,
                  const struct operands *operands)
{
    const struct rm_options *options = target;
    const char *path = operands->words[0];
    int64_t removed = 0;
    char *at = NULL;
    int error = options->recursive ? remove_branch(client, path, options, &removed, &at)
                                   : remove_one(client, path, options, &removed);
    error = error == 0 ? report_count(options->common.json, path, "removed", removed) : error;
    if (error == CONCLAVE_BAD_ARGUMENTS && strncmp(path, "/zookeeper", 10) == 0) {
        fprintf(stderr, "conclave rm: %s belongs to the servers and cannot be removed\n", path);
        free(at);
        return CLI_EXIT_FAILED;
    }
    int code =
        error == 0 ? 0 : fail_write(USAGE.name, at != NULL ? at : path, options->fenced_by, error);
    free(at);
    return code;
}

int command_rm(int argc, char **argv)
{
    static const struct client_command COMMAND = {
        .usage = &USAGE, .check = rm_check, .run = rm_run};
    struct rm_options options = {.common = COMMON_OPTIONS_INIT, .version = -1};
    return client_command_run(&COMMAND, argc, argv, &options);
}
