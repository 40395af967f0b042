/*
 * conclave watch: the changes of one node or one branch, one line each, until a signal or a number of them.
 *
 * Without options two one-shot watches are kept, which every server knows: one on the node (made, removed, data) and,
 * while it exists, one on its children. Each is set again by the read that follows its event; changes between an
 * event and that read show as one. With --persistent or --recursive there is one persistent watch, which shows every
 * change.
 */
#include "base/json.h"
#include "cli/common/connection.h"

#include <stdio.h>

struct watch_options {
    struct common_options common;
    int64_t count;
    bool persistent;
    bool recursive;
};

static const struct option_row ROWS[] = {
    {"count", 'n', OPTION_INTEGER, offsetof(struct watch_options, count), "N",
     "End after N events. Default: go on until a signal."},
    {"persistent", 'p', OPTION_FLAG, offsetof(struct watch_options, persistent), NULL,
     "Show every change, also those in quick succession. Needs a server that knows persistent "
     "watches (ZooKeeper 3.6)."},
    {"recursive", 'r', OPTION_FLAG, offsetof(struct watch_options, recursive), NULL,
     "The same for the node and everything below it, without CHILDREN_CHANGED: each child that is "
     "made or removed shows by itself."},
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "watch",
    .forms = (const char *const[]){"PATH [options]", NULL},
    .about =
        "Prints each change of a node as it happens, one line each, \"EVENT PATH\". The node need "
        "not exist. The events:\n"
        "\n"
        "  WATCHING          the watch is set: no change from here on is missed\n"
        "  CREATED           the node was made\n"
        "  DELETED           the node was removed\n"
        "  DATA_CHANGED      its data was written\n"
        "  CHILDREN_CHANGED  a child was made or removed\n"
        "  LOST              the session was lost: changes may be missed until the\n"
        "                    next WATCHING\n"
        "  RESUMED           with --persistent and --recursive: the link was lost, and\n"
        "                    is back: changes may have been missed\n"
        "\n"
        "Without --persistent several changes in quick succession may show as one.",
    .rows = ROWS,
    .more =
        "With --json: {\"event\":EVENT,\"path\":PATH} on a line each; WATCHING also has \"exists\" "
        "and, if it does, \"version\", unless --persistent or --recursive is given. WATCHING, "
        "LOST and RESUMED do not count for --count.\n",
    .client = true,
    .operands = {1, 1},
};

/* Belongs to the callback thread once the first watch is on its way, except for `done`. */
struct tree_watching {
    const char *path;
    bool as_json;
    bool announce; /* print WATCHING when the watch is set */
    bool children; /* a watch on the children is set or on its way */
    bool persistent;
    enum conclave_watch_kind kind; /* of a persistent watch */
    int64_t left;                  /* events to go, -1: no end */
    struct waiter waiter;
    atomic_bool done; /* print nothing more */
    int error;        /* why it ended before its time; read when the callbacks are over */
};

static void watching_end(struct tree_watching *w, int error)
{
    w->error = error;
    w->done = true;
    waiter_wake(&w->waiter);
}

/* False: the error ends the watching. */
static bool watching_goes_on(struct tree_watching *w, int error)
{
    bool goes_on = conclave_error_retryable(error) || error == CONCLAVE_SESSION_EXPIRED;
    if (!goes_on) {
        watching_end(w, error);
    }
    return goes_on;
}

/* Only from the callback thread. stat: with WATCHING, NULL when there is no node. */
static void watching_print(struct tree_watching *w, const char *event, const char *path,
                           const struct conclave_stat *stat)
{
    int error = 0;
    if (!w->as_json) {
        error = printf("%s %s\n", event, path) < 0 || fflush(stdout) != 0 ? CONCLAVE_EIO : 0;
    } else {
        struct json j;
        json_line_begin(&j);
        json_member_string(&j, "event", event);
        json_member_string(&j, "path", path);
        if (w->announce && !w->persistent) {
            json_member_bool(&j, "exists", stat != NULL);
        }
        if (w->announce && !w->persistent && stat != NULL) {
            json_member_int(&j, "version", stat->version);
        }
        error = json_line_print(&j, stdout);
    }
    if (error != 0) {
        watching_end(w, error);
    }
}

static void arm(struct conclave_client *client, struct tree_watching *w,
                enum conclave_op_type type);

static void watch_on_event(struct conclave_client *client, enum conclave_event_type type,
                           const char *path, void *ctx)
{
    struct tree_watching *w = ctx;
    bool again = type == CONCLAVE_EVENT_CHILDREN_CHANGED;
    if (w->done || w->left == 0) {
        return;
    }
    if (type == CONCLAVE_EVENT_LOST) {
        w->announce = false;
        watching_print(w, "LOST", w->path, NULL);
        w->announce = true;
    } else {
        watching_print(w, conclave_event_name(type), w->path, NULL);
        w->left -= w->left > 0;
    }
    if (w->left == 0) {
        watching_end(w, 0);
        return;
    }
    arm(client, w, again ? CONCLAVE_OP_GET_CHILDREN : CONCLAVE_OP_EXISTS);
}

static void on_children_event(struct conclave_client *client, enum conclave_event_type type,
                              const char *path, void *ctx)
{
    struct tree_watching *w = ctx;
    if (type == CONCLAVE_EVENT_CHILDREN_CHANGED) {
        watch_on_event(client, type, path, ctx);
    } else {
        w->children = false;
    }
}

