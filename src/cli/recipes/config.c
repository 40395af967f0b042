/* conclave config: arguments and help; writing, and what the readers have acknowledged. */
#include "cli/recipes/config.h"

#include "base/buf.h"
#include "base/json.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/data_input.h"
#include "cli/common/values.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(name) offsetof(struct config_options, name)

enum { FILES_MAX = 100 }; /* of one change */

static const struct option_row ROWS[] = {
    {"tree", 0, OPTION_FLAG, FIELD(tree), NULL,
     "get, watch: PATH and all below it, not its value alone. put: below PATH what each FILE holds, "
     "under its last name or NAME, all in one change.",
     NULL},
    {"cache", 0, OPTION_STRING, FIELD(cache), "FILE",
     "get, watch: keep the last state in FILE, and use it while no server is reached.", NULL},
    {"file", 0, OPTION_STRING, FIELD(file), "FILE",
     "watch: put each state into FILE, by renaming a new one to it, before CMD runs. put: as "
     "--data-file.",
     NULL},
    {"ack", 0, OPTION_STRING, FIELD(ack), "ID",
     "watch: acknowledge each state under this name, with an error when CMD fails.", NULL},
    {"ack-path", 0, OPTION_STRING, FIELD(ack_path), "PATH",
     "watch, ack, status: where the acknowledgements stand; default PATH.acks.", NULL},
    {"debounce", 0, OPTION_DURATION, FIELD(debounce_ms), "DURATION",
     "watch: gather changes for so long before they are told. Default 0.", NULL},
    {"data-file", 0, OPTION_STRING, FIELD(data_file), "FILE",
     "put: what FILE holds (\"-\": the input) instead of DATA.", NULL},
    {"version", 0, OPTION_INTEGER, FIELD(version), "N", "put: only if the node has this version.",
     NULL},
    {"create", 0, OPTION_FLAG, FIELD(create), NULL, "put: only if there is no node yet.", NULL},
    {"group", 0, OPTION_STRING, FIELD(group), "PATH",
     "ack, status: of the members of this group, not of those who have acknowledged something.",
     NULL},
    {"at-least", 0, OPTION_INTEGER, FIELD(at_least), "N", "ack: of so many. Default 0.", NULL},
    {"connect-timeout", 0, OPTION_DURATION, FIELD(connect_timeout_ms), "DURATION",
     "watch without --cache: give up, with exit code 69, when no server was reached in this time; "
     "default 30s. Later losses of the connection are waited out.",
     NULL},
    ACL_ROW,
    {.name = NULL},
};

const struct command_usage CONFIG_USAGE = {
    .name = "config",
    .forms = (const char *const[]){"get PATH [options]", "put PATH [DATA] [options]",
                                   "put --tree PATH [NAME=]FILE... [options]",
                                   "watch PATH [options] [-- CMD [ARG...]]",
                                   "ack PATH MZXID [options]", "status PATH [options]", NULL},
    .about = "A configuration is the value of a node, or a whole branch.\n"
             "\n"
             "  get     prints it\n"
             "  put     writes it, if nobody else wrote it meanwhile, and prints the new\n"
             "          version and MZXID, the number of the change\n"
             "  watch   prints each state and has CMD run for it, one after the other; of\n"
             "          changes in quick succession the last counts. STALE and FRESH: the\n"
             "          servers are not reached, or again\n"
             "  ack     waits until all who acknowledge have applied the change MZXID, or\n"
             "          one has refused: one stage of a roll-out\n"
             "  status  prints what each has acknowledged",
    .rows = ROWS,
    .more =
        "CMD finds in its environment CONCLAVE_FILE (a file with the value; empty when there is "
        "no node; of a tree, lines of JSON), CONCLAVE_PATH, CONCLAVE_ZXID, CONCLAVE_MZXID and "
        "CONCLAVE_STALE (1: from the cache). If it does not end with 0, the state counts as "
        "not applied: the cache keeps the one before, and the acknowledgement says so.\n"
        "\n"
        "With --json: one object for each line.\n"
        "\n"
        "Exit codes: 0; 1 no node, another version, or (ack) somebody refused; 69 no server, 75 "
        "(ack) not all in time, 77 not permitted.\n",
    .client = true,
    .runs_command = true,
    .operands_min = 2,
    .operands_max = 2 + FILES_MAX,
};

/* --- put ------------------------------------------------------------------------------------ */

/* Of several nodes there is no version. */
static int put_print(const struct config_options *options,
                     const struct conclave_config_written *written)
{
    struct json j;
    if (!options->common.json) {
        if (!options->tree) {
            printf("%" PRId32 "\t", written->version);
        }
        printf("%" PRId64 "\n", written->mzxid);
        return 0;
    }
    json_line_begin(&j);
    if (!options->tree) {
        json_member_int(&j, "version", written->version);
    }
    json_member_int(&j, "mzxid", written->mzxid);
    return json_line_print(&j, stdout);
}

