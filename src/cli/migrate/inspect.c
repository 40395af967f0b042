/* conclave inspect: what is in a data folder that nobody serves. */
#include "cli/common/command.h"
#include "cli/common/options.h"
#include "cli/migrate/found_folder.h"

#include "base/json.h"
#include "tree/branches.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { DEPTH_MAX = 32, TOP_MAX = 10000, DEPTH_DEFAULT = 1, TOP_DEFAULT = 10 };

struct inspect_options {
    const char *log_dir;
    int64_t depth;
    int64_t top;
    bool json;
};

static const struct option_row ROWS[] = {
    {"log-dir", 0, OPTION_STRING, offsetof(struct inspect_options, log_dir), "DIR",
     "The folder of the transaction logs, where dataLogDir is another one."},
    {"depth", 0, OPTION_INTEGER, offsetof(struct inspect_options, depth), "N",
     "Show the branches that begin N names below /. 1 by default."},
    {"top", 0, OPTION_INTEGER, offsetof(struct inspect_options, top), "N",
     "Show at most N branches, the largest ones. 10 by default."},
    {"json", 0, OPTION_FLAG, offsetof(struct inspect_options, json), NULL,
     "Print one JSON object."},
    {0},
};

static const struct command_usage USAGE = {
    .name = "inspect",
    .forms = (const char *const[]){"[options] DIR", NULL},
    .about =
        "Reads a data folder of Apache ZooKeeper that no server uses, and tells what is in it: the snapshot, "
        "the transactions behind it, sessions, nodes, and the largest branches. Every checksum on the way is "
        "compared, and Apache's digest where there is one. It changes nothing.",
    .rows = ROWS,
    .more =
        "Exit codes: 0 all of it can be read, 74 something is damaged or missing: the line on stderr says what "
        "and where.\n",
    .operands = {1, 1},
};

/* What is printed. */
struct picture {
    const char *dir;
    const struct apache_found *found;
    const struct state *state;
    struct state_stats stats;
    struct branch *branches;
    size_t shown;
    size_t count; /* of branches at that depth */
};

static void print_time(int64_t time_ms)
{
    char text[32];
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm parts;
    if (time_ms > 0 && gmtime_r(&seconds, &parts) != NULL &&
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0) {
        printf(", %s", text);
    }
}

static void print_branches(const struct picture *p)
{
    struct buf path;
    buf_init(&path, 0);
    printf("\nNODES\tBYTES\tBRANCH\n");
    for (size_t i = 0; i < p->shown; i++) {
        buf_reset(&path);
        znode_append_path(p->branches[i].node, &path);
        printf("%zu\t%" PRIu64 "\t%.*s\n", p->branches[i].nodes, p->branches[i].bytes,
               SLICE_FMT(buf_slice(&path)));
    }
    if (p->count > p->shown) {
        printf("... and %zu more: --top %zu\n", p->count - p->shown, p->count);
    }
    buf_finish(&path);
}

static void inspect_print_text(const struct picture *p)
{
    const struct apache_found *f = p->found;
    assert(p->shown <= p->count);
    if (f->snapshot != NULL) {
        printf("snapshot      %s, zxid 0x%" PRIx64 "\n", f->snapshot, (uint64_t)f->snapshot_zxid);
    } else {
        printf("snapshot      none: the log begins with the first transaction\n");
    }
    printf("transactions  %" PRIu64 " behind it, in %zu of %zu logs\n", f->transactions,
           f->logs_read, f->logs);
    printf("last zxid     0x%" PRIx64, (uint64_t)f->zxid);
    print_time(f->time_ms);
    printf("\nsessions      %zu, with %zu ephemeral nodes\n", p->stats.sessions,
           p->stats.ephemerals);
    printf("nodes         %zu, %zu bytes of paths and data\n", p->stats.nodes, p->stats.data_bytes);
    printf("digest        %s\n", f->report.digest_compared
                                     ? "equal to the one that ZooKeeper noted"
                                     : "not compared: ZooKeeper noted none for the last zxid");
    if (f->unfinished != NULL) {
        printf("unfinished    %s ends with a part of an entry at byte %" PRIu64
               ", as a crash leaves it; nobody was told that it is written\n",
               f->unfinished, f->unfinished_at);
    }
    if (f->report.orphans > 0) {
        printf(
            "orphans       %zu ephemeral nodes of sessions that have ended; a server removes them when it starts\n",
            f->report.orphans);
    }
    print_branches(p);
}

