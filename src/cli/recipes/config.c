/* conclave config: arguments and help; writing, and what the readers have acknowledged. */
#include "cli/recipes/config.h"

#include "cli/common/connection.h"
#include "cli/common/data_input.h"
#include "cli/common/record.h"
#include "cli/common/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(name) offsetof(struct config_options, name)

enum { FILES_MAX = 100 }; /* of one change */

static const struct option_row ROWS[] = {
    {"tree", 0, OPTION_FLAG, FIELD(tree), NULL,
     "get, watch: PATH and all nodes below it. put: one node below PATH for each FILE, named NAME or "
     "like FILE, all in one change."},
    {"cache", 0, OPTION_STRING, FIELD(cache), "FILE",
     "get, watch: keep the last state in FILE, and use it while no server is reached."},
    {"file", 0, OPTION_STRING, FIELD(file), "FILE",
     "watch: write each state into FILE, atomically, before CMD runs. put: as --data-file."},
    {"ack", 0, OPTION_STRING, FIELD(ack), "ID",
     "watch: acknowledge each state under this name, with an error when CMD fails."},
    {"ack-path", 0, OPTION_STRING, FIELD(ack_path), "PATH",
     "watch, ack, status: node of the acknowledgements; default PATH.acks."},
    {"debounce", 0, OPTION_DURATION, FIELD(debounce_ms), "DURATION",
     "watch: gather changes for this time before they are reported. Default 0."},
    {"data-file", 0, OPTION_STRING, FIELD(data_file), "FILE",
     "put: take the value from FILE (\"-\": the input) instead of DATA."},
    {"version", 0, OPTION_INTEGER, FIELD(version), "N", "put: only if the node has this version."},
    {"create", 0, OPTION_FLAG, FIELD(create), NULL, "put: only if there is no node yet."},
    {"group", 0, OPTION_STRING, FIELD(group), "PATH",
     "ack, status: of the members of this group, and not of all that have acknowledged a state."},
    {"at-least", 0, OPTION_INTEGER, FIELD(at_least), "N", "ack: by at least N readers. Default 0."},
    {"connect-timeout", 0, OPTION_DURATION, FIELD(connect_timeout_ms), "DURATION",
     "watch without --cache: give up, with exit code 69, when no server was reached in this time; "
     "default 30s. Later losses of the connection are waited out."},
    OPTION_GROUP(ACL_ROWS, 0),
    {.name = NULL},
};

enum config_verb { CONFIG_GET, CONFIG_PUT, CONFIG_WATCH, CONFIG_ACK, CONFIG_STATUS };
static const struct command_verb VERBS[] = {
    [CONFIG_GET] = {"get", 1, 1, false},       [CONFIG_PUT] = {"put", 1, 1 + FILES_MAX, false},
    [CONFIG_WATCH] = {"watch", 1, 1, true},    [CONFIG_ACK] = {"ack", 2, 2, false},
    [CONFIG_STATUS] = {"status", 1, 1, false}, {.name = NULL},
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
             "  put     writes it, unless another client wrote it meanwhile, and prints the\n"
             "          new version and MZXID, the number of the change\n"
             "  watch   prints each state and runs CMD for it, one after the other; of\n"
             "          changes in quick succession only the last counts. STALE and FRESH:\n"
             "          the connection to the servers is lost, or back\n"
             "  ack     waits until all readers have applied the change MZXID, or one has\n"
             "          refused it: one stage of a roll-out\n"
             "  status  prints what each reader has acknowledged",
    .rows = ROWS,
    .verbs = VERBS,
    .more =
        "CMD finds in its environment CONCLAVE_FILE (a file with the value; empty when there is "
        "no node; of a tree, lines of JSON), CONCLAVE_PATH, CONCLAVE_ZXID, CONCLAVE_MZXID and "
        "CONCLAVE_STALE (1: from the cache). If it does not end with 0, the state counts as "
        "not applied: the cache keeps the previous one, and the acknowledgement says so.\n"
        "\n"
        "With --json: one object for each line.\n"
        "\n"
        "Exit codes: 0; 1 no node, another version, or (ack) a reader refused; 69 no server, 75 "
        "(ack) not all in time, 77 not permitted.\n",
    .client = true,
    .runs_command = true,
};

/* --- put ------------------------------------------------------------------------------------ */

static int put_print(const struct config_options *options,
                     const struct conclave_config_written *written)
{
    struct record r;
    record_begin(&r, options->common.json);
    if (!options->tree) { /* several nodes have several versions */
        record_int(&r, "version", written->version);
    }
    record_int(&r, "mzxid", written->mzxid);
    return record_print(&r);
}

static int config_put(struct conclave_recipes *recipes, const struct config_options *options,
                      const struct operands *operands)
{
    struct conclave_config_written written = CONCLAVE_CONFIG_WRITTEN_INIT;
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
    error = error == 0 ? put_print(options, &written) : error;
    return error == 0 ? 0 : fail(CONFIG_USAGE.name, path, error);
}

