/* conclave set: new data for a node that exists. */
#include "cli/common/client_command.h"
#include "cli/common/data_input.h"
#include "cli/common/node_output.h"

#include <string.h>

struct set_options {
    struct common_options common;
    const char *file;
    int64_t version;
    const char *fenced_by;
    struct buf data;
};

static const struct option_row ROWS[] = {
    {"file", 'f', OPTION_STRING, offsetof(struct set_options, file), "FILE",
     "Take the data from a file, \"-\" being the input."},
    {"version", 0, OPTION_INTEGER, offsetof(struct set_options, version), "N",
     "Only if the node's version is N; see \"conclave stat\". Default: whatever it is."},
    OPTION_GROUP(FENCED_BY_ROWS, offsetof(struct set_options, fenced_by)),
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "set",
    .forms = (const char *const[]){"PATH DATA [options]", "PATH - [options]",
                                   "PATH --file FILE [options]", NULL},
    .about = "Replaces the data of a node. DATA is taken as it is, without a newline at its end; "
             "\"-\" takes the input.",
    .rows = ROWS,
    .more = "With --json: {\"path\":PATH,\"stat\":{...}}; without it nothing is printed.\n",
    .client = true,
    .operands = {1, 2},
};

/* Reads the data that the arguments name. */
static int set_check(void *target, const struct operands *operands)
{
    struct set_options *options = target;
    const char *word = operands->count == 2 ? operands->words[1] : NULL;
    if ((word != NULL) == (options->file != NULL)) {
        return usage_error(&USAGE, word != NULL ? "give DATA or --file, not both"
                                                : "there is neither DATA nor --file");
    }
    if (word != NULL && strcmp(word, "-") != 0) {
        buf_append_str(&options->data, word);
        return buf_ok(&options->data) ? OPTIONS_GO_ON : fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
    }
    int code = data_read(USAGE.name, word != NULL ? word : options->file, &options->data);
    return code == 0 ? OPTIONS_GO_ON : code;
}

static int set_run(struct conclave_client *client, const void *target,
                   const struct operands *operands)
{
    const struct set_options *options = target;
    const char *path = operands->words[0];
    struct slice data = buf_slice(&options->data);
    struct conclave_op op = conclave_op_set(path, data.data, data.len, (int32_t)options->version);
    struct conclave_reply *reply;
    const struct conclave_reply *result;
    int error = call_fenced(client, options->fenced_by, &op, &reply, &result);
    if (error == 0 && result != NULL && options->common.json) {
        struct record r;
        record_begin(&r, true);
        record_add_path(&r, path);
        stat_json(&r.j, &result->stat);
        error = record_print(&r);
    }
    conclave_reply_free(reply);
    return error == 0 ? 0 : fail_write(USAGE.name, path, options->fenced_by, error);
}

int command_set(int argc, char **argv)
{
    static const struct client_command COMMAND = {
        .usage = &USAGE, .check = set_check, .run = set_run};
    struct set_options options = {.common = COMMON_OPTIONS_INIT, .version = -1};
    buf_init(&options.data, DATA_INPUT_MAX);
    int code = client_command_run(&COMMAND, argc, argv, &options);
    buf_finish(&options.data);
    return code;
}
