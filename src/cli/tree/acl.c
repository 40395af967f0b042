/* conclave acl: who may do what with a node. */
#include "cli/common/acl_text.h"
#include "cli/common/client_command.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/node_output.h"

#include <stdio.h>
#include <string.h>

struct acl_options {
    struct common_options common;
    bool recursive;
    int64_t version;
};

static const struct option_row ROWS[] = {
    {"recursive", 'r', OPTION_FLAG, offsetof(struct acl_options, recursive), NULL,
     "set: of the node and of everything below it.", NULL},
    {"version", 0, OPTION_INTEGER, offsetof(struct acl_options, version), "N",
     "set: only if the ACL's version is N; see aversion in \"conclave stat\". Default: whatever it "
     "is.",
     NULL},
    {.name = NULL},
};

enum { OPERANDS_MAX = 1000 };

static const struct command_usage USAGE = {
    .name = "acl",
    .forms = (const char *const[]){"get PATH [options]", "set PATH ACL... [options]", NULL},
    .about =
        "Shows or replaces the ACL of a node, one SCHEME:ID:PERMS per line. PERMS are letters: c "
        "create children, d delete children, r read data and list children, w write data, a set "
        "the ACL. An ACL may hold several entries, with commas between them:\n"
        "\n"
        "  world:anyone:r          everybody may read\n"
        "  auth::cdrwa             who I am, by --auth, may do everything\n"
        "  digest:USER:HASH:cdrwa  who knows the password of USER; HASH is the base64\n"
        "                          of the SHA-1 of USER:PASSWORD\n"
        "  ip:10.0.0.0/8:rw        who comes from there\n",
    .rows = ROWS,
    .more = "With --json, get: {\"path\":PATH,\"acl\":[{\"scheme\":S,\"id\":I,\"perms\":P}],"
            "\"stat\":{...}}; set: {\"path\":PATH,\"changed\":NUMBER OF NODES}. Children do not "
            "inherit the ACL of their parent.\n",
    .client = true,
    .operands_min = 2,
    .operands_max = OPERANDS_MAX,
};

static bool is_set(const struct operands *operands)
{
    return strcmp(operands->words[0], "set") == 0;
}

static int acl_check(void *target, const struct operands *operands)
{
    const struct acl_options *options = target;
    if (!is_set(operands) && strcmp(operands->words[0], "get") != 0) {
        return usage_error(&USAGE, "\"%s\" is neither get nor set", operands->words[0]);
    }
    if (is_set(operands) && operands->count < 3) {
        return usage_error(&USAGE, "set needs an ACL");
    }
    if (!is_set(operands) && operands->count > 2) {
        return usage_error(&USAGE, "there is an argument too many, \"%s\"", operands->words[2]);
    }
    if (!is_set(operands) && (options->recursive || options->version != -1)) {
        return usage_error(&USAGE, "--recursive and --version go with set");
    }
    if (options->recursive && options->version != -1) {
        return usage_error(&USAGE, "--version goes with one node, not with --recursive");
    }
    return OPTIONS_GO_ON;
}

static int acl_json(const char *path, const struct conclave_reply *reply)
{
    char perms[ACL_PERMS_TEXT_MAX];
    struct json j;
    json_line_begin(&j);
    json_member_string(&j, "path", path);
    json_key(&j, "acl");
    json_array_begin(&j);
    for (size_t i = 0; i < reply->acl_count; i++) {
        json_object_begin(&j);
        json_member_string(&j, "scheme", reply->acl[i].scheme);
        json_member_string(&j, "id", reply->acl[i].id);
        json_member_string(&j, "perms", acl_perms_text(reply->acl[i].perms, perms));
        json_object_end(&j);
    }
    json_array_end(&j);
    stat_json(&j, &reply->stat);
    return json_line_print(&j, stdout);
}

static int acl_command_get(struct conclave_client *client, const char *path, bool as_json)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_ACL, path, 0);
    struct conclave_reply *reply = NULL;
    char perms[ACL_PERMS_TEXT_MAX];
    int error = conclave_call(client, &op, &reply);
    if (error == 0 && as_json) {
        error = acl_json(path, reply);
    } else if (error == 0) {
        for (size_t i = 0; i < reply->acl_count; i++) {
            printf("%s:%s:%s\n", reply->acl[i].scheme, reply->acl[i].id,
                   acl_perms_text(reply->acl[i].perms, perms));
        }
    }
    conclave_reply_free(reply);
    return error == 0 ? 0 : fail(USAGE.name, path, error);
}

static int acl_set_one(struct conclave_client *client, const char *path,
                       const struct acl_entries *list, int64_t version)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_SET_ACL, path, (int32_t)version);
    op.acl = list->entries;
    op.acl_count = list->count;
    return conclave_call(client, &op, NULL);
}

static int acl_report(const char *path, int64_t changed)
{
    struct json j;
    json_line_begin(&j);
    json_member_string(&j, "path", path);
    json_member_int(&j, "changed", changed);
    return json_line_print(&j, stdout);
}

/* Children before their parents: an ACL that shuts its author out does so last. */
static int acl_set(struct conclave_client *client, const char *path, const struct acl_entries *list,
                   const struct acl_options *options)
{
    char **paths = NULL;
    size_t count = 0;
    int64_t changed = 0;
    const char *at = path;
    int error = 0;
    if (!options->recursive) {
        error = acl_set_one(client, path, list, options->version);
        changed = error == 0;
    } else {
        error = branch_list(client, path, false, &paths, &count);
        at = error != 0 && count > 0 ? paths[0] : at;
    }
    for (size_t i = count; error == 0 && i-- > 0;) {
        at = paths[i];
        error = acl_set_one(client, at, list, -1);
        changed += error == 0;
        if (error == CONCLAVE_NO_NODE && i > 0) {
            error = 0; /* gone meanwhile */
        }
    }
    if (error == 0 && options->common.json) {
        error = acl_report(path, changed);
    }
    int code = error == 0 ? 0 : fail(USAGE.name, at, error);
    branch_free(paths, count);
    return code;
}

static int acl_run(struct conclave_client *client, const void *target,
                   const struct operands *operands)
{
    const struct acl_options *options = target;
    const char *path = operands->words[1];
    if (!is_set(operands)) {
        return acl_command_get(client, path, options->common.json);
    }
    struct acl_entries list;
    const char *wrong = NULL;
    int code;
    const char *const *texts = (const char *const *)(operands->words + 2);
    int error = acl_entries_parse(texts, operands->count - 2, &list, &wrong);
    if (wrong != NULL) {
        code = usage_error(&USAGE, "\"%s\" is not SCHEME:ID:PERMS with PERMS of \"cdrwa\"", wrong);
    } else {
        code = error == 0 ? acl_set(client, path, &list, options) : fail(USAGE.name, path, error);
    }
    acl_entries_free(&list);
    return code;
}

int command_acl(int argc, char **argv)
{
    static const struct client_command COMMAND = {&USAGE, 1, acl_check, acl_run};
    struct acl_options options = {.common = COMMON_OPTIONS_INIT, .version = -1};
    return client_command_run(&COMMAND, argc, argv, &options);
}
