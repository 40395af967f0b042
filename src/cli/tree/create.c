/* conclave create: a new node, with its parents where asked for. */
#include "cli/common/connection.h"
#include "cli/common/data_input.h"
#include "cli/common/node_output.h"
#include "cli/common/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct create_options {
    struct common_options common;
    const char *file;
    bool ephemeral;
    bool sequential;
    bool container;
    bool parents;
    int64_t ttl_ms;
    const char *fenced_by;
    struct acl_entries acl; /* of --acl; none: the connection's */
};

static const struct option_row ROWS[] = {
    {"ephemeral", 'e', OPTION_FLAG, offsetof(struct create_options, ephemeral), NULL,
     "The node goes with its session: it is held until the input ends or a signal comes."},
    {"sequential", 0, OPTION_FLAG, offsetof(struct create_options, sequential), NULL,
     "The server adds a rising number to the name."},
    {"container", 0, OPTION_FLAG, offsetof(struct create_options, container), NULL,
     "The server removes the node when its last child has gone."},
    {"ttl", 0, OPTION_DURATION, offsetof(struct create_options, ttl_ms), "DURATION",
     "The server removes the node when it has no children and its data was not written for so "
     "long. Servers may have this switched off (ZooKeeper: extendedTypesEnabled)."},
    {"parents", 'p', OPTION_FLAG, offsetof(struct create_options, parents), NULL,
     "Make missing parents, too, as lasting nodes without data."},
    {"file", 'f', OPTION_STRING, offsetof(struct create_options, file), "FILE",
     "Take the data from a file, \"-\" being the input."},
    OPTION_GROUP(FENCED_BY_ROWS, offsetof(struct create_options, fenced_by)),
    OPTION_GROUP(ACL_ROWS, 0),
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "create",
    .forms = (const char *const[]){"PATH [DATA] [options]", "PATH --file FILE [options]", NULL},
    .about =
        "Creates a node and prints its path, sequence number included. Without DATA its data is "
        "empty. Without --acl anybody may read and change it.",
    .rows = ROWS,
    .more = "With --json: {\"path\":PATH}.\n",
    .client = true,
    .operands = {1, 2},
};

/* Makes every ancestor of path that is missing. The path whose creation failed is in ret_path. */
static int create_parents(struct conclave_client *client, const char *path,
                          const struct create_options *options, char *ret_path)
{
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        size_t len = (size_t)(slash - path);
        memcpy(ret_path, path, len);
        ret_path[len] = '\0';
        struct conclave_op op = conclave_op_create(ret_path, "", 0, CONCLAVE_PERSISTENT);
        struct conclave_reply *reply;
        const struct conclave_reply *result;
        op.acl = options->acl.entries;
        op.acl_count = options->acl.count;
        int error = call_fenced(client, options->fenced_by, &op, &reply, &result);
        conclave_reply_free(reply);
        if (error != 0 && error != CONCLAVE_NODE_EXISTS) {
            return error;
        }
    }
    memcpy(ret_path, path, strlen(path) + 1);
    return 0;
}

static enum conclave_create_mode create_mode(const struct create_options *options)
{
    if (options->container) {
        return CONCLAVE_CONTAINER;
    }
    if (options->ephemeral) {
        return options->sequential ? CONCLAVE_EPHEMERAL_SEQUENTIAL : CONCLAVE_EPHEMERAL;
    }
    return options->sequential ? CONCLAVE_PERSISTENT_SEQUENTIAL : CONCLAVE_PERSISTENT;
}

static int create_print(const char *path, bool as_json)
{
    struct record r;
    record_begin(&r, as_json);
    record_string(&r, "path", path);
    return record_print(&r);
}

static int create_fail(const struct create_options *options, const char *path, int error)
{
    const char *slash = strrchr(path, '/');
    if (error == CONCLAVE_NO_NODE && slash != NULL && slash != path) {
        fprintf(
            stderr,
            "conclave create: %s: its parent %.*s does not exist (NO_NODE); create it first, or "
            "add --parents\n",
            path, (int)(slash - path), path);
        return CLI_EXIT_FAILED;
    }
    if (error == CONCLAVE_UNIMPLEMENTED && options->ttl_ms > 0) {
        fprintf(stderr,
                "conclave create: %s: the servers have TTL nodes switched off (UNIMPLEMENTED); set "
                "extendedTypesEnabled=yes in their configuration\n",
                path);
        return CLI_EXIT_FAILED;
    }
    return fail_write(USAGE.name, path, options->fenced_by, error);
}

