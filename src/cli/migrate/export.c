/* conclave export: a data folder from which Apache ZooKeeper starts. */
#include "apache/export.h"
#include "apache/compare.h"
#include "cli/backup/moment.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/options.h"
#include "cli/migrate/export_source.h"

#include "base/json.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct export_options {
    struct common_options common;
    const char *admin;
    const char *from;
    const char *log_dir;
    const char *at;
    const char *zxid;
};

static const struct option_row ROWS[] = {
    {"from", 0, OPTION_STRING, offsetof(struct export_options, from), "DIR",
     "Read this data folder of a Conclave server, or of an Apache ZooKeeper, that no server uses."},
    {"log-dir", 0, OPTION_STRING, offsetof(struct export_options, log_dir), "DIR",
     "With --from: the folder of ZooKeeper's transaction logs, where dataLogDir is another one."},
    {"admin", 0, OPTION_STRING, offsetof(struct export_options, admin), "HOST:PORT",
     "The HTTP port of the running server to read. Any member will do. Default: that of a server of --server or "
     "$CONCLAVE_SERVER, rather not the leader; without these 127.0.0.1:8080."},
    {"zxid", 0, OPTION_STRING, offsetof(struct export_options, zxid), "ZXID",
     "The state after exactly this change, if the folder's logs, or the backups, reach back to it; without it, the "
     "newest."},
    {"at", 0, OPTION_STRING, offsetof(struct export_options, at), "ZXID|TIME",
     "The same, or the state at this time in UTC (\"2026-01-31 17:00:00\")."},
    {0},
};

static const struct command_usage USAGE = {
    .name = "export",
    .forms = (const char *const[]){"[options] TARGET", "[options] --from DIR TARGET",
                                   "[options] FILE... TARGET", NULL},
    .about =
        "Writes a data folder from which Apache ZooKeeper starts, one server or each server of an ensemble, into "
        "the folder TARGET, which must not hold one: nodes with all their versions and times, permissions, counters "
        "of names, and sessions. The file is read again, and compared with what was meant, node for node and field "
        "for field, before the command ends well.\n"
        "\n"
        "Without --from and FILE it reads a running server or ensemble, through a backup, and needs the superuser, or all "
        "permissions on / by an entry other than world's (--auth). Files are a full backup and the incremental ones that "
        "continue it, as conclave backup makes them, or a folder of \"conclave backup --dir\".\n"
        "\n"
        "A client of Apache ZooKeeper can go on with its session. One of a session that a Conclave server opened "
        "cannot, as Apache knows only passwords that follow from the session's id, and ours are random; such a session "
        "ends after its timeout, and its ephemeral nodes with it. The command tells how many there are.",
    .rows = ROWS,
    .more =
        "Exit codes: 0 written and compared, 69 no server answers, 74 something cannot be read or written, 1 there is no "
        "state of that zxid: the line on stderr says what and where, and which range there is.\n",
    .client = true,
    .operands = {1, 10000},
};

/* What was made, and what is told about it. */
struct exporting {
    const struct export_options *options;
    const struct state *state;
    struct apache_exported made;
    struct apache_compared compared;
    struct node_progress progress;
};

static int print_made_json(const struct exporting *x)
{
    struct json j;
    json_line_begin(&j);
    json_member_string(&j, "file", x->made.file);
    json_member_hex(&j, "zxid", state_zxid(x->state));
    json_member_uint(&j, "nodes", x->made.nodes);
    json_member_uint(&j, "sessions", x->made.sessions);
    json_member_uint(&j, "sessions_without_client", x->made.foreign_sessions);
    json_member_uint(&j, "bytes", x->made.bytes);
    json_member_uint(&j, "nodes_compared", x->compared.nodes);
    json_member_uint(&j, "sessions_compared", x->compared.sessions);
    return json_line_print(&j, stdout) == 0 ? 0 : CLI_EXIT_IO;
}

