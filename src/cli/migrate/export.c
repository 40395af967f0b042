/* conclave export: a data folder from which Apache ZooKeeper starts. */
#include "apache/export.h"
#include "backup/backup_load.h"
#include "cli/backup/moment.h"
#include "cli/backup/past.h"
#include "cli/common/command.h"
#include "cli/common/options.h"
#include "cli/migrate/found_folder.h"

#include "base/json.h"
#include "state/state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

struct export_options {
    const char *from;
    const char *log_dir;
    const char *at;
    bool json;
};

static const struct option_row ROWS[] = {
    {"from", 0, OPTION_STRING, offsetof(struct export_options, from), "DIR",
     "Read this data folder of an Apache ZooKeeper instead of backups. No server may use it meanwhile."},
    {"log-dir", 0, OPTION_STRING, offsetof(struct export_options, log_dir), "DIR",
     "The folder of its transaction logs, where dataLogDir is another one."},
    {"at", 0, OPTION_STRING, offsetof(struct export_options, at), "ZXID|TIME",
     "The state at this zxid, or at this time in UTC (\"2026-01-31 17:00:00\"), of the backups; without it, the newest."},
    {"json", 0, OPTION_FLAG, offsetof(struct export_options, json), NULL, "Print one JSON object."},
    {0},
};

static const struct command_usage USAGE = {
    .name = "export",
    .forms = (const char *const[]){"[options] FILE... TARGET", "[options] --from DIR TARGET", NULL},
    .about =
        "Writes a data folder from which Apache ZooKeeper starts, into the folder TARGET, which must not hold one: nodes "
        "with all their versions and times, permissions, counters of names, and sessions. It is read again "
        "and compared before the command ends well.\n"
        "\n"
        "The files are a full backup of Conclave and the incremental ones that continue it, as conclave backup makes them "
        "from running servers, or a folder of \"conclave backup --dir\".\n"
        "\n"
        "A client of Apache ZooKeeper can go on with its session. One of a session that a Conclave server opened "
        "cannot, as Apache knows only passwords that follow from the session's id; such a session ends after its "
        "timeout, and its ephemeral nodes with it.",
    .rows = ROWS,
    .more =
        "Exit codes: 0 written and compared, 74 something cannot be read or written: the line on stderr says what and "
        "where.\n",
    .operands = {1, 10000},
};

/* Reads what was written, as a server would, and compares all of it. */
static int compare(const char *target, const struct state *state)
{
    struct apache_found found;
    struct state *again;
    int rc = found_folder_read("export", target, NULL, &found, &again);
    if (rc != 0) {
        return rc;
    }
    struct state_stats have;
    struct state_stats want;
    state_stats(again, &have);
    state_stats(state, &want);
    bool equal =
        outcome_tree_digest(again, apache_crc32) == outcome_tree_digest(state, apache_crc32) &&
        state_zxid(again) == state_zxid(state) && have.nodes == want.nodes &&
        have.sessions == want.sessions && have.ephemerals == want.ephemerals;
    state_destroy(again);
    apache_found_finish(&found);
    if (!equal) {
        fprintf(
            stderr,
            "conclave export: what was written to %s reads otherwise than what was meant: do not use it, and "
            "report this\n",
            target);
    }
    return equal ? 0 : CLI_EXIT_INTERNAL;
}

static int report(const struct apache_exported *made, const struct state *state, bool as_json)
{
    if (as_json) {
        struct json j;
        json_line_begin(&j);
        json_member_string(&j, "file", made->file);
        json_member_hex(&j, "zxid", state_zxid(state));
        json_member_uint(&j, "nodes", made->nodes);
        json_member_uint(&j, "sessions", made->sessions);
        json_member_uint(&j, "sessions_without_client", made->foreign_sessions);
        json_member_uint(&j, "bytes", made->bytes);
        return json_line_print(&j, stdout) == 0 ? 0 : CLI_EXIT_IO;
    }
    printf("%s: %zu nodes, %zu sessions, zxid 0x%" PRIx64 ", %" PRIu64
           " bytes; read again and equal\n",
           made->file, made->nodes, made->sessions, (uint64_t)state_zxid(state), made->bytes);
    if (made->foreign_sessions > 0) {
        printf("%zu of the sessions were opened by Conclave: their clients get new ones\n",
               made->foreign_sessions);
    }
    return fflush(stdout) == 0 ? 0 : CLI_EXIT_IO;
}

static int export_state(const struct state *state, const char *target, bool as_json)
{
    struct apache_exported made;
    char *error;
    int rc = apache_export(state, target, &made, &error);
    if (rc != 0) {
        return found_folder_fail("export", rc, error);
    }
    assert(made.file != NULL && made.foreign_sessions <= made.sessions);
    rc = compare(target, state);
    rc = rc == 0 ? report(&made, state, as_json) : rc;
    free(made.file);
    return rc;
}

static int export_folder(const struct export_options *o, const char *target)
{
    struct apache_found found;
    struct state *state;
    int rc = found_folder_read("export", o->from, o->log_dir, &found, &state);
    if (rc != 0) {
        return rc;
    }
    rc = export_state(state, target, o->json);
    state_destroy(state);
    apache_found_finish(&found);
    return rc;
}

static int export_backups(const struct export_options *o, const struct operands *operands,
                          const struct backup_moment *moment, const char *target)
{
    struct backup_load_options options = {.moment = *moment};
    struct backup_loaded loaded;
    struct past_files files;
    char *text = NULL;
    int rc = past_files_open("export", (const char *const *)operands->words,
                             (size_t)operands->count - 1, &files);
    if (rc != 0) {
        return rc;
    }
    options.files = past_files_of(&files, moment, &options.count);
    rc = backup_load(&options, &loaded, &text);
    past_files_close(&files);
    if (rc != 0) {
        return found_folder_fail("export", rc, text);
    }
    rc = export_state(loaded.state, target, o->json);
    backup_loaded_finish(&loaded);
    return rc;
}

int command_export(int argc, char **argv)
{
    struct export_options options = {0};
    struct operands operands;
    struct backup_moment moment = {0};
    int rc = options_parse(&USAGE, argc, argv, &options, &operands);
    if (rc != OPTIONS_GO_ON) {
        return rc;
    }
    const char *target = operands.words[operands.count - 1];
    const struct usage_rule rules[] = {
        {options.from == NULL && operands.count < 2,
         "give the backups to read and the folder to write, or --from DIR and the folder"},
        {options.from != NULL && operands.count > 1,
         "with --from only the folder to write is given"},
        {options.from != NULL && options.at != NULL, "--at goes with backups"},
        {options.from == NULL && options.log_dir != NULL, "--log-dir goes with --from"},
        {options.at != NULL && !moment_parse(options.at, &moment),
         "--at wants a zxid (0x1f) or a time in UTC (\"2026-01-31 17:00:00\")"},
        {0},
    };
    rc = usage_check(&USAGE, rules);
    if (rc != OPTIONS_GO_ON) {
        return rc;
    }
    return options.from != NULL ? export_folder(&options, target)
                                : export_backups(&options, &operands, &moment, target);
}
