/* conclave restore: checks backups, and makes a data folder from them. */
#include "base/hex.h"
#include "base/json.h"
#include "cli/backup/branch_copy.h"
#include "cli/backup/moment.h"
#include "cli/backup/past.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/options.h"
#include "replication/found_folder.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct restore_options {
    struct common_options common; /* for --subtree */
    const char *subtree;
    const char *to;
    bool merge;
    const char *dir;
    const char *at;
    int64_t number;
    bool check;
};

static const struct option_row ROWS[] = {
    {"dir", 0, OPTION_STRING, offsetof(struct restore_options, dir), "DIR",
     "The new data folder. It must be empty, or not exist."},
    {"check", 0, OPTION_FLAG, offsetof(struct restore_options, check), NULL,
     "Load the files and tell what is in them; write nothing."},
    {"at", 0, OPTION_STRING, offsetof(struct restore_options, at), "ZXID|TIME",
     "The state at this zxid, or at this time in UTC (\"2026-01-31 17:00:00\"); without it, the "
     "newest in the files."},
    {"server-id", 0, OPTION_INTEGER, offsetof(struct restore_options, number), "N",
     "The number of the server that will start with the folder, as in its server.N line (1)."},
    {"subtree", 0, OPTION_STRING, offsetof(struct restore_options, subtree), "PATH",
     "Write only this node and those below it, into the running servers of --server."},
    {"to", 0, OPTION_STRING, offsetof(struct restore_options, to), "PATH",
     "With --subtree: write it to this path instead of its own."},
    {"merge", 0, OPTION_FLAG, offsetof(struct restore_options, merge), NULL,
     "With --subtree: write into nodes that exist; they get the old data and ACL, others stay."},
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "restore",
    .forms = (const char *const[]){"FILE... --dir DIR [options]", "FILE... --check [options]",
                                   "FILE... --subtree PATH [--to PATH] [options]", NULL},
    .about =
        "Makes a data folder from a full backup and the incremental ones that continue it, in "
        "their order, or from a folder of \"conclave backup --dir\". All files are checked before "
        "anything is written.\n"
        "\n"
        "A server that starts with the folder serves alone, or founds a new ensemble with others "
        "that begin with empty folders. Sessions in the backup have their full timeout to come "
        "back; then their ephemeral nodes go.\n"
        "\n"
        "With --subtree a branch is written into running servers, with data and ACLs. Ephemeral "
        "nodes are left out; versions, times and zxids begin anew.",
    .rows = ROWS,
    .more = "With --json: {\"zxid\", \"time_ms\", \"begin_zxid\", \"begin_time_ms\", \"end_zxid\", "
            "\"end_time_ms\", \"nodes\", \"sessions\", \"ephemerals\", \"entries\", \"bytes\", "
            "\"ensemble\", \"server\", \"dir\"}; with --subtree: {\"from\", \"to\", \"zxid\", "
            "\"created\", \"changed\", \"ephemerals_left_out\"}.\n",
    .client = true,
    .operands = {1, 10000},
};

static int restore_print(const struct backup_loaded *l, const struct restore_options *o)
{
    char text[MOMENT_TEXT_MAX];
    char hex[2 * BACKUP_CLUSTER_SIZE + 1];
    struct state_stats stats;
    struct json j;
    assert(state_zxid(l->state) >= l->begin_zxid);
    state_stats(l->state, &stats);
    hex_encode(l->header.cluster, sizeof l->header.cluster, hex);
    if (!o->common.json) {
        printf("ensemble     %s (server %" PRIu64 ")\n", hex, l->header.server_id);
        printf("first state  zxid 0x%" PRIx64 ", %s\n", (uint64_t)l->begin_zxid,
               moment_text(l->begin_ms, text));
        printf("last state   zxid 0x%" PRIx64 ", %s\n", (uint64_t)l->header.end_zxid,
               moment_text(l->header.made_ms, text));
        printf("this state   zxid 0x%" PRIx64 ", %s\n", (uint64_t)state_zxid(l->state),
               moment_text(l->time_ms, text));
        printf("nodes        %zu, of them %zu ephemeral\nsessions     %zu\n", stats.nodes,
               stats.ephemerals, stats.sessions);
        if (o->dir != NULL) {
            printf("written to   %s\n", o->dir);
        }
        return 0;
    }
    json_line_begin(&j);
    json_member_hex(&j, "zxid", state_zxid(l->state));
    json_member_int(&j, "time_ms", l->time_ms);
    json_member_hex(&j, "begin_zxid", l->begin_zxid);
    json_member_int(&j, "begin_time_ms", l->begin_ms);
    json_member_hex(&j, "end_zxid", l->header.end_zxid);
    json_member_int(&j, "end_time_ms", l->header.made_ms);
    json_member_uint(&j, "nodes", stats.nodes);
    json_member_uint(&j, "sessions", stats.sessions);
    json_member_uint(&j, "ephemerals", stats.ephemerals);
    json_member_uint(&j, "entries", l->entries);
    json_member_uint(&j, "bytes", l->bytes);
    json_member_string(&j, "ensemble", hex);
    json_member_uint(&j, "server", l->header.server_id);
    json_member_string_or_null(&j, "dir", o->dir);
    int error = json_line_print(&j, stdout);
    return error == 0 ? 0 : fail(USAGE.name, NULL, error);
}