static int print_made(const struct exporting *x)
{
    if (x->options->common.json) {
        return print_made_json(x);
    }
    const struct apache_exported *made = &x->made;
    printf("%s: %zu nodes, %zu sessions, zxid 0x%" PRIx64 ", %" PRIu64
           " bytes; read again, and each node and session is equal\n",
           made->file, made->nodes, made->sessions, (uint64_t)state_zxid(x->state), made->bytes);
    if (made->foreign_sessions > 0) {
        printf(
            "%zu of the sessions were opened by Conclave: their passwords are random, and Apache derives them from "
            "the id, so their clients get new sessions, and these end after their timeouts\n",
            made->foreign_sessions);
    }
    return fflush(stdout) == 0 ? 0 : CLI_EXIT_IO;
}

static int export_state(struct exporting *x, const char *target)
{
    struct state_stats stats;
    char *error = NULL;
    state_stats(x->state, &stats);
    progress_begin(&x->progress, "writing", stats.nodes);
    int rc = apache_export(x->state, target, progress_told, &x->progress, &x->made, &error);
    if (rc == 0) {
        assert(x->made.file != NULL && x->made.foreign_sessions <= x->made.sessions);
        progress_begin(&x->progress, "comparing", stats.nodes);
        rc = apache_compare(x->state, x->made.digest, x->made.file, progress_told, &x->progress,
                            &x->compared, &error);
        if (rc == CONCLAVE_ECORRUPT) {
            fprintf(
                stderr,
                "conclave export: the file that was just written reads otherwise than it was meant: do not "
                "use it, and report this\n");
        }
    }
    progress_end(&x->progress);
    int code = rc == 0 ? print_made(x) : found_folder_fail("export", rc, error);
    free(x->made.file);
    return code;
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

/* The moment of --zxid or --at. */
static bool read_moment(const struct export_options *o, struct backup_moment *ret)
{
    *ret = (struct backup_moment){0};
    if (o->zxid != NULL) {
        return moment_parse(o->zxid, ret) && ret->zxid != 0;
    }
    return o->at == NULL || moment_parse(o->at, ret);
}

int command_export(int argc, char **argv)
{
    struct export_options o = {.common = COMMON_OPTIONS_INIT};
    struct exporting x = {.options = &o};
    struct operands operands;
    struct backup_moment moment;
    struct state *state;
    int rc = options_parse(&USAGE, argc, argv, &o, &operands);
    if (rc != OPTIONS_GO_ON) {
        return rc;
    }
    size_t files = (size_t)operands.count - 1;
    bool running = o.from == NULL && files == 0;
    const struct usage_rule rules[] = {
        {o.from != NULL && files > 0, "with --from only the folder to write is given"},
        {is_file(operands.words[files]),
         "the last word is the folder to write, and this one is a file: give the folder, too"},
        {o.at != NULL && o.zxid != NULL, "give --zxid or --at, not both"},
        {o.from == NULL && o.log_dir != NULL, "--log-dir goes with --from"},
        {!running && (o.admin != NULL || o.common.server != NULL),
         "--server and --admin name a running server: without --from and FILE"},
        {!read_moment(&o, &moment),
         "--zxid wants a zxid (0x1f), --at also a time in UTC (\"2026-01-31 17:00:00\")"},
        {0},
    };
    rc = usage_check(&USAGE, rules);
    if (rc != OPTIONS_GO_ON) {
        return rc;
    }
    const struct export_source source = {
        .command = USAGE.name,
        .common = &o.common,
        .admin = o.admin,
        .folder = o.from,
        .log_dir = o.log_dir,
        .files = (const char *const *)operands.words,
        .file_count = files,
        .moment = moment,
        .target = operands.words[files],
        .progress = &x.progress,
    };
    rc = export_source_read(&source, &state);
    if (rc == 0) {
        x.state = state;
        rc = export_state(&x, source.target);
        state_destroy(state);
    }
    return rc;
}
