/* conclave group: joins a group, lists it, tells its changes. */
#include "base/json.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/values.h"
#include "cli/common/waiter.h"
#include "cli/run/run_command.h"

#include <conclave/group.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct group_options {
    struct common_options common;
    const char *id;
    const char *data;
    const char *incarnation;
    int64_t debounce_ms;
    int64_t connect_timeout_ms;
};

enum group_verb { GROUP_JOIN, GROUP_LIST, GROUP_WATCH, GROUP_VERBS };

/* One run of the command. */
struct group_call {
    const struct group_options *options;
    enum group_verb verb;
    const char *path;
    char *const *command;
    struct waiter waiter;
    bool stale; /* it was printed; the callbacks' own */
};

#define FIELD(name) offsetof(struct group_options, name)

static const struct option_row ROWS[] = {
    {"id", 0, OPTION_STRING, FIELD(id), "TEXT", "join: the member's name; default HOST:PID.", NULL},
    {"data", 0, OPTION_STRING, FIELD(data), "TEXT",
     "join: shown to the others, such as an address.", NULL},
    {"incarnation", 0, OPTION_STRING, FIELD(incarnation), "TEXT",
     "join: the same text in each life of the member: its last node, if it is still there, is then "
     "replaced at once. Default: a random one, and another's node is waited for.",
     NULL},
    {"debounce", 0, OPTION_DURATION, FIELD(debounce_ms), "DURATION",
     "watch: gather changes for so long before they are told. Default 0.", NULL},
    {"timeout", 0, OPTION_DURATION, offsetof(struct common_options, timeout_ms), "DURATION",
     "join: give up, with exit code 75, when the member is not in by then; default: wait for ever. "
     "list: for the answers; default 5s.",
     NULL},
    {"connect-timeout", 0, OPTION_DURATION, FIELD(connect_timeout_ms), "DURATION",
     "join, watch: give up, with exit code 69, when no server was reached in this time; default "
     "30s. Later losses of the connection are waited out.",
     NULL},
    ACL_ROW,
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "group",
    .forms = (const char *const[]){"join PATH [options] [-- CMD [ARG...]]", "list PATH [options]",
                                   "watch PATH [options]", NULL},
    .about = "A group is the members that are there now; PATH is its node.\n"
             "\n"
             "  join   is a member while CMD runs; without CMD until its input ends or a\n"
             "         signal comes. The member comes back by itself when the session was\n"
             "         lost or its node deleted\n"
             "  list   prints titles, then the members: name, token and data, with tabs\n"
             "         between\n"
             "  watch  prints each change, as JOINED, LEFT or UPDATED with a member, and\n"
             "         STALE and FRESH: what is between them may come late, nobody is\n"
             "         taken for gone meanwhile\n"
             "\n"
             "INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to CMD; when it ends, the group is "
             "left.",
    .rows = ROWS,
    .more = "CMD finds CONCLAVE_PATH (the group) and CONCLAVE_ID (its name) in its environment.\n"
            "\n"
            "With --json: list {\"id\",\"token\",\"session\",\"data\"} on a line each, watch the "
            "same with \"event\" before it.\n"
            "\n"
            "Exit codes: CMD's own, 128+n when it died of signal n; 69 no server, 75 not in within "
            "--timeout, 76 the membership ended while CMD ran, 77 not permitted.\n",
    .client = true,
    .runs_command = true,
    .operands_min = 2,
    .operands_max = 2,
};

/* --- output ------------------------------------------------------------------------------ */

/* Bytes on a line: control characters as "?". */
static void print_text(const void *data, size_t len)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i++) {
        (void)putchar(bytes[i] < 0x20 || bytes[i] == 0x7f ? '?' : bytes[i]);
    }
}

/* member NULL: the event alone. */
static int print_member(bool as_json, const char *event, const struct conclave_member *member)
{
    struct json j;
    if (!as_json) {
        printf("%s%s", event == NULL ? "" : event, event == NULL || member == NULL ? "" : "\t");
        if (member != NULL) {
            printf("%s\t%" PRId64 "\t", member->id, member->token.czxid);
            print_text(member->data, member->data_len);
        }
        return printf("\n") < 0 || fflush(stdout) != 0 ? CONCLAVE_EIO : 0;
    }
    json_line_begin(&j);
    if (event != NULL) {
        json_member_string(&j, "event", event);
    }
    if (member != NULL) {
        json_member_string(&j, "id", member->id);
        json_member_int(&j, "token", member->token.czxid);
        json_member_hex(&j, "session", member->session_id);
        json_data(&j, member->data, member->data_len);
    }
    return json_line_print(&j, stdout);
}

/* --- list --------------------------------------------------------------------------------- */