static int config_put(struct conclave_recipes *recipes, const struct config_options *options,
                      const struct operands *operands)
{
    struct conclave_config_written written;
    struct buf data;
    int32_t expected = options->create         ? CONCLAVE_CONFIG_ABSENT
                       : options->version >= 0 ? (int32_t)options->version
                                               : CONCLAVE_CONFIG_ANY;
    const char *path = operands->words[1];
    buf_init(&data, DATA_INPUT_MAX);
    if (options->data_file != NULL) {
        int code = data_read(CONFIG_USAGE.name, options->data_file, &data);
        if (code != 0) {
            buf_finish(&data);
            return code;
        }
    } else {
        buf_append_str(&data, operands->words[2]);
    }
    int error = data.failed ? CONCLAVE_ENOMEM
                            : conclave_config_put(recipes, path, data.data, data.len, expected,
                                                  options->common.timeout_ms, &written);
    buf_finish(&data);
    if (error == 0) {
        error = put_print(options, &written);
    }
    return error == 0 ? 0 : fail(CONFIG_USAGE.name, path, error);
}

/* --- put --tree ----------------------------------------------------------------------------- */

/* A file for a node below PATH. */
struct tree_file {
    char *path; /* heap */
    struct buf data;
};

/* word is FILE or NAME=FILE. 0, or the exit code after the error was told. */
static int tree_file_read(const char *path, const char *word, struct tree_file *ret)
{
    const char *equals = strchr(word, '=');
    const char *file = equals == NULL ? word : equals + 1;
    const char *slash = strrchr(file, '/');
    const char *name = equals != NULL ? word : slash != NULL ? slash + 1 : file;
    size_t len = equals != NULL ? (size_t)(equals - word) : strlen(name);
    size_t size = strlen(path) + len + 2;
    ret->path = malloc(size);
    if (ret->path == NULL) {
        return fail(CONFIG_USAGE.name, NULL, CONCLAVE_ENOMEM);
    }
    (void)snprintf(ret->path, size, "%s/%.*s", strcmp(path, "/") == 0 ? "" : path, (int)len, name);
    int code = path_check(&CONFIG_USAGE, ret->path);
    return code == OPTIONS_GO_ON ? data_read(CONFIG_USAGE.name, file, &ret->data) : code;
}

static int tree_write(struct conclave_recipes *recipes, const struct config_options *options,
                      const char *path, const struct tree_file *files, size_t count)
{
    struct conclave_config_entry entries[FILES_MAX];
    struct conclave_config_written written = {0};
    for (size_t i = 0; i < count; i++) {
        entries[i] = (struct conclave_config_entry){
            files[i].path, files[i].data.data, files[i].data.len,
            options->create ? CONCLAVE_CONFIG_ABSENT : CONCLAVE_CONFIG_ANY};
    }
    int error = conclave_config_put_many(recipes, entries, count, options->common.timeout_ms,
                                         &written.mzxid);
    if (error == 0) {
        error = put_print(options, &written);
    }
    return error == 0 ? 0 : fail(CONFIG_USAGE.name, path, error);
}

static int config_put_tree(struct conclave_recipes *recipes, const struct config_options *options,
                           const struct operands *operands)
{
    static struct tree_file files[FILES_MAX];
    const char *path = operands->words[1];
    size_t count = (size_t)operands->count - 2;
    int code = 0;
    for (size_t i = 0; i < count; i++) {
        files[i].path = NULL;
        buf_init(&files[i].data, DATA_INPUT_MAX);
    }
    for (size_t i = 0; i < count && code == 0; i++) {
        code = tree_file_read(path, operands->words[2 + i], &files[i]);
    }
    if (code == 0) {
        code = tree_write(recipes, options, path, files, count);
    }
    for (size_t i = 0; i < count; i++) {
        free(files[i].path);
        buf_finish(&files[i].data);
    }
    return code;
}

/* --- ack and status ---------------------------------------------------------------------------- */

static int ack_print(bool as_json, const struct conclave_config_ack *ack)
{
    struct json j;
    const char *state = !ack->acked ? "nothing" : conclave_errname(ack->error);
    if (!as_json) {
        printf("%s\t%s\t%" PRId64 "\t%" PRId64 "\t%s\n", ack->id, state, ack->zxid, ack->mzxid,
               ack->why);
        return 0;
    }
    json_line_begin(&j);
    json_member_string(&j, "id", ack->id);
    json_member_bool(&j, "acked", ack->acked);
    json_member_int(&j, "zxid", ack->zxid);
    json_member_int(&j, "mzxid", ack->mzxid);
    json_member_string(&j, "error", conclave_errname(ack->error));
    json_member_string(&j, "why", ack->why);
    return json_line_print(&j, stdout);
}

