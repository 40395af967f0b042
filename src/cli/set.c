/* conclave set: new data for a node that exists. */
#include "base/json.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "cli/data_input.h"
#include "cli/node.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

struct set_options {
    struct common_options common;
    const char *file;
    int64_t version;
};

static const struct option_row ROWS[] = {
    {"file", 'f', OPTION_STRING, offsetof(struct set_options, file), "FILE",
     "Take the data from a file, \"-\" being the input.", NULL},
    {"version", 0, OPTION_INTEGER, offsetof(struct set_options, version), "N",
     "Only if the node's version is N; see \"conclave stat\". Default: whatever it is.", NULL},
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
    .operands_min = 1,
    .operands_max = 2,
};

/* The data that the arguments name. OPTIONS_GO_ON or the exit code. */
static int set_data(const struct set_options *options, const struct operands *operands,
                    struct buf *data)
{
    const char *word = operands->count == 2 ? operands->words[1] : NULL;
    if ((word != NULL) == (options->file != NULL)) {
        return usage_error(&USAGE, word != NULL ? "give DATA or --file, not both"
                                                : "there is neither DATA nor --file");
    }
    if (word != NULL && strcmp(word, "-") != 0) {
        buf_append_str(data, word);
        return buf_ok(data) ? OPTIONS_GO_ON : fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
    }
    int code = data_read(USAGE.name, word != NULL ? word : options->file, data);
    return code == 0 ? OPTIONS_GO_ON : code;
}

static int set_run(const struct set_options *options, const char *path, const struct buf *data)
{
    struct conclave_client *client;
    struct conclave_reply *reply = NULL;
    struct json j;
    int code = connection_open(USAGE.name, &options->common, NULL, NULL, &client);
    if (code != 0) {
        return code;
    }
    struct slice bytes = buf_slice(data);
    struct conclave_op op = conclave_op_set(path, bytes.data, bytes.len, (int32_t)options->version);
    int error = conclave_call(client, &op, &reply);
    if (error == 0 && options->common.json) {
        json_init(&j);
        json_object_begin(&j);
        json_key(&j, "path");
        json_string(&j, path);
        stat_json(&j, &reply->stat);
        json_object_end(&j);
        error = json_print(&j, stdout);
        json_finish(&j);
    }
    conclave_reply_free(reply);
    connection_close(client);
    return output_end(USAGE.name, error == 0 ? 0 : fail(USAGE.name, path, error));
}

int command_set(int argc, char **argv)
{
    struct set_options options = {.common = COMMON_OPTIONS_INIT, .version = -1};
    struct operands operands;
    struct buf data;
    int code = options_parse(&USAGE, argc, argv, &options, &operands);
    if (code == OPTIONS_GO_ON) {
        code = path_check(&USAGE, operands.words[0]);
    }
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    buf_init(&data, DATA_INPUT_MAX);
    code = set_data(&options, &operands, &data);
    if (code == OPTIONS_GO_ON) {
        code = set_run(&options, operands.words[0], &data);
    }
    buf_finish(&data);
    return code;
}