static int print_json(const struct picture *p)
{
    const struct apache_found *f = p->found;
    struct json j;
    struct buf path;
    buf_init(&path, 0);
    json_line_begin(&j);
    json_member_string(&j, "kind", "zookeeper");
    json_member_string(&j, "folder", p->dir);
    json_member_string_or_null(&j, "snapshot", f->snapshot);
    json_member_hex(&j, "snapshot_zxid", f->snapshot_zxid);
    json_member_uint(&j, "snapshots", f->snapshots);
    json_member_uint(&j, "logs", f->logs);
    json_member_uint(&j, "logs_read", f->logs_read);
    json_member_uint(&j, "transactions", f->transactions);
    json_member_hex(&j, "zxid", f->zxid);
    json_member_int(&j, "time_ms", f->time_ms);
    json_member_uint(&j, "sessions", p->stats.sessions);
    json_member_uint(&j, "ephemerals", p->stats.ephemerals);
    json_member_uint(&j, "nodes", p->stats.nodes);
    json_member_uint(&j, "bytes", p->stats.data_bytes);
    json_member_bool(&j, "digest_compared", f->report.digest_compared);
    json_member_string_or_null(&j, "unfinished", f->unfinished);
    json_member_uint(&j, "unfinished_at", f->unfinished_at);
    json_member_uint(&j, "orphans", f->report.orphans);
    json_key(&j, "branches");
    json_array_begin(&j);
    for (size_t i = 0; i < p->shown; i++) {
        buf_reset(&path);
        znode_append_path(p->branches[i].node, &path);
        json_object_begin(&j);
        json_member_text(&j, "path", buf_slice(&path));
        json_member_uint(&j, "nodes", p->branches[i].nodes);
        json_member_uint(&j, "bytes", p->branches[i].bytes);
        json_object_end(&j);
    }
    json_array_end(&j);
    buf_finish(&path);
    return json_line_print(&j, stdout) == 0 ? 0 : CLI_EXIT_IO;
}

static int inspect_show(struct picture *p, const struct inspect_options *options)
{
    p->branches = calloc((size_t)options->top + 1, sizeof *p->branches);
    if (p->branches == NULL) {
        return found_folder_fail("inspect", CONCLAVE_ENOMEM, NULL);
    }
    state_stats(p->state, &p->stats);
    p->count = tree_branches(state_tree(p->state), (unsigned)options->depth, p->branches,
                             (size_t)options->top);
    assert(p->stats.nodes > 0);
    p->shown = p->count < (size_t)options->top ? p->count : (size_t)options->top;
    int rc = 0;
    if (options->json) {
        rc = print_json(p);
    } else {
        inspect_print_text(p);
    }
    free(p->branches);
    return rc == 0 && fflush(stdout) != 0 ? CLI_EXIT_IO : rc;
}

int command_inspect(int argc, char **argv)
{
    struct inspect_options options = {.depth = DEPTH_DEFAULT, .top = TOP_DEFAULT};
    struct operands operands;
    int rc = options_parse(&USAGE, argc, argv, &options, &operands);
    if (rc != OPTIONS_GO_ON) {
        return rc;
    }
    const struct usage_rule rules[] = {
        {options.depth < 1 || options.depth > DEPTH_MAX, "--depth is from 1 to 32"},
        {options.top < 0 || options.top > TOP_MAX, "--top is from 0 to 10000"},
        {0},
    };
    rc = usage_check(&USAGE, rules);
    if (rc != OPTIONS_GO_ON) {
        return rc;
    }
    struct apache_found found;
    struct state *state;
    rc = found_folder_read("inspect", operands.words[0], options.log_dir, &found, &state);
    if (rc != 0) {
        return rc;
    }
    struct picture picture = {.dir = operands.words[0], .found = &found, .state = state};
    rc = inspect_show(&picture, &options);
    state_destroy(state);
    apache_found_finish(&found);
    return rc;
}