static int config_acks(struct conclave_recipes *recipes, const struct config_options *options,
                       const char *path, int64_t zxid)
{
    struct conclave_config_acks_options wanted = CONCLAVE_CONFIG_ACKS_OPTIONS_INIT;
    struct conclave_config_ack *list = NULL;
    size_t count = 0;
    int printed = 0;
    wanted.path = path;
    wanted.ack_path = options->ack_path;
    wanted.group_path = options->group;
    wanted.zxid = zxid;
    wanted.at_least = (size_t)options->at_least;
    int error =
        conclave_config_wait_acked(recipes, &wanted, options->common.timeout_ms, &list, &count);
    output_titles(&options->common, count, "ID\tRESULT\tZXID\tMZXID\tWHY");
    for (size_t i = 0; i < count && printed == 0; i++) {
        printed = ack_print(options->common.json, &list[i]);
    }
    conclave_config_acks_free(list, count);
    if (error == CONCLAVE_ECONFLICT || (error == CONCLAVE_ETIMEDOUT && list != NULL)) {
        fprintf(stderr, "conclave config: %s: %s\n", path,
                error == CONCLAVE_ECONFLICT ? "somebody has not applied it" : "not all in time");
        return error == CONCLAVE_ECONFLICT ? CLI_EXIT_FAILED : CLI_EXIT_TIMEOUT;
    }
    error = error == 0 ? printed : error;
    return error == 0 ? 0 : fail(CONFIG_USAGE.name, path, error);
}

/* --- the command -------------------------------------------------------------------------------- */

struct config_call {
    const struct config_options *options;
    const struct operands *operands;
    int64_t zxid; /* of ack */
};

static int config_verb_run(struct conclave_recipes *recipes, void *ctx)
{
    const struct config_call *call = ctx;
    if (call->operands->words[0][0] != 'p') {
        return config_acks(recipes, call->options, call->operands->words[1], call->zxid);
    }
    return call->options->tree ? config_put_tree(recipes, call->options, call->operands)
                               : config_put(recipes, call->options, call->operands);
}

/* What options_parse cannot know. */
static int config_check(struct config_options *options, const struct operands *operands,
                        int64_t *ret_zxid)
{
    static const char *const words[] = {"get", "put", "watch", "ack", "status"};
    static const int least[] = {2, 2, 2, 3, 2};
    static const int most[] = {2, 3, 2, 3, 2};
    const char *word = operands->words[0];
    if (word[0] == 'p' && options->data_file == NULL) {
        options->data_file = options->file;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i]) != 0) {
            continue;
        }
        bool tree = word[0] == 'p' && options->tree;
        if (tree && (operands->count < 3 || options->data_file != NULL || options->version >= 0)) {
            return usage_error(&CONFIG_USAGE,
                               "put --tree wants files, and neither --data-file nor --version");
        }
        if (operands->count < least[i] || (operands->count > most[i] && !tree)) {
            return usage_error(&CONFIG_USAGE, "%s is given wrongly", word);
        }
        if (operands->command != NULL && word[0] != 'w') {
            return usage_error(&CONFIG_USAGE, "only watch runs a command");
        }
        if (word[0] == 'p' && !tree && (operands->count == 3) == (options->data_file != NULL)) {
            return usage_error(&CONFIG_USAGE, "put wants DATA or --file");
        }
        if (word[0] == 'p' && options->create && options->version >= 0) {
            return usage_error(&CONFIG_USAGE, "--create and --version exclude each other");
        }
        if (word[0] == 'a' && !integer_parse(operands->words[2], 1, INT64_MAX, ret_zxid)) {
            return usage_error(&CONFIG_USAGE, "ack wants the MZXID that put has printed");
        }
        return path_check(&CONFIG_USAGE, operands->words[1]);
    }
    return usage_error(&CONFIG_USAGE, "say get, put, watch, ack or status");
}

int command_config(int argc, char **argv)
{
    struct config_options options = {
        .common = COMMON_OPTIONS_INIT, .version = -1, .connect_timeout_ms = 30000};
    struct operands operands;
    int64_t zxid = 0;
    int code = options_parse(&CONFIG_USAGE, argc, argv, &options, &operands);
    if (code == OPTIONS_GO_ON) {
        code = config_check(&options, &operands, &zxid);
    }
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    if (operands.words[0][0] == 'g') {
        code = config_get(&options, operands.words[1]);
    } else if (operands.words[0][0] == 'w') {
        code = config_watch(&options, operands.words[1], operands.command);
    } else {
        struct config_call call = {&options, &operands, zxid};
        code = connection_run_recipes(CONFIG_USAGE.name, &options.common, config_verb_run, &call);
    }
    return output_end(CONFIG_USAGE.name, code);
}
