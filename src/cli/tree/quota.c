/*
 * conclave quota: limits for a branch, kept where ZooKeeper keeps them: below /zookeeper/quota,
 * one node zookeeper_limits with the limits and one node zookeeper_stats that the server counts in.
 * Source: SetQuotaCommand, ListQuotaCommand, DelQuotaCommand of Apache ZooKeeper.
 */
#define _GNU_SOURCE /* asprintf */
#include "cli/common/client_command.h"
#include "cli/common/node_output.h"
#include "cli/common/values.h"
#include "cli/tree/quota_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUOTA_ROOT "/zookeeper/quota"
#define LIMITS_NODE "/zookeeper_limits"
#define STATS_NODE "/zookeeper_stats"

struct quota_options {
    struct common_options common;
    const char *count;
    const char *bytes;
    const char *hard_count;
    const char *hard_bytes;
};

static const struct option_row ROWS[] = {
    {"count", 0, OPTION_STRING, offsetof(struct quota_options, count), "N",
     "set: nodes, PATH itself included; above it the server warns in its log. -1: no limit."},
    {"bytes", 0, OPTION_STRING, offsetof(struct quota_options, bytes), "N",
     "set: bytes of data in all; above it the server warns in its log. -1: no limit."},
    {"hard-count", 0, OPTION_STRING, offsetof(struct quota_options, hard_count), "N",
     "set: nodes; what goes above it is refused (QUOTA_EXCEEDED). -1: no limit."},
    {"hard-bytes", 0, OPTION_STRING, offsetof(struct quota_options, hard_bytes), "N",
     "set: bytes of data; what goes above it is refused. -1: no limit."},
    OPTION_GROUP(ACL_ROWS, 0),
    {.name = NULL},
};

enum quota_verb { QUOTA_GET, QUOTA_SET, QUOTA_RM };
static const struct command_verb VERBS[] = {
    {"get", 1, 1, false}, {"set", 1, 1, false}, {"rm", 1, 1, false}, {.name = NULL}};

static const struct command_usage USAGE = {
    .name = "quota",
    .forms = (const char *const[]){"get PATH [options]", "set PATH [limits] [options]",
                                   "rm PATH [options]", NULL},
    .about = "Limits the nodes and the bytes of a branch. get shows limits and use, set changes "
             "the limits given and leaves the others, rm removes them all. Of the nodes on one way "
             "from the root to a leaf only one can have a quota. Hard limits hold where the server "
             "has enforceQuota=true.",
    .rows = ROWS,
    .more =
        "get prints one \"name value\" per line, \"none\" where there is no limit. With --json: "
        "{\"path\":PATH,\"count\":{\"used\":N,\"limit\":N,\"hard_limit\":N},\"bytes\":{...}}, "
        "null where there is no limit. Give --server without a chroot: quotas are kept for "
        "the whole tree.\n",
    .client = true,
    .verbs = VERBS,
};

/* Errors that only this command finds, in addition to the error list. */
static int quota_refuse(const char *path, const char *why)
{
    fprintf(stderr, "conclave quota: %s: %s\n", path, why);
    return CLI_EXIT_FAILED;
}

/* QUOTA_ROOT + path + node on the heap. */
static char *quota_path(const char *path, const char *node)
{
    char *text = NULL;
    int len = asprintf(&text, "%s%s%s", QUOTA_ROOT, strcmp(path, "/") == 0 ? "" : path, node);
    return len < 0 ? NULL : text;
}

/* The numbers in a quota's node. 0, CONCLAVE_NO_NODE, CONCLAVE_ECORRUPT or another error. */
static int limits_read(struct conclave_client *client, const char *path, const char *node,
                       struct quota_limits *ret, int32_t *ret_version)
{
    char *full = quota_path(path, node);
    if (full == NULL) {
        return CONCLAVE_ENOMEM;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, full, 0);
    struct conclave_reply *reply = NULL;
    int error = conclave_call(client, &op, &reply);
    if (error == 0) {
        *ret_version = reply->stat.version;
        error = quota_text_parse(reply->data, reply->data_len, ret) ? 0 : CONCLAVE_ECORRUPT;
    }
    conclave_reply_free(reply);
    free(full);
    return error;
}

/* --- get --------------------------------------------------------------------------------------- */

static void limit_json(struct json *j, const char *key, int64_t value)
{
    if (value < 0) {
        json_member_null(j, key);
    } else {
        json_member_int(j, key, value);
    }
}

/* Of one kind: nodes or bytes. */
static void quota_put(struct json *j, const char *kind, int64_t used, int64_t limit, int64_t hard)
{
    json_key(j, kind);
    json_object_begin(j);
    limit_json(j, "used", used);
    limit_json(j, "limit", limit);
    limit_json(j, "hard_limit", hard);
    json_object_end(j);
}