/* --- put --tree ----------------------------------------------------------------------------- */

/* A file for a node below PATH. */
struct tree_file {
    char *path;
    struct buf data;
};

/* word is FILE or NAME=FILE. 0, or the exit code after the error was printed. */
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
    struct conclave_config_written written = CONCLAVE_CONFIG_WRITTEN_INIT;
    for (size_t i = 0; i < count; i++) {
        entries[i] = (struct conclave_config_entry){
            sizeof entries[i], files[i].path, files[i].data.data, files[i].data.len,
            options->create ? CONCLAVE_CONFIG_ABSENT : CONCLAVE_CONFIG_ANY};
    }
    int error = conclave_config_put_many(recipes, entries, count, options->common.timeout_ms,
                                         &written.mzxid);
    error = error == 0 ? put_print(options, &written) : error;
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
    code = code == 0 ? tree_write(recipes, options, path, files, count) : code;
    for (size_t i = 0; i < count; i++) {
        free(files[i].path);
        buf_finish(&files[i].data);
    }
    return code;
}

/* --- ack and status ---------------------------------------------------------------------------- */

static int ack_print(bool as_json, const struct conclave_config_ack *ack)
{
    struct record r;
    const char *result = conclave_errname(ack->error);
    record_begin(&r, as_json);
    record_string(&r, "id", ack->id);
    if (as_json) {
        json_member_bool(&r.j, "acked", ack->acked);
    }
    record_string(&r, NULL, ack->acked ? result : "nothing");
    record_int(&r, "zxid", ack->zxid);
    record_int(&r, "mzxid", ack->mzxid);
    if (as_json) {
        json_member_string(&r.j, "error", result);
    }
    record_string(&r, "why", ack->why);
    return record_print(&r);
}

static int config_acks(struct conclave_recipes *recipes, const struct config_options *options,
                       const char *path, int64_t zxid)
{
    struct conclave_config_acks_options wanted = CONCLAVE_CONFIG_ACKS_OPTIONS_INIT;
    struct conclave_config_ack **list = NULL;
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
        printed = ack_print(options->common.json, list[i]);
    }
    conclave_config_acks_free(list, count);
    if (error == CONCLAVE_ECONFLICT || (error == CONCLAVE_ETIMEDOUT && list != NULL)) {
        fprintf(stderr, "conclave config: %s: %s\n", path,
                error == CONCLAVE_ECONFLICT ? "a reader has not applied it" : "not all in time");
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

static int config_verb_run(struct conclave_client *client, struct conclave_recipes *recipes,
                           void *ctx)
{
    const struct config_call *call = ctx;
    if (call->operands->verb != CONFIG_PUT) {
        return config_acks(recipes, call->options, call->operands->words[1], call->zxid);
    }
    return call->options->tree ? config_put_tree(recipes, call->options, call->operands)
                               : config_put(recipes, call->options, call->operands);
}

static int config_check(const struct config_call *call)
{
    const struct config_options *o = call->options;
    bool put = call->operands->verb == CONFIG_PUT;
    int values = call->operands->count - 2;
    const struct usage_rule rules[] = {
        {put && o->tree && (values < 1 || o->data_file != NULL || o->version >= 0),
         "put --tree wants files, and neither --data-file nor --version"},
        {put && !o->tree && values > 1, "put wants one DATA"},
        {put && !o->tree && (values == 1) == (o->data_file != NULL), "put wants DATA or --file"},
        {put && o->create && o->version >= 0, "--create and --version exclude each other"},
        {call->operands->verb == CONFIG_ACK && call->zxid == 0,
         "ack wants the MZXID that put has printed"},
        {false, NULL},
    };
    int code = usage_check(&CONFIG_USAGE, rules);
    return code == OPTIONS_GO_ON ? path_check(&CONFIG_USAGE, call->operands->words[1]) : code;
}

int command_config(int argc, char **argv)
{
    struct config_options options = {
        .common = COMMON_OPTIONS_INIT, .version = -1, .connect_timeout_ms = 30000};
    struct operands operands;
    struct config_call call = {&options, &operands, 0};
    int code = options_parse(&CONFIG_USAGE, argc, argv, &options, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    if (operands.verb == CONFIG_PUT && options.data_file == NULL) {
        options.data_file = options.file;
    }
    if (operands.verb == CONFIG_ACK &&
        !integer_parse(operands.words[2], 1, INT64_MAX, &call.zxid)) {
        call.zxid = 0;
    }
    code = config_check(&call);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    if (operands.verb == CONFIG_GET || operands.verb == CONFIG_WATCH) {
        code = config_watch(&options, operands.words[1], operands.verb == CONFIG_GET,
                            operands.command);
    } else {
        code = connection_run_recipes(CONFIG_USAGE.name, &options.common, config_verb_run, &call);
    }
    return output_end(CONFIG_USAGE.name, code);
}