static int group_list(struct conclave_recipes *recipes, const struct group_options *options,
                      const char *path)
{
    struct conclave_member *list;
    size_t count;
    int error = conclave_group_members(recipes, path, options->common.timeout_ms, &list, &count);
    if (error != 0) {
        return fail(USAGE.name, path, error);
    }
    output_titles(&options->common, count, "ID\tTOKEN\tDATA");
    for (size_t i = 0; i < count && error == 0; i++) {
        error = print_member(options->common.json, NULL, &list[i]);
    }
    conclave_members_free(list, count);
    return error == 0 ? 0 : fail(USAGE.name, NULL, error);
}

/* --- join and watch ------------------------------------------------------------------------ */

static void group_on_change(struct conclave_group *group, enum conclave_group_event event,
                            const struct conclave_member *member, void *ctx)
{
    struct group_call *w = ctx;
    int error = print_member(w->options->common.json, conclave_group_event_name(event), member);
    if (error != 0) {
        waiter_end(&w->waiter, error);
    }
}

static void on_view(struct conclave_group *group, const struct conclave_group_view *view, void *ctx)
{
    struct group_call *w = ctx;
    if (view->stale == w->stale) {
        return;
    }
    w->stale = view->stale;
    int error = print_member(w->options->common.json, view->stale ? "STALE" : "FRESH", NULL);
    if (error != 0) {
        waiter_end(&w->waiter, error);
    }
}

static void group_on_closed(struct conclave_group *group, int why, void *ctx)
{
    struct group_call *w = ctx;
    if (why != CONCLAVE_ECLOSED) {
        waiter_end(&w->waiter, why);
    }
}

static int open_group(struct group_call *w, struct conclave_recipes *recipes,
                      const struct group_options *wanted, const char *path, bool member,
                      struct conclave_group **ret)
{
    struct conclave_group_options options = CONCLAVE_GROUP_OPTIONS_INIT;
    struct conclave_group_callbacks callbacks = {.on_closed = group_on_closed};
    options.path = path;
    if (member) {
        options.id = wanted->id;
        options.data = wanted->data;
        options.data_len = wanted->data == NULL ? 0 : strlen(wanted->data);
        options.incarnation = wanted->incarnation;
    } else {
        options.debounce_ms = wanted->debounce_ms;
        callbacks.on_change = group_on_change;
        callbacks.on_view = on_view;
        w->stale = true; /* the first view is told as fresh */
    }
    int error = conclave_group_open(recipes, &options, &callbacks, w, ret);
    if (error == CONCLAVE_EINVAL) {
        return usage_error(&USAGE, "--id wants a name of a node, --incarnation one line");
    }
    return error == 0 ? 0 : fail(USAGE.name, path, error);
}

static int close_group(struct conclave_group *group)
{
    int error = conclave_group_close_wait(group, CONCLAVE_FOREVER);
    conclave_group_destroy(group);
    return error;
}

static int group_watch(struct group_call *w, struct conclave_recipes *recipes,
                       const struct group_options *options, const char *path)
{
    struct conclave_group *group;
    int code = open_group(w, recipes, options, path, false, &group);
    if (code != 0) {
        return code;
    }
    int number = waiter_wait_end(&w->waiter);
    int error = close_group(group);
    error = waiter_error(&w->waiter) != 0 ? waiter_error(&w->waiter) : error;
    return error != 0 ? fail(USAGE.name, path, error) : number != 0 ? 128 + number : 0;
}