static int quota_json(const char *path, const struct quota_limits *limits,
                      const struct quota_limits *used)
{
    struct json j;
    json_line_begin(&j);
    json_member_string(&j, "path", path);
    quota_put(&j, "count", used->count, limits->count, limits->hard_count);
    quota_put(&j, "bytes", used->bytes, limits->bytes, limits->hard_bytes);
    return json_line_print(&j, stdout);
}

static void limit_print(const char *name, int64_t value)
{
    if (value < 0) {
        printf("%-16s none\n", name);
    } else {
        printf("%-16s %" PRId64 "\n", name, value);
    }
}

static int quota_get(struct conclave_client *client, const char *path, bool as_json)
{
    struct quota_limits limits;
    struct quota_limits used;
    int32_t version;
    int error = limits_read(client, path, LIMITS_NODE, &limits, &version);
    error = error == 0 ? limits_read(client, path, STATS_NODE, &used, &version) : error;
    if (error == CONCLAVE_NO_NODE) {
        return quota_refuse(path, "has no quota; set one with \"conclave quota set\"");
    }
    if (error == 0 && as_json) {
        error = quota_json(path, &limits, &used);
    } else if (error == 0) {
        limit_print("count", used.count);
        limit_print("count_limit", limits.count);
        limit_print("count_hard_limit", limits.hard_count);
        limit_print("bytes", used.bytes);
        limit_print("bytes_limit", limits.bytes);
        limit_print("bytes_hard_limit", limits.hard_bytes);
    }
    return error == 0 ? 0 : fail(USAGE.name, path, error);
}

/* --- set --------------------------------------------------------------------------------------- */

static bool limit_parse(const char *text, int64_t *ret)
{
    return text == NULL || integer_parse(text, -1, INT64_MAX, ret);
}

/* The limits that were given change those there are. */
static bool limits_apply(const struct quota_options *options, struct quota_limits *limits)
{
    return limit_parse(options->count, &limits->count) &&
           limit_parse(options->bytes, &limits->bytes) &&
           limit_parse(options->hard_count, &limits->hard_count) &&
           limit_parse(options->hard_bytes, &limits->hard_bytes);
}

/* Looks for limits at another node of the branch, below the one that is given. */
static int find_limits(const char *path, int depth, const struct conclave_reply *children,
                       void *ctx)
{
    for (size_t i = 0; depth > 0 && children != NULL && i < children->children_count; i++) {
        if (strcmp(children->children[i], &LIMITS_NODE[1]) == 0) {
            *(bool *)ctx = true;
        }
    }
    return 0;
}

/* Whether a node above or below has a quota already: 0 or 1, or a negative error. */
static int quota_is_near(struct conclave_client *client, const char *path)
{
    char *own = quota_path(path, "");
    char *parent = strdup(path);
    bool below = false;
    int error = own == NULL || parent == NULL
                    ? CONCLAVE_ENOMEM
                    : branch_walk(client, own, INT32_MAX, false, find_limits, &below);
    error = error == CONCLAVE_NO_NODE ? 0 : error;
    int found = below;
    for (char *slash;
         error == 0 && !found && path[1] != '\0' && (slash = strrchr(parent, '/')) != NULL;) {
        struct quota_limits limits;
        int32_t version;
        *slash = '\0';
        error = limits_read(client, parent, LIMITS_NODE, &limits, &version);
        found = error == 0 || error == CONCLAVE_ECORRUPT;
        error = error == CONCLAVE_NO_NODE || found ? 0 : error;
    }
    free(parent);
    free(own);
    return error != 0 ? error : found;
}

/* Creates the nodes from QUOTA_ROOT down to the one of the path. */
static int make_ancestors(struct conclave_client *client, const char *of)
{
    char *path = quota_path(of, "");
    int error = path == NULL ? CONCLAVE_ENOMEM : 0;
    for (char *p = path + strlen(QUOTA_ROOT); error == 0 && *p != '\0';) {
        p++;
        p += strcspn(p, "/");
        char kept = *p;
        *p = '\0';
        struct conclave_op op = conclave_op_create(path, NULL, 0, CONCLAVE_PERSISTENT);
        error = conclave_call(client, &op, NULL);
        error = error == CONCLAVE_NODE_EXISTS ? 0 : error;
        *p = kept;
    }
    free(path);
    return error;
}

/* The two nodes of a quota, created, or with limits NULL deleted, in one transaction. */
static int quota_write(struct conclave_client *client, const char *path,
                       const struct quota_limits *limits)
{
    static const struct quota_limits NOTHING = {.count = 0, .bytes = 0};
    char limits_data[LIMITS_TEXT_MAX];
    char stats_data[LIMITS_TEXT_MAX];
    char *limits_path = quota_path(path, LIMITS_NODE);
    char *stats_path = quota_path(path, STATS_NODE);
    int error = CONCLAVE_ENOMEM;
    if (limits_path != NULL && stats_path != NULL) {
        struct conclave_op parts[] = {
            conclave_op_path(CONCLAVE_OP_DELETE, limits_path, -1),
            conclave_op_path(CONCLAVE_OP_DELETE, stats_path, -1),
        };
        if (limits != NULL) {
            quota_text_text(limits, true, limits_data);
            quota_text_text(&NOTHING, false, stats_data);
            parts[0] = conclave_op_create(limits_path, limits_data, strlen(limits_data),
                                          CONCLAVE_PERSISTENT);
            parts[1] =
                conclave_op_create(stats_path, stats_data, strlen(stats_data), CONCLAVE_PERSISTENT);
        }
        struct conclave_op op = conclave_op_multi(parts, 2);
        error = conclave_call(client, &op, NULL);
    }
    free(limits_path);
    free(stats_path);
    return error;
}

