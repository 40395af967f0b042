/* conclave inspect: what is in a data folder that nobody serves. */
#include "cli/migrate/inspect.h"

#include "cli/common/command.h"
#include "cli/common/options.h"
#include "cli/migrate/found_folder.h"

#include <assert.h>
#include <stdio.h>

enum { DEPTH_MAX = 32, TOP_MAX = 10000, DEPTH_DEFAULT = 1, TOP_DEFAULT = 10 };

static const struct option_row ROWS[] = {
    {"log-dir", 0, OPTION_STRING, offsetof(struct inspect_options, log_dir), "DIR",
     "The folder of ZooKeeper's transaction logs, where dataLogDir is another one."},
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
        "Reads a data folder of a Conclave server, or of Apache ZooKeeper, that no server uses, and tells what is in it: "
        "snapshots and logs with what they hold, the last zxid, members, sessions, nodes by kind, and the largest branches. "
        "All files are read to their ends, every checksum is compared, and Apache's digest where there is one; every "
        "damage is listed with its file and place. It changes and locks nothing.\n"
        "\n"
        "If a server uses the folder it says so: what that server writes meanwhile may look like damage. Copy the folder, or "
        "ask the server (conclave status, conclave doctor).",
    .rows = ROWS,
    .more =
        "Exit codes: 0 all of it can be read, 74 something is damaged or missing: stderr and the list say what and "
        "where.\n",
    .operands = {1, 1},
};

int command_inspect(int argc, char **argv)
{
    struct inspect_options o = {.depth = DEPTH_DEFAULT, .top = TOP_DEFAULT};
    struct operands operands;
    int rc = options_parse(&USAGE, argc, argv, &o, &operands);
    if (rc != OPTIONS_GO_ON) {
        return rc;
    }
    const struct usage_rule rules[] = {
        {o.depth < 1 || o.depth > DEPTH_MAX, "--depth is from 1 to 32"},
        {o.top < 0 || o.top > TOP_MAX, "--top is from 0 to 10000"},
        {0},
    };
    rc = usage_check(&USAGE, rules);
    if (rc != OPTIONS_GO_ON) {
        return rc;
    }
    o.dir = operands.words[0];
    o.used_by = found_folder_user(o.dir, o.log_dir);
    if (o.used_by != 0) {
        fprintf(
            stderr,
            "conclave inspect: process %ld uses %s: what it writes meanwhile may look like damage\n",
            o.used_by, o.dir);
    }
    assert(o.depth > 0 && o.top >= 0);
    enum found_kind kind = found_folder_kind(o.dir, o.log_dir);
    if (kind == FOUND_BOTH) {
        fprintf(
            stderr,
            "conclave inspect: %s has the data of a Conclave server, and beside them version-2 of an Apache ZooKeeper: "
            "for these, inspect %s/version-2\n",
            o.dir, o.dir);
    }
    return kind == FOUND_OURS || kind == FOUND_BOTH ? inspect_ours(&o) : inspect_apache(&o);
}