/* While CMD runs. Its exit code, or 76. */
static int hold_command(struct group_call *w, const struct group_options *options, const char *path,
                        char *const *argv)
{
    char id[512];
    char group[4096];
    const char *const more[] = {group, id, NULL};
    pid_t pid;
    int number = 0;
    (void)snprintf(id, sizeof id, "CONCLAVE_ID=%s", options->id);
    (void)snprintf(group, sizeof group, "CONCLAVE_PATH=%s", path);
    int code = run_command_start(USAGE.name, argv, more, &pid);
    if (code != 0) {
        return code;
    }
    int fd = run_command_fd(pid);
    bool lost = false;
    for (bool runs = true; runs;) {
        enum waiter_event event = waiter_wait(&w->waiter, fd, fd < 0 ? 200 : -1, &number);
        if (event == WAITER_SIGNAL) {
            (void)kill(pid, number);
        } else if (event == WAITER_WOKEN && waiter_error(&w->waiter) != 0) {
            lost = true;
            (void)kill(pid, SIGTERM);
        }
        siginfo_t info = {0};
        runs =
            waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    code = run_command_wait(pid);
    if (lost) {
        (void)fail(USAGE.name, path, waiter_error(&w->waiter));
        return CLI_EXIT_LOST;
    }
    return code;
}

static int hold(struct group_call *w, const struct group_options *options, const char *path)
{
    int number = 0;
    enum waiter_event event;
    if (options->common.json) {
        struct conclave_member self = {.id = options->id, .data = options->data};
        self.data_len = options->data == NULL ? 0 : strlen(options->data);
        (void)print_member(true, "IN", &self);
    } else {
        printf("IN\t%s\n", options->id);
        (void)fflush(stdout);
    }
    do {
        event = waiter_wait(&w->waiter, -1, -1, &number);
    } while (event == WAITER_TIMEOUT);
    if (waiter_error(&w->waiter) != 0) {
        (void)fail(USAGE.name, path, waiter_error(&w->waiter));
        return CLI_EXIT_LOST;
    }
    return event == WAITER_SIGNAL ? 128 + number : 0;
}

static int group_join(struct group_call *w, struct conclave_recipes *recipes,
                      const struct group_options *options, const char *path, char *const *argv)
{
    struct conclave_group *group;
    int number = 0;
    int error;
    int64_t left_ms = options->common.timeout_ms;
    int code = open_group(w, recipes, options, path, true, &group);
    if (code != 0) {
        return code;
    }
    do { /* in pieces, so that a signal ends it */
        int64_t piece = left_ms >= 0 && left_ms < 100 ? left_ms : 100;
        error = conclave_group_wait_joined(group, piece);
        left_ms -= left_ms >= 0 ? piece : 0;
    } while ((error == CONCLAVE_ETIMEDOUT || error == CONCLAVE_ECONFLICT) && left_ms != 0 &&
             waiter_wait(&w->waiter, -1, 0, &number) != WAITER_SIGNAL);
    if (number != 0) {
        code = 128 + number;
    } else if (error == CONCLAVE_ETIMEDOUT || error == CONCLAVE_ECONFLICT) {
        fprintf(stderr, "conclave group: %s: could not join within --timeout%s%s%s\n", path,
                error == CONCLAVE_ECONFLICT ? ": the id " : "",
                error == CONCLAVE_ECONFLICT ? options->id : "",
                error == CONCLAVE_ECONFLICT ? " is already in use; give another --id" : "");
        code = CLI_EXIT_TIMEOUT;
    } else if (error != 0) {
        code = fail(USAGE.name, path, error);
    } else {
        code = argv != NULL ? hold_command(w, options, path, argv) : hold(w, options, path);
    }
    error = close_group(group);
    return code == 0 && error != 0 ? fail(USAGE.name, path, error) : code;
}

/* --- the command ---------------------------------------------------------------------------- */

static int group_verb_run(struct conclave_recipes *recipes, void *ctx)
{
    struct group_call *w = ctx;
    switch (w->verb) {
    case GROUP_JOIN:
        return group_join(w, recipes, w->options, w->path, w->command);
    case GROUP_LIST:
        return group_list(recipes, w->options, w->path);
    default:
        return group_watch(w, recipes, w->options, w->path);
    }
}

static int group_run(struct group_call *w)
{
    static const int FORWARDED[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, 0};
    struct common_options common = w->options->common;
    bool join = w->verb == GROUP_JOIN;
    if (waiter_init(&w->waiter, join ? FORWARDED : WAITER_END_SIGNALS,
                    join && w->command == NULL) != 0) {
        return fail(USAGE.name, NULL, CONCLAVE_EIO);
    }
    if (w->verb != GROUP_LIST) {
        common.timeout_ms = w->options->connect_timeout_ms;
    }
    int code = connection_run_recipes(USAGE.name, &common, group_verb_run, w);
    waiter_finish(&w->waiter);
    return code;
}

int command_group(int argc, char **argv)
{
    static const char *const VERBS[] = {"join", "list", "watch"};
    struct group_options options = {.common = COMMON_OPTIONS_INIT, .connect_timeout_ms = 30000};
    struct group_call w = {.options = &options};
    struct operands operands;
    char id[HOST_PID_MAX];
    options.common.timeout_ms = CONCLAVE_FOREVER;
    int code = options_parse(&USAGE, argc, argv, &options, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    while (w.verb < GROUP_VERBS && strcmp(operands.words[0], VERBS[w.verb]) != 0) {
        w.verb++;
    }
    if (w.verb == GROUP_VERBS) {
        return usage_error(&USAGE, "say join, list or watch");
    }
    w.path = operands.words[1];
    w.command = operands.command;
    if (w.command != NULL && w.verb != GROUP_JOIN) {
        return usage_error(&USAGE, "only join runs a command");
    }
    code = path_check(&USAGE, w.path);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    if (options.common.timeout_ms == CONCLAVE_FOREVER && w.verb == GROUP_LIST) {
        options.common.timeout_ms = 5000;
    }
    options.id = options.id != NULL ? options.id : host_pid_text(id);
    return output_end(USAGE.name, group_run(&w));
}