static int quota_change(struct conclave_client *client, const char *path,
                        const struct quota_limits *limits, int32_t version)
{
    char data[LIMITS_TEXT_MAX];
    char *full = quota_path(path, LIMITS_NODE);
    if (full == NULL) {
        return CONCLAVE_ENOMEM;
    }
    quota_text_text(limits, true, data);
    struct conclave_op op = conclave_op_set(full, data, strlen(data), version);
    int error = conclave_call(client, &op, NULL);
    free(full);
    return error;
}

static int quota_set(struct conclave_client *client, const char *path,
                     const struct quota_options *options)
{
    struct quota_limits limits = LIMITS_NONE;
    int32_t version = 0;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    int error = conclave_call(client, &op, NULL);
    if (error != 0) {
        return fail(USAGE.name, path, error);
    }
    error = limits_read(client, path, LIMITS_NODE, &limits, &version);
    bool is_new = error == CONCLAVE_NO_NODE;
    if (error == CONCLAVE_ECORRUPT) {
        error = 0; /* replaced by what can be read */
    }
    if (is_new) {
        int near = quota_is_near(client, path);
        if (near > 0) {
            return quota_refuse(path, "a node above or below it has a quota already");
        }
        error = near;
    }
    if (error == 0 && limits_apply(options, &limits)) {
        error = is_new ? make_ancestors(client, path) : 0;
        error = error != 0 ? error
                : is_new   ? quota_write(client, path, &limits)
                           : quota_change(client, path, &limits, version);
    }
    if (error == 0 && options->common.json) {
        return quota_get(client, path, true);
    }
    return error == 0 ? 0 : fail(USAGE.name, path, error);
}

/* --- rm ---------------------------------------------------------------------------------------- */

/* Removes the nodes upward that have become empty. */
static int trim_ancestors(struct conclave_client *client, const char *path)
{
    char *own = quota_path(path, "");
    int error = own == NULL ? CONCLAVE_ENOMEM : 0;
    while (error == 0 && strcmp(own, QUOTA_ROOT) != 0) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, own, -1);
        error = conclave_call(client, &op, NULL);
        *strrchr(own, '/') = '\0';
    }
    free(own);
    return error == CONCLAVE_NOT_EMPTY || error == CONCLAVE_NO_NODE ? 0 : error;
}

static int quota_rm(struct conclave_client *client, const char *path, bool as_json)
{
    int error = quota_write(client, path, NULL);
    if (error == CONCLAVE_NO_NODE) {
        return quota_refuse(path, "has no quota");
    }
    error = error == 0 ? trim_ancestors(client, path) : error;
    if (error == 0 && as_json) {
        struct record r;
        record_begin(&r, true);
        record_add_path(&r, path);
        error = record_print(&r);
    }
    return error == 0 ? 0 : fail(USAGE.name, path, error);
}

static int quota_command_check(void *target, const struct operands *operands)
{
    const struct quota_options *o = target;
    struct quota_limits limits;
    const char *path = operands->words[1];
    bool set = operands->verb == QUOTA_SET;
    bool given =
        o->count != NULL || o->bytes != NULL || o->hard_count != NULL || o->hard_bytes != NULL;
    const struct usage_rule rules[] = {
        {set && !given, "set needs a limit"},
        {!set && given, "limits go with set"},
        {!limits_apply(o, &limits), "a limit is a whole number, or -1"},
        {strncmp(path, "/zookeeper", 10) == 0 && (path[10] == '/' || path[10] == '\0'),
         "the server's own nodes have no quota"},
        {false, NULL},
    };
    return usage_check(&USAGE, rules);
}

static int quota_run(struct conclave_client *client, const void *target,
                     const struct operands *operands)
{
    const struct quota_options *options = target;
    const char *path = operands->words[1];
    return operands->verb == QUOTA_GET   ? quota_get(client, path, options->common.json)
           : operands->verb == QUOTA_SET ? quota_set(client, path, options)
                                         : quota_rm(client, path, options->common.json);
}

int command_quota(int argc, char **argv)
{
    static const struct client_command COMMAND = {
        .usage = &USAGE, .path = 1, .check = quota_command_check, .run = quota_run};
    struct quota_options options = {.common = COMMON_OPTIONS_INIT};
    return client_command_run(&COMMAND, argc, argv, &options);
}