static int create_run(struct conclave_client *client, const struct create_options *options,
                      const char *path, const struct buf *data)
{
    struct slice bytes = buf_slice(data);
    struct conclave_op op = conclave_op_create(path, bytes.data, bytes.len, create_mode(options));
    op.acl = options->acl.entries;
    op.acl_count = options->acl.count;
    op.ttl_ms = options->ttl_ms > 0 ? options->ttl_ms : 0;
    struct conclave_reply *reply = NULL;
    const struct conclave_reply *result = NULL;
    char *failed = strdup(path);
    int error = failed == NULL ? CONCLAVE_ENOMEM : 0;
    if (error == 0 && options->parents) {
        error = create_parents(client, path, options, failed);
    }
    error = error == 0 ? call_fenced(client, options->fenced_by, &op, &reply, &result) : error;
    if (error == 0 && result != NULL) {
        error = create_print(result->path, options->common.json);
    }
    int code = error == 0 ? 0 : create_fail(options, failed != NULL ? failed : path, error);
    conclave_reply_free(reply);
    free(failed);
    return code;
}

static void session_changed(struct conclave_client *client, enum conclave_state state, void *ctx)
{
    if (state == CONCLAVE_STATE_LOST) {
        waiter_wake(ctx);
    }
}

/* Connects, creates, and keeps an ephemeral node until a signal comes or the session or the input ends. */
static int create_session(const struct create_options *options, const char *path,
                          const struct buf *data)
{
    struct conclave_client *client;
    struct waiter waiter = {.signal_fd = -1, .wake_fd = -1};
    bool held = options->ephemeral && !connection_is_shared(); /* the shell holds it */
    if (held && waiter_init(&waiter, WAITER_END_SIGNALS, true) != 0) {
        return fail(USAGE.name, NULL, CONCLAVE_EIO);
    }
    int code = connection_open(USAGE.name, &options->common, held ? session_changed : NULL, &waiter,
                               &client);
    if (code == 0) {
        code = create_run(client, options, path, data);
        int number;
        if (code == 0 && held && waiter_wait(&waiter, -1, -1, &number) == WAITER_WOKEN) {
            fprintf(stderr, "conclave create: %s: the session was lost, and the node with it\n",
                    path);
            connection_tell_loss(USAGE.name, client, false);
            code = CLI_EXIT_LOST;
        }
        connection_close(client);
    }
    waiter_finish(&waiter);
    return code;
}

/* Takes --acl out of the common options: a line of the shell with it stays on the shell's session, to
 * which an ephemeral node belongs. OPTIONS_GO_ON or the exit code. */
static int options_take_acl(struct create_options *options)
{
    int code = 0;
    if (options->common.acl.count > 0) {
        code = connection_acl(USAGE.name, &options->common, &options->acl);
        options->common.acl.count = 0;
    }
    return code == 0 ? OPTIONS_GO_ON : code;
}

static int options_check(const struct create_options *o, const struct operands *operands)
{
    const struct usage_rule rules[] = {
        {o->container && (o->ephemeral || o->sequential),
         "--container goes with neither --ephemeral nor --sequential"},
        {o->ttl_ms == 0, "--ttl 0 would keep nothing"},
        {o->ttl_ms > 0 && (o->container || o->ephemeral),
         "--ttl goes with neither --container nor --ephemeral"},
        {o->file != NULL && operands->count == 2, "give DATA or --file, not both"},
        {false, NULL},
    };
    int code = usage_check(&USAGE, rules);
    return code == OPTIONS_GO_ON ? path_check(&USAGE, operands->words[0]) : code;
}

int command_create(int argc, char **argv)
{
    struct create_options options = {.common = COMMON_OPTIONS_INIT, .ttl_ms = -1};
    struct operands operands;
    struct buf data;
    int code = options_parse(&USAGE, argc, argv, &options, &operands);
    code = code == OPTIONS_GO_ON ? options_check(&options, &operands) : code;
    code = code == OPTIONS_GO_ON ? options_take_acl(&options) : code;
    if (code != OPTIONS_GO_ON) {
        acl_entries_free(&options.acl);
        return code;
    }
    buf_init(&data, DATA_INPUT_MAX);
    code = 0;
    if (options.file != NULL) {
        code = data_read(USAGE.name, options.file, &data);
    } else if (operands.count == 2) {
        buf_append_str(&data, operands.words[1]);
    }
    code = code == 0 ? create_session(&options, operands.words[0], &data) : code;
    buf_finish(&data);
    acl_entries_free(&options.acl);
    return output_end(USAGE.name, code);
}
