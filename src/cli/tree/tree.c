/* conclave tree: a branch, drawn by indentation. */
#include "cli/common/client_command.h"
#include "cli/common/node_output.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

struct tree_options {
    struct common_options common;
    int64_t depth;
};

static const struct option_row ROWS[] = {
    {"depth", 0, OPTION_INTEGER, offsetof(struct tree_options, depth), "N",
     "Go no deeper than N levels below PATH. Default: to the leaves."},
    OPTION_GROUP(READ_ROWS, 0),
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "tree",
    .forms = (const char *const[]){"[PATH] [options]", NULL},
    .about = "Shows a node and everything below it, one name per line, each level indented by two "
             "spaces; without PATH the whole tree. A node that is not read to its leaves because "
             "of --depth shows the number of its children, one that may not be read \"(not "
             "permitted)\".",
    .rows = ROWS,
    .more =
        "With --json, one object per node: {\"path\":PATH,\"depth\":LEVEL,\"stat\":{...}}, without stat where "
        "it may not be read. The tree may change while it is read.\n",
    .client = true,
    .operands = {0, 1},
};

static int node_show(const char *path, int depth, const struct conclave_reply *children, void *ctx)
{
    const struct tree_options *options = ctx;
    if (options->common.json) {
        struct record r;
        record_begin(&r, true);
        record_add_path(&r, path);
        record_int(&r, "depth", depth);
        if (children != NULL) {
            stat_json(&r.j, &children->stat);
        }
        return record_print(&r);
    }
    const char *name = depth == 0 ? path : strrchr(path, '/') + 1;
    printf("%*s%s", 2 * depth, "", name);
    if (children == NULL) {
        printf(" (not permitted)");
    } else if (depth == options->depth && children->stat.num_children > 0) {
        printf(" (%d)", (int)children->stat.num_children);
    }
    return putchar('\n') < 0 ? CONCLAVE_EIO : 0;
}

static int tree_run(struct conclave_client *client, const void *target,
                    const struct operands *operands)
{
    struct tree_options options = *(const struct tree_options *)target;
    const char *path = operands->count > 0 ? operands->words[0] : "/";
    int depth = options.depth >= 0 ? (int)options.depth : INT_MAX;
    int error = branch_walk(client, path, depth, options.common.linearizable, node_show, &options);
    return error == 0 ? 0 : fail(USAGE.name, path, error);
}

int command_tree(int argc, char **argv)
{
    static const struct client_command COMMAND = {.usage = &USAGE, .run = tree_run};
    struct tree_options options = {.common = COMMON_OPTIONS_INIT, .depth = -1};
    return client_command_run(&COMMAND, argc, argv, &options);
}
