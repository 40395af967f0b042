/* conclave acl: shows and replaces the ACL of a node. */
#include "cli/common/client_command.h"
#include "cli/common/node_output.h"

#include <stdio.h>

struct acl_options {
    struct common_options common;
    bool recursive;
    int64_t version;
};

static const struct option_row ROWS[] = {
    {"recursive", 'r', OPTION_FLAG, offsetof(struct acl_options, recursive), NULL,
     "set: of the node and of everything below it."},
    {"version", 0, OPTION_INTEGER, offsetof(struct acl_options, version), "N",
     "set: only if the ACL's version is N; see aversion in \"conclave stat\". Default: whatever it "
     "is."},
    {.name = NULL},
};

enum { ACLS_MAX = 1000 };
enum acl_verb { ACL_GET, ACL_SET };
static const struct command_verb VERBS[] = {
    [ACL_GET] = {"get", 1, 1, false}, [ACL_SET] = {"set", 2, 1 + ACLS_MAX, false}, {.name = NULL}};

static const struct command_usage USAGE = {
    .name = "acl",
    .forms = (const char *const[]){"get PATH [options]", "set PATH ACL... [options]", NULL},
    .about =
        "Shows or replaces the ACL of a node, one SCHEME:ID:PERMS per line. PERMS are letters: c "
        "create children, d delete children, r read data and list children, w write data, a set "
        "the ACL. An ACL may hold several entries, with commas between them:\n"
        "\n"
        "  world:anyone:r          everybody may read\n"
        "  auth::cdrwa             the identities of --auth may do everything\n"
        "  digest:USER:HASH:cdrwa  clients with the password of USER; HASH is the base64\n"
        "                          of the SHA-1 of USER:PASSWORD\n"
        "  ip:10.0.0.0/8:rw        clients from these addresses\n",
    .rows = ROWS,
    .more = "With --json, get: {\"path\":PATH,\"acl\":[{\"scheme\":S,\"id\":I,\"perms\":P}],"
            "\"stat\":{...}}; set: {\"path\":PATH,\"changed\":NUMBER OF NODES}. Children do not "
            "inherit the ACL of their parent.\n",
    .client = true,
    .verbs = VERBS,
};

static int acl_check(void *target, const struct operands *operands)
{
    const struct acl_options *o = target;
    bool set = operands->verb == ACL_SET;
    const struct usage_rule rules[] = {
        {!set && (o->recursive || o->version != -1), "--recursive and --version go with set"},
        {o->recursive && o->version != -1, "--version goes with one node, not with --recursive"},
        {false, NULL},
    };
    return usage_check(&USAGE, rules);
}

static int acl_command_get(struct conclave_client *client, const char *path, bool as_json)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_ACL, path, 0);
    struct conclave_reply *reply = NULL;
    char perms[ACL_PERMS_TEXT_MAX];
    struct record r;
    int error = conclave_call(client, &op, &reply);
    if (error != 0) {
        return fail(USAGE.name, path, error);
    }
    record_begin(&r, as_json);
    record_add_path(&r, path);
    record_list_begin(&r, "acl", 0, NULL);
    for (size_t i = 0; i < reply->acl_count; i++) {
        const struct conclave_acl *a = &reply->acl[i];
        acl_perms_text(a->perms, perms);
        if (!r.json) {
            printf("%s:%s:%s\n", a->scheme, a->id, perms);
            continue;
        }
        record_row_begin(&r);
        record_string(&r, "scheme", a->scheme);
        record_string(&r, "id", a->id);
        record_string(&r, "perms", perms);
        record_row_end(&r);
    }
    record_list_end(&r);
    if (r.json) {
        stat_json(&r.j, &reply->stat);
    }
    conclave_reply_free(reply);
    error = record_print(&r);
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
    error = error == 0 ? report_count(options->common.json, path, "changed", changed) : error;
    int code = error == 0 ? 0 : fail(USAGE.name, at, error);
    branch_free(paths, count);
    return code;
}

static int acl_run(struct conclave_client *client, const void *target,
                   const struct operands *operands)
{
    const struct acl_options *options = target;
    const char *path = operands->words[1];
    if (operands->verb == ACL_GET) {
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
    static const struct client_command COMMAND = {
        .usage = &USAGE, .path = 1, .check = acl_check, .run = acl_run};
    struct acl_options options = {.common = COMMON_OPTIONS_INIT, .version = -1};
    return client_command_run(&COMMAND, argc, argv, &options);
}