static int restore_step(void *ctx, size_t max_bytes, struct buf *out)
{
    return state_snapshot_step(ctx, max_bytes, out);
}

static int restore_write(const struct backup_loaded *l, const struct restore_options *o)
{
    struct error_text problem = {NULL};
    const struct found_folder folder = {
        .dir = o->dir,
        .server_id = (uint64_t)member_id(o->number),
        .index = l->index > 1 ? l->index : 2,
        .term = l->term > 0 ? l->term : 1,
        .imported_zxid = -1,
        .step = restore_step,
        .ctx = l->state,
    };
    assert(o->dir != NULL && l->state != NULL && folder.index >= l->index);
    int rc = state_snapshot_begin(l->state);
    rc = rc == 0 ? found_folder_make(&folder, &problem) : rc;
    if (rc != 0) {
        fprintf(stderr, "conclave %s: %s\n", USAGE.name, error_text_of(&problem, rc));
    }
    error_text_finish(&problem);
    return rc != 0 ? CLI_EXIT_IO : 0;
}

static int restore_branch(const struct backup_loaded *l, const struct restore_options *o)
{
    struct branch_copied done;
    const struct branch_copy copy = {
        USAGE.name, &o->common, l->state, o->subtree, o->to != NULL ? o->to : o->subtree, o->merge};
    int code = branch_copy(&copy, &done);
    return code == 0 ? branch_copy_report(&copy, state_zxid(l->state), &done) : code;
}

int command_restore(int argc, char **argv)
{
    struct restore_options o = {.common = COMMON_OPTIONS_INIT, .number = 1};
    struct operands operands;
    struct backup_loaded loaded;
    struct backup_moment moment = {0};
    char *text = NULL;
    int code = options_parse(&USAGE, argc, argv, &o, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    const struct usage_rule rules[] = {
        {o.check + (o.dir != NULL) + (o.subtree != NULL) != 1,
         "give one of --dir, --check and --subtree"},
        {o.subtree == NULL && (o.to != NULL || o.merge), "--to and --merge go with --subtree"},
        {o.number < 0 || o.number > STATE_MEMBER_NUMBER_MAX, "--server-id is 0 to 255"},
        {o.at != NULL && !moment_parse(o.at, &moment),
         "--at wants a zxid (0x1f) or a time in UTC (\"2026-01-31 17:00:00\")"},
        {false, NULL},
    };
    code = usage_check(&USAGE, rules);
    code = code == OPTIONS_GO_ON && o.subtree != NULL ? path_check(&USAGE, o.subtree) : code;
    code = code == OPTIONS_GO_ON && o.to != NULL ? path_check(&USAGE, o.to) : code;
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    struct backup_load_options options = {.moment = moment};
    struct past_files files;
    code = past_files_open(USAGE.name, (const char *const *)operands.words, (size_t)operands.count,
                           &files);
    if (code != 0) {
        return code;
    }
    options.files = past_files_of(&files, &moment, &options.count);
    int rc = backup_load(&options, &loaded, &text);
    past_files_close(&files);
    if (rc != 0) {
        fprintf(stderr, "conclave %s: %s\n", USAGE.name,
                text != NULL ? text : conclave_strerror(rc));
        free(text);
        return rc == CONCLAVE_EIO ? CLI_EXIT_IO : CLI_EXIT_FAILED;
    }
    if (o.subtree != NULL) {
        code = restore_branch(&loaded, &o);
    } else {
        code = o.dir != NULL ? restore_write(&loaded, &o) : 0;
        code = code == 0 ? restore_print(&loaded, &o) : code;
    }
    backup_loaded_finish(&loaded);
    return output_end(USAGE.name, code);
}
