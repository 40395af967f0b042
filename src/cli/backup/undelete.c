/*
 * conclave undelete: brings back a branch that was deleted, from backups, into a running server. The first pass over the
 * log finds the moment: before the deletions, one shortly after the other, of which the last one deleted the node itself,
 * because "rm --recursive" and other clients delete the nodes below it first. The second pass loads that state.
 */
#include "cli/backup/branch_copy.h"
#include "cli/backup/moment.h"
#include "cli/backup/past.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { TOGETHER_MS = 60000 }; /* deletions that belong together are not further apart */

struct undelete_options {
    struct common_options common;
    struct past_options past;
    const char *to;
    bool merge;
};

static const struct option_row ROWS[] = {
    OPTION_GROUP(PAST_ROWS, offsetof(struct undelete_options, past)),
    {"at", 0, OPTION_STRING, offsetof(struct undelete_options, past.at), "ZXID|TIME",
     "The state at this zxid or time; without it, the one before the last deletion."},
    {"to", 0, OPTION_STRING, offsetof(struct undelete_options, to), "PATH",
     "Write it to this path instead of its own."},
    {"merge", 0, OPTION_FLAG, offsetof(struct undelete_options, merge), NULL,
     "Write into nodes that exist: they get the old data and ACL, others stay."},
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "undelete",
    .forms =
        (const char *const[]){"PATH --dir DIR [options]", "PATH --from FILE... [options]", NULL},
    .about =
        "Creates a deleted node and the nodes below it again, with data and ACLs, as they were "
        "before they were deleted: deletions of a minute or less between them belong together. "
        "Ephemeral nodes are left out; versions, times and zxids begin anew.",
    .rows = ROWS,
    .more = "With --json: {\"from\", \"to\", \"zxid\", \"created\", \"changed\", "
            "\"ephemerals_left_out\"}.\n",
    .client = true,
    .operands = {1, 10000},
};

struct undelete_search {
    struct slice path;
    bool there;
    int64_t last_zxid;  /* before the command */
    int64_t run_zxid;   /* before the first of a run of deletions; -1: none */
    int64_t run_ms;     /* time of the last one of it */
    int64_t found_zxid; /* -1: it was never deleted */
    int error;
};

static bool is_in_branch(struct slice path, struct slice root)
{
    if (root.len == 1) {
        return true;
    }
    return path.len >= root.len && memcmp(path.data, root.data, root.len) == 0 &&
           (path.len == root.len || path.data[root.len] == '/');
}

/* Follows the run of deletions. */
static void search_events(struct undelete_search *u, const struct backup_change *change)
{
    const struct effects *e = change->effects;
    for (size_t i = 0; i < e->events_count; i++) {
        enum wire_event_type type = e->events[i].type;
        if (type == WIRE_EVENT_NODE_CHILDREN_CHANGED || !is_in_branch(e->events[i].path, u->path)) {
            continue;
        }
        int64_t now_ms = change->header->time_ms;
        if (type != WIRE_EVENT_NODE_DELETED) {
            u->run_zxid = -1;
        } else if (u->run_zxid < 0 || now_ms - u->run_ms > TOGETHER_MS) {
            u->run_zxid = u->last_zxid;
        }
        u->run_ms = now_ms;
    }
}

static void search_changed(void *ctx, const struct state *s, const struct backup_change *change)
{
    struct undelete_search *u = ctx;
    struct wire_stat stat;
    int rc = past_stat(s, u->path, &stat);
    u->error = rc == 0 || rc == CONCLAVE_NO_NODE ? u->error : rc;
    if (change != NULL) {
        search_events(u, change);
    } else {
        u->run_zxid = -1;
    }
    if (u->there && rc != 0) {
        u->found_zxid = u->run_zxid >= 0 ? u->run_zxid : u->last_zxid;
    }
    u->there = rc == 0;
    u->last_zxid = state_zxid(s);
}

/* Finds the moment, as text for --at. 0 or the exit code. */
static int search_moment(const struct undelete_options *o, const char *path, char **more,
                         size_t more_count, char ret[32])
{
    struct undelete_search u = {.path = slice_str(path), .run_zxid = -1, .found_zxid = -1};
    struct past_walk walk = {.changed = search_changed, .ctx = &u};
    int code = past_walk(&USAGE, &o->past, more, more_count, &walk);
    if (code != 0) {
        return code;
    }
    if (u.error != 0) {
        return fail(USAGE.name, path, u.error);
    }
    if (u.found_zxid < 0) {
        fprintf(stderr, "conclave undelete: %s: the backups do not show its deletion%s\n", path,
                u.there ? "; it is there at their end: choose an earlier state with --at"
                        : ": they begin too late, or it was never there");
        return CLI_EXIT_FAILED;
    }
    assert(u.found_zxid <= u.last_zxid);
    snprintf(ret, 32, "0x%" PRIx64, (uint64_t)u.found_zxid);
    return 0;
}

int command_undelete(int argc, char **argv)
{
    struct undelete_options o = {.common = COMMON_OPTIONS_INIT};
    struct operands operands;
    struct backup_loaded loaded;
    struct branch_copied done;
    char at[32];
    int code = options_parse(&USAGE, argc, argv, &o, &operands);
    code = code == OPTIONS_GO_ON ? path_check(&USAGE, operands.words[0]) : code;
    code = code == OPTIONS_GO_ON && o.to != NULL ? path_check(&USAGE, o.to) : code;
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    const char *path = operands.words[0];
    char **more = operands.words + 1;
    size_t more_count = (size_t)operands.count - 1;
    code = 0;
    if (o.past.at == NULL) {
        code = search_moment(&o, path, more, more_count, at);
        o.past.at = at;
    }
    code = code == 0 ? past_load(&USAGE, &o.past, more, more_count, &loaded) : code;
    if (code != 0) {
        return code;
    }
    const struct branch_copy copy = {
        USAGE.name, &o.common, loaded.state, path, o.to != NULL ? o.to : path, o.merge};
    code = branch_copy(&copy, &done);
    code = code == 0 ? branch_copy_report(&copy, state_zxid(loaded.state), &done) : code;
    backup_loaded_finish(&loaded);
    return output_end(USAGE.name, code);
}
