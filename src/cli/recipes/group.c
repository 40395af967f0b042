/* conclave group: joins a group, lists it, prints its changes. */
#include "cli/common/connection.h"
#include "cli/common/record.h"
#include "cli/common/values.h"
#include "cli/run/run_command.h"

#include <conclave/group.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_TIMEOUT_MS = 5000 };

struct group_options {
    struct common_options common;
    const char *id;
    const char *data;
    const char *incarnation;
    int64_t debounce_ms;
    int64_t connect_timeout_ms;
};

enum group_verb { GROUP_JOIN, GROUP_LIST, GROUP_WATCH };
static const struct command_verb VERBS[] = {
    {"join", 1, 1, true}, {"list", 1, 1, false}, {"watch", 1, 1, false}, {.name = NULL}};

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
    {"id", 0, OPTION_STRING, FIELD(id), "TEXT", "join: name of the member; default HOST:PID."},
    {"data", 0, OPTION_STRING, FIELD(data), "TEXT",
     "join: data that others see, such as an address."},
    {"incarnation", 0, OPTION_STRING, FIELD(incarnation), "TEXT",
     "join: the same text after each restart of the member, to replace the node of its previous run "
     "at once. Default: a random text, and the previous node is waited for."},
    {"debounce", 0, OPTION_DURATION, FIELD(debounce_ms), "DURATION",
     "watch: gather changes for this time before they are printed. Default 0."},
    {"timeout", 0, OPTION_DURATION, FIELD(common.timeout_ms), "DURATION",
     "join: give up, with exit code 75, when the member has not joined by then; default: wait "
     "forever. list: time for the answers; default 5s."},
    {"connect-timeout", 0, OPTION_DURATION, FIELD(connect_timeout_ms), "DURATION",
     "join, watch: give up, with exit code 69, when no server was reached in this time; default "
     "30s. Later losses of the connection are waited out."},
    OPTION_GROUP(ACL_ROWS, 0),
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "group",
    .forms = (const char *const[]){"join PATH [options] [-- CMD [ARG...]]", "list PATH [options]",
                                   "watch PATH [options]", NULL},
    .about = "A group is a set of processes that are there now; PATH is its node.\n"
             "\n"
             "  join   is a member while CMD runs; without CMD until its input ends or a\n"
             "         signal comes. It joins again on its own when the session was lost\n"
             "         or its node deleted\n"
             "  list   prints titles, then the members: name, token and data, with tabs\n"
             "         between\n"
             "  watch  prints each change: JOINED, LEFT or UPDATED with a member. STALE\n"
             "         and FRESH: changes between them may come late, and no member counts\n"
             "         as gone meanwhile\n"
             "\n"
             "INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to CMD; when it ends, the member "
             "leaves the group.",
    .rows = ROWS,
    .verbs = VERBS,
    .more = "CMD finds CONCLAVE_PATH (the group) and CONCLAVE_ID (its name) in its environment.\n"
            "\n"
            "With --json: list {\"id\",\"token\",\"session\",\"data\"} on a line each, watch the "
            "same with \"event\" before it.\n"
            "\n"
            "Exit codes: CMD's own, 128+n after signal n; 69 no server, 75 not joined within "
            "--timeout, 76 the membership ended while CMD ran, 77 not permitted.\n",
    .client = true,
    .runs_command = true,
};

/* --- output ------------------------------------------------------------------------------ */

/* member NULL: the event alone. */
static int member_print(bool as_json, const char *event, const struct conclave_member *member)
{
    struct record r;
    record_begin(&r, as_json);
    if (event != NULL) {
        record_string(&r, "event", event);
    }
    if (member != NULL) {
        record_string(&r, "id", member->id);
        record_int(&r, "token", member->token.czxid);
        if (as_json) {
            json_member_hex(&r.j, "session", member->session_id);
        }
        record_data(&r, member->data, member->data_len);
    }
    return record_print(&r);
}

/* --- list --------------------------------------------------------------------------------- */

static int group_list(const struct group_call *w, struct conclave_recipes *recipes)
{
    const struct common_options *common = &w->options->common;
    struct conclave_member **list = NULL;
    size_t count = 0;
    int error = conclave_group_members(recipes, w->path, common->timeout_ms, &list, &count);
    output_titles(common, count, "ID\tTOKEN\tDATA");
    for (size_t i = 0; i < count && error == 0; i++) {
        error = member_print(common->json, NULL, list[i]);
    }
    conclave_members_free(list, count);
    return error == 0 ? 0 : fail(USAGE.name, w->path, error);
}

/* --- join and watch ------------------------------------------------------------------------ */

static void group_on_change(struct conclave_group *group, enum conclave_group_event event,
                            const struct conclave_member *member, void *ctx)
{
    struct group_call *w = ctx;
    waiter_end(&w->waiter,
               member_print(w->options->common.json, conclave_group_event_name(event), member));
}

static void on_view(struct conclave_group *group, const struct conclave_group_view *view, void *ctx)
{
    struct group_call *w = ctx;
    if (view->stale != w->stale) {
        w->stale = view->stale;
        waiter_end(&w->waiter,
                   member_print(w->options->common.json, view->stale ? "STALE" : "FRESH", NULL));
    }
}

static void group_on_closed(struct conclave_group *group, int why, void *ctx)
{
    struct group_call *w = ctx;
    waiter_end(&w->waiter, why);
}