static void on_exists(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    struct tree_watching *w = ctx;
    bool exists = reply->error == 0;
    if (w->done) {
        return;
    }
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        if (watching_goes_on(w, reply->error)) {
            arm(client, w, CONCLAVE_OP_EXISTS);
        }
        return;
    }
    if (exists && !w->children) {
        w->children = true;
        arm(client, w, CONCLAVE_OP_GET_CHILDREN);
    }
    /* With a node the watch on its children has yet to be set. */
    if (w->announce && !exists) {
        watching_print(w, "WATCHING", w->path, NULL);
        w->announce = false;
    }
}

static void watch_on_children(struct conclave_client *client, const struct conclave_reply *reply,
                              void *ctx)
{
    struct tree_watching *w = ctx;
    if (w->done) {
        return;
    }
    if (reply->error == 0) {
        if (w->announce) {
            watching_print(w, "WATCHING", w->path, &reply->stat);
            w->announce = false;
        }
        return;
    }
    w->children = false;
    /* Gone meanwhile: the watch on the node tells. */
    if (reply->error != CONCLAVE_NO_NODE && watching_goes_on(w, reply->error)) {
        w->children = true;
        arm(client, w, CONCLAVE_OP_GET_CHILDREN);
    }
}

static void arm(struct conclave_client *client, struct tree_watching *w, enum conclave_op_type type)
{
    bool children = type == CONCLAVE_OP_GET_CHILDREN;
    struct conclave_op op =
        conclave_op_watch(type, w->path, children ? on_children_event : watch_on_event, w);
    op.timeout_ms = CONCLAVE_FOREVER;
    int error = conclave_submit(client, &op, children ? watch_on_children : on_exists, w);
    if (error != 0) {
        watching_end(w, error);
    }
}

/* --- the persistent way ------------------------------------------------------------------------- */

static void arm_persistent(struct conclave_client *client, struct tree_watching *w);

static void on_persistent(struct conclave_client *client, enum conclave_event_type type,
                          const char *path, void *ctx)
{
    struct tree_watching *w = ctx;
    if (w->done || w->left == 0) {
        return;
    }
    watching_print(w, conclave_event_name(type), path, NULL);
    if (type == CONCLAVE_EVENT_LOST) {
        arm_persistent(client, w);
    } else if (type != CONCLAVE_EVENT_RESUMED) {
        w->left -= w->left > 0;
    }
    if (w->left == 0) {
        watching_end(w, 0);
    }
}

static void on_added(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    struct tree_watching *w = ctx;
    if (w->done) {
        return;
    }
    if (reply->error == 0) {
        watching_print(w, "WATCHING", w->path, NULL);
    } else if (watching_goes_on(w, reply->error)) {
        arm_persistent(client, w);
    }
}

static void arm_persistent(struct conclave_client *client, struct tree_watching *w)
{
    struct conclave_op op = conclave_op_add_watch(w->path, w->kind, on_persistent, w);
    op.timeout_ms = CONCLAVE_FOREVER;
    int error = conclave_submit(client, &op, on_added, w);
    if (error != 0) {
        watching_end(w, error);
    }
}

/* Until the callbacks are through or a signal comes. The exit code. */
static int watch_watching_run(struct tree_watching *w, const struct common_options *common)
{
    struct conclave_client *client;
    int number = 0;
    int code = connection_open_own(USAGE.name, common, NULL, NULL, &client);
    if (code != 0) {
        return code;
    }
    if (w->persistent) {
        arm_persistent(client, w);
    } else {
        arm(client, w, CONCLAVE_OP_EXISTS);
    }
    enum waiter_event event = waiter_wait(&w->waiter, -1, -1, &number);
    w->done = true;
    connection_close(client);
    if (w->error != 0) {
        return fail(USAGE.name, w->path, w->error);
    }
    return event == WAITER_SIGNAL ? 128 + number : 0;
}

int command_watch(int argc, char **argv)
{
    struct watch_options options = {.common = COMMON_OPTIONS_INIT, .count = -1};
    struct operands operands;
    int code = options_parse(&USAGE, argc, argv, &options, &operands);
    code = code == OPTIONS_GO_ON ? path_check(&USAGE, operands.words[0]) : code;
    const struct usage_rule rules[] = {
        {options.persistent && options.recursive,
         "--recursive is persistent as it is: give one of the two"},
        {options.count == 0, "--count 0 would watch nothing"},
        {false, NULL},
    };
    code = code == OPTIONS_GO_ON ? usage_check(&USAGE, rules) : code;
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    struct tree_watching w = {.path = operands.words[0],
                              .as_json = options.common.json,
                              .announce = true,
                              .persistent = options.persistent || options.recursive,
                              .kind = options.recursive ? CONCLAVE_WATCH_RECURSIVE
                                                        : CONCLAVE_WATCH_PERSISTENT,
                              .left = options.count};
    if (waiter_init(&w.waiter, WAITER_END_SIGNALS, false) != 0) {
        return fail(USAGE.name, NULL, CONCLAVE_EIO);
    }
    code = watch_watching_run(&w, &options.common);
    waiter_finish(&w.waiter);
    return code;
}
