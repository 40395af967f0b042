/*
 * conclave watch: the changes of one node, one line each, until a signal or a number of them.
 *
 * Two watches are kept: one on the node (made, removed, data) and, while it exists, one on its
 * children. Each is set again by the read that follows its event. ZooKeeper's watches say that
 * something changed, not how often: changes between an event and the read that sets the watch
 * again show as one.
 */
#include "base/json.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "cli/options.h"
#include "cli/waiter.h"

#include <stdatomic.h>
#include <stdio.h>

struct watch_options {
    struct common_options common;
    int64_t count;
};

static const struct option_row ROWS[] = {
    {"count", 'n', OPTION_INTEGER, offsetof(struct watch_options, count), "N",
     "End after N events. Default: go on until a signal.", NULL},
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
        "\n"
        "Several changes in quick succession may show as one.",
    .rows = ROWS,
    .more =
        "With --json: {\"event\":EVENT,\"path\":PATH} on a line each; WATCHING also has \"exists\" "
        "and, if it does, \"version\". WATCHING and LOST do not count for --count.\n",
    .client = true,
    .operands_min = 1,
    .operands_max = 1,
};

/* Belongs to the callback thread once the first watch is on its way, except for `done`. */
struct watching {
    const char *path;
    bool as_json;
    bool announce; /* WATCHING is to be printed when the watch is set */
    bool children; /* a watch on the children is set or on its way */
    int64_t left;  /* events to go, -1: no end */
    struct waiter waiter;
    atomic_bool done; /* nothing more is to be printed */
    int error;        /* why it ended before its time; read when the callbacks are over */
};

static void watching_end(struct watching *w, int error)
{
    w->error = error;
    w->done = true;
    waiter_wake(&w->waiter);
}

/* Only from the callback thread. stat: with WATCHING, NULL when there is no node. */
static void watching_print(struct watching *w, const char *event, const struct conclave_stat *stat)
{
    int error = 0;
    if (w->as_json) {
        struct json j;
        json_init(&j);
        json_object_begin(&j);
        json_key(&j, "event");
        json_string(&j, event);
        json_key(&j, "path");
        json_string(&j, w->path);
        if (w->announce) {
            json_key(&j, "exists");
            json_bool(&j, stat != NULL);
            if (stat != NULL) {
                json_key(&j, "version");
                json_int(&j, stat->version);
            }
        }
        json_object_end(&j);
        error = json_print(&j, stdout);
        json_finish(&j);
    } else if (printf("%s %s\n", event, w->path) < 0 || fflush(stdout) != 0) {
        error = CONCLAVE_EIO;
    }
    if (error != 0) {
        watching_end(w, error);
    }
}

static void arm(struct conclave_client *client, struct watching *w, enum conclave_op_type type);

static void on_event(struct conclave_client *client, enum conclave_event_type type,
                     const char *path, void *ctx)
{
    struct watching *w = ctx;
    (void)path;
    bool again = type == CONCLAVE_EVENT_CHILDREN_CHANGED;
    if (w->done || w->left == 0) {
        return;
    }
    if (type == CONCLAVE_EVENT_LOST) {
        w->announce = false;
        watching_print(w, "LOST", NULL);
        w->announce = true;
    } else {
        watching_print(w, conclave_event_name(type), NULL);
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
    struct watching *w = ctx;
    if (type == CONCLAVE_EVENT_CHILDREN_CHANGED) {
        on_event(client, type, path, ctx);
    } else {
        w->children = false;
    }
}

static void on_exists(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    struct watching *w = ctx;
    bool exists = reply->error == 0;
    if (w->done) {
        return;
    }
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        if (conclave_error_retryable(reply->error) || reply->error == CONCLAVE_SESSION_EXPIRED) {
            arm(client, w, CONCLAVE_OP_EXISTS);
        } else {
            watching_end(w, reply->error);
        }
        return;
    }
    if (exists && !w->children) {
        w->children = true;
        arm(client, w, CONCLAVE_OP_GET_CHILDREN);
    }
    /* With a node the watch on its children has yet to be set. */
    if (w->announce && !exists) {
        watching_print(w, "WATCHING", NULL);
        w->announce = false;
    }
}

static void on_children(struct conclave_client *client, const struct conclave_reply *reply,
                        void *ctx)
{
    struct watching *w = ctx;
    if (w->done) {
        return;
    }
    if (reply->error == 0) {
        if (w->announce) {
            watching_print(w, "WATCHING", &reply->stat);
            w->announce = false;
        }
        return;
    }
    w->children = false;
    /* Gone meanwhile: the watch on the node tells. */
    if (reply->error != CONCLAVE_NO_NODE) {
        if (conclave_error_retryable(reply->error) || reply->error == CONCLAVE_SESSION_EXPIRED) {
            w->children = true;
            arm(client, w, CONCLAVE_OP_GET_CHILDREN);
        } else {
            watching_end(w, reply->error);
        }
    }
}

static void arm(struct conclave_client *client, struct watching *w, enum conclave_op_type type)
{
    bool children = type == CONCLAVE_OP_GET_CHILDREN;
    struct conclave_op op =
        conclave_op_watch(type, w->path, children ? on_children_event : on_event, w);
    op.timeout_ms = CONCLAVE_FOREVER;
    int error = conclave_submit(client, &op, children ? on_children : on_exists, w);
    if (error != 0) {
        watching_end(w, error);
    }
}

/* Until the callbacks are through or a signal comes. The exit code. */
static int watching_run(struct watching *w, const struct common_options *common)
{
    struct conclave_client *client;
    int number = 0;
    int code = connection_open(USAGE.name, common, NULL, NULL, &client);
    if (code != 0) {
        return code;
    }
    arm(client, w, CONCLAVE_OP_EXISTS);
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
    if (code == OPTIONS_GO_ON) {
        code = path_check(&USAGE, operands.words[0]);
    }
    if (code == OPTIONS_GO_ON && options.count == 0) {
        code = usage_error(&USAGE, "--count 0 would watch nothing");
    }
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    struct watching w = {.path = operands.words[0],
                         .as_json = options.common.json,
                         .announce = true,
                         .left = options.count};
    if (waiter_init(&w.waiter, WAITER_END_SIGNALS, false) != 0) {
        return fail(USAGE.name, NULL, CONCLAVE_EIO);
    }
    code = watching_run(&w, &options.common);
    waiter_finish(&w.waiter);
    return code;
}