static int open_group(struct group_call *w, struct conclave_recipes *recipes,
                      struct conclave_group **ret)
{
    const struct group_options *wanted = w->options;
    struct conclave_group_options options = CONCLAVE_GROUP_OPTIONS_INIT;
    struct conclave_group_callbacks callbacks = {.size = sizeof callbacks,
                                                 .on_closed = group_on_closed};
    options.path = w->path;
    if (w->verb == GROUP_JOIN) {
        options.id = wanted->id;
        options.data = wanted->data;
        options.data_len = wanted->data == NULL ? 0 : strlen(wanted->data);
        options.incarnation = wanted->incarnation;
    } else {
        options.debounce_ms = wanted->debounce_ms;
        callbacks.on_change = group_on_change;
        callbacks.on_view = on_view;
        w->stale = true; /* so that the first view prints FRESH */
    }
    int error = conclave_group_open(recipes, &options, &callbacks, w, ret);
    if (error == CONCLAVE_EINVAL) {
        return usage_error(&USAGE, "--id wants a name of a node, --incarnation one line");
    }
    return error == 0 ? 0 : fail(USAGE.name, w->path, error);
}

static int close_group(struct conclave_group *group)
{
    int error = conclave_group_close_wait(group, CONCLAVE_FOREVER);
    conclave_group_destroy(group);
    return error;
}

static int group_watch(struct group_call *w, struct conclave_recipes *recipes)
{
    struct conclave_group *group;
    int code = open_group(w, recipes, &group);
    if (code != 0) {
        return code;
    }
    int number = waiter_wait_end(&w->waiter);
    return wait_exit_code(&w->waiter, USAGE.name, w->path, close_group(group), number);
}

static int membership_lost(struct group_call *w)
{
    assert(waiter_error(&w->waiter) != 0);
    (void)fail(USAGE.name, w->path, waiter_error(&w->waiter));
    return CLI_EXIT_LOST;
}

/* A member while the command runs. Its exit code, or 76. */
static int join_with_command(struct group_call *w)
{
    char id[512];
    char group[4096];
    const char *const more[] = {group, id, NULL};
    pid_t pid;
    int number = 0;
    (void)snprintf(id, sizeof id, "CONCLAVE_ID=%s", w->options->id);
    (void)snprintf(group, sizeof group, "CONCLAVE_PATH=%s", w->path);
    int code = run_command_start(USAGE.name, w->command, more, &pid);
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
    return lost ? membership_lost(w) : code;
}

/* A member until the input ends or a signal comes. */
static int join_alone(struct group_call *w)
{
    int number = 0;
    enum waiter_event event;
    if (w->options->common.json) {
        struct conclave_member self = {.id = w->options->id, .data = w->options->data};
        self.data_len = self.data == NULL ? 0 : strlen(w->options->data);
        (void)member_print(true, "IN", &self);
    } else {
        printf("IN\t%s\n", w->options->id);
        (void)fflush(stdout);
    }
    do {
        event = waiter_wait(&w->waiter, -1, -1, &number);
    } while (event == WAITER_TIMEOUT);
    if (waiter_error(&w->waiter) != 0) {
        return membership_lost(w);
    }
    return event == WAITER_SIGNAL ? 128 + number : 0;
}

static int group_join(struct group_call *w, struct conclave_recipes *recipes)
{
    struct conclave_group *group;
    int number = 0;
    int error;
    int64_t left_ms = w->options->common.timeout_ms;
    int code = open_group(w, recipes, &group);
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
        bool taken = error == CONCLAVE_ECONFLICT;
        fprintf(stderr, "conclave group: %s: could not join within --timeout%s%s%s\n", w->path,
                taken ? ": the id " : "", taken ? w->options->id : "",
                taken ? " is already in use; give another --id" : "");
        code = CLI_EXIT_TIMEOUT;
    } else if (error != 0) {
        code = fail(USAGE.name, w->path, error);
    } else {
        code = w->command != NULL ? join_with_command(w) : join_alone(w);
    }
    error = close_group(group);
    return code == 0 && error != 0 ? fail(USAGE.name, w->path, error) : code;
}

/* --- the command ---------------------------------------------------------------------------- */

static int group_verb_run(struct conclave_client *client, struct conclave_recipes *recipes,
                          void *ctx)
{
    struct group_call *w = ctx;
    w->waiter.input = w->verb == GROUP_JOIN && w->command == NULL;
    return w->verb == GROUP_JOIN   ? group_join(w, recipes)
           : w->verb == GROUP_LIST ? group_list(w, recipes)
                                   : group_watch(w, recipes);
}

int command_group(int argc, char **argv)
{
    static const int FORWARDED[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, 0};
    struct group_options options = {.common = COMMON_OPTIONS_INIT, .connect_timeout_ms = 30000};
    struct group_call w = {.options = &options};
    struct operands operands;
    char id[HOST_PID_MAX];
    options.common.timeout_ms = CONCLAVE_FOREVER;
    int code = options_parse(&USAGE, argc, argv, &options, &operands);
    code = code == OPTIONS_GO_ON ? path_check(&USAGE, operands.words[1]) : code;
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    w.verb = (enum group_verb)operands.verb;
    w.path = operands.words[1];
    w.command = operands.command;
    if (options.common.timeout_ms == CONCLAVE_FOREVER && w.verb == GROUP_LIST) {
        options.common.timeout_ms = ANSWER_TIMEOUT_MS;
    }
    options.id = options.id != NULL ? options.id : host_pid_text(id);
    struct common_options common = options.common;
    if (w.verb != GROUP_LIST) {
        common.timeout_ms = options.connect_timeout_ms;
    }
    return output_end(USAGE.name,
                      connection_run_waiting(USAGE.name, &common, &w.waiter,
                                             w.verb == GROUP_JOIN ? FORWARDED : WAITER_END_SIGNALS,
                                             group_verb_run, &w));
}
