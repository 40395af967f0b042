/*
 * conclave barrier: a plain one is set, waited for and removed; a double one is entered, a command run, and left.
 *
 * The main thread waits for signals and for the barrier's callbacks.
 */
#include "base/buf.h"
#include "cli/common/connection.h"
#include "cli/run/item_command.h"

#include <conclave/barrier.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct barrier_cli {
    struct common_options common; /* timeout_ms: CONCLAVE_FOREVER by default */
    const char *path;
    char *const *command;
    const char *round;
    const char *id;
    int64_t count;
    int64_t connect_timeout_ms;
    int64_t grace_ms;
    int layout; /* enum conclave_barrier_layout */
    bool late_pass;
    bool allow_setuid;
};

#define FIELD(name) offsetof(struct barrier_cli, name)

static const struct option_row ROWS[] = {
    {"count", 'n', OPTION_INTEGER, FIELD(count), "N",
     "enter: number of members; all must give the same."},
    {"round", 0, OPTION_STRING, FIELD(round), "NAME",
     "enter: name of this round below PATH; default \"round\", in other layouts PATH itself."},
    {"late-pass", 0, OPTION_FLAG, FIELD(late_pass), NULL,
     "enter: pass when the barrier is open already. Default: fail with exit code 78."},
    {"id", 0, OPTION_STRING, FIELD(id), "TEXT", "enter: name that others see; default HOST:PID."},
    {"grace", 0, OPTION_DURATION, FIELD(grace_ms), "DURATION",
     "enter: time from TERM to KILL for CMD when the membership was lost; default 3s."},
    {"layout", 0, OPTION_CHOICE, FIELD(layout), "native|curator|kazoo",
     "enter: the double barrier of which library; the same for all. Default: native."},
    OPTION_GROUP(ACL_ROWS, 0),
    OPTION_GROUP(ALLOW_SETUID_ROWS, FIELD(allow_setuid)),
    {"timeout", 0, OPTION_DURATION, FIELD(common.timeout_ms), "DURATION",
     "Give up, with exit code 75, when the barrier is still closed by then. Default: wait forever."},
    {"connect-timeout", 0, OPTION_DURATION, FIELD(connect_timeout_ms), "DURATION",
     "Give up, with exit code 69, when no server was reached in this time; default 30s."},
    {.name = NULL},
};

enum barrier_verb { BARRIER_SET, BARRIER_WAIT, BARRIER_REMOVE, BARRIER_ENTER };
static const struct command_verb VERBS[] = {
    {"set", 1, 1, false},  {"wait", 1, 1, false}, {"remove", 1, 1, false},
    {"enter", 1, 1, true}, {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "barrier",
    .forms = (const char *const[]){"set PATH", "wait PATH [options]", "remove PATH",
                                   "enter PATH --count N [options] [-- CMD [ARGS...]]", NULL},
    .about =
        "A barrier is a node: while it exists, everybody waits.\n"
        "\n"
        "  set     creates it; that it exists already is no error\n"
        "  wait    waits until it does not exist\n"
        "  remove  removes it: all that wait go on\n"
        "\n"
        "The double barrier lets N processes begin together and end together:\n"
        "\n"
        "  enter   waits until N are there, runs CMD, waits until all have ended\n"
        "\n"
        "Without CMD it prints \"entered\", and leaves when its input ends or a signal comes. Nobody "
        "enters with fewer than N; a process that gives up is not counted. When the session is lost "
        "inside, or this process is killed, CMD and all its descendants are ended.",
    .rows = ROWS,
    .verbs = VERBS,
    .more =
        "CMD finds CONCLAVE_PATH in its environment. INT, TERM, HUP and QUIT are passed on to it.\n"
        "\n"
        "Exit codes: as of \"conclave elect\"; 75 still closed in the time given; 76 the membership "
        "was lost; 78 another N, or open already.\n",
    .client = true,
    .runs_command = true,
};

/* One call of the command, with what it waits for. */
struct barrier_wait {
    const struct barrier_cli *cli;
    enum barrier_verb verb;
    struct waiter waiter;
    struct item_command handler;
    atomic_int error;
    atomic_bool answered;
    atomic_bool lost;
    int signal;
};

static void barrier_answer(struct barrier_wait *w, int error)
{
    assert(!atomic_load(&w->answered)); /* each call has one answer */
    atomic_store(&w->error, error);
    atomic_store(&w->answered, true);
    waiter_wake(&w->waiter);
}

static void on_plain(struct conclave_barrier *barrier, int error, void *ctx)
{
    barrier_answer(ctx, error);
}

static void on_double(struct conclave_double_barrier *barrier, int error, void *ctx)
{
    barrier_answer(ctx, error);
}

static void on_double_lost(struct conclave_double_barrier *barrier, int why, void *ctx)
{
    struct barrier_wait *w = ctx;
    atomic_store(&w->lost, true);
    waiter_wake(&w->waiter);
}

/* Until the call has its answer; a signal closes the handle, which answers, too. error: of the call's beginning. */
static int barrier_await(struct barrier_wait *w, int error, struct conclave_barrier *plain,
                         struct conclave_double_barrier *both)
{
    assert((plain == NULL) != (both == NULL));
    while (error == 0 && !atomic_load(&w->answered)) {
        if (waiter_wait(&w->waiter, -1, -1, &w->signal) == WAITER_SIGNAL) {
            if (plain != NULL) {
                conclave_barrier_close(plain);
            } else {
                conclave_double_barrier_close(both);
            }
        }
    }
    atomic_store(&w->answered, false);
    return error == 0 ? atomic_load(&w->error) : error;
}

static int answer_code(const struct barrier_wait *w, int error)
{
    if (error == 0) {
        return 0;
    }
    if (w->signal != 0 && error == CONCLAVE_ECLOSED) {
        return 128 + w->signal;
    }
    if (error == CONCLAVE_ETIMEDOUT) {
        fprintf(stderr, "conclave %s: %s: not done within %" PRId64 " ms (--timeout)\n", USAGE.name,
                w->cli->path, w->cli->common.timeout_ms);
        return CLI_EXIT_TIMEOUT;
    }
    int code = fail(USAGE.name, w->cli->path, error);
    return error == CONCLAVE_ECONFLICT                                    ? CLI_EXIT_CONFIG
           : error == CONCLAVE_ELOST || error == CONCLAVE_SESSION_EXPIRED ? CLI_EXIT_LOST
                                                                          : code;
}

/* --- plain ------------------------------------------------------------------------------------ */

static int run_plain(struct barrier_wait *w, struct conclave_recipes *recipes)
{
    struct conclave_barrier_options options = CONCLAVE_BARRIER_OPTIONS_INIT;
    struct conclave_barrier *barrier;
    int64_t timeout_ms = w->cli->common.timeout_ms;
    options.path = w->cli->path;
    int error = conclave_barrier_open(recipes, &options, NULL, NULL, &barrier);
    if (error != 0) {
        return answer_code(w, error);
    }
    error = w->verb == BARRIER_SET ? conclave_barrier_set_async(barrier, timeout_ms, on_plain, w)
            : w->verb == BARRIER_WAIT
                ? conclave_barrier_wait_async(barrier, timeout_ms, on_plain, w)
                : conclave_barrier_remove_async(barrier, timeout_ms, on_plain, w);
    int code = answer_code(w, barrier_await(w, error, barrier, NULL));
    if (conclave_barrier_close_wait(barrier, CONCLAVE_FOREVER) == 0) {
        conclave_barrier_destroy(barrier);
    }
    return code;
}

/* --- double ------------------------------------------------------------------------------------- */

static void barrier_variables(const struct child_spec *spec, struct buf *out)
{
    buf_printf(out, "CONCLAVE_PATH=%s%c", spec->program->path, 0);
}

/* The exit code. */
static int run_command(struct barrier_wait *w)
{
    struct item_command_end end;
    struct item_command_job job = {
        .term = {.grace_ms = w->cli->grace_ms, .unleased = true},
        .lost = &w->lost,
    };
    int error = item_command_run(&w->handler, &job, &w->waiter, &end);
    if (error == CONCLAVE_ECLOSED) {
        return end.denied ? CLI_EXIT_DENIED : CLI_EXIT_GUARDIAN;
    }
    return error != 0 ? fail(USAGE.name, w->cli->command[0], error) : end.exit_code;
}

/* Inside: the command, or waiting for the end of the input. The exit code. */
static int inside(struct barrier_wait *w)
{
    if (w->cli->command != NULL) {
        return run_command(w);
    }
    if (puts("entered") < 0 || fflush(stdout) != 0) {
        return CLI_EXIT_IO;
    }
    w->waiter.input = true;
    for (;;) {
        enum waiter_event event = waiter_wait(&w->waiter, -1, -1, &w->signal);
        if (event == WAITER_SIGNAL) {
            int code = 128 + w->signal;
            w->signal = 0; /* it leaves as always */
            return code;
        }
        if (event == WAITER_INPUT_END || atomic_load(&w->lost)) {
            return 0;
        }
    }
}

static int run_double(struct barrier_wait *w, struct conclave_recipes *recipes)
{
    struct conclave_double_barrier_options options = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
    struct conclave_double_barrier_callbacks callbacks = {.size = sizeof callbacks,
                                                          .on_lost = on_double_lost};
    struct conclave_double_barrier *barrier;
    int64_t timeout_ms = w->cli->common.timeout_ms;
    options.path = w->cli->path;
    options.round = w->cli->round;
    options.id = w->cli->id;
    options.count = (uint32_t)w->cli->count;
    options.late_pass = w->cli->late_pass;
    options.layout = (enum conclave_barrier_layout)w->cli->layout;
    int error = conclave_double_barrier_open(recipes, &options, &callbacks, w, &barrier);
    if (error != 0) {
        return answer_code(w, error);
    }
    error = conclave_double_barrier_enter_async(barrier, timeout_ms, on_double, w);
    error = barrier_await(w, error, NULL, barrier);
    int code = answer_code(w, error);
    if (error == 0) {
        code = inside(w);
        error = conclave_double_barrier_leave_async(barrier, timeout_ms, on_double, w);
        int left = answer_code(w, barrier_await(w, error, NULL, barrier));
        code = left != 0 && (code == 0 || left == CLI_EXIT_LOST) ? left : code;
    }
    if (conclave_double_barrier_close_wait(barrier, CONCLAVE_FOREVER) == 0) {
        conclave_double_barrier_destroy(barrier);
    }
    return code;
}

/* --- the command ---------------------------------------------------------------------------------- */

static int barrier_check(const struct barrier_cli *cli, enum barrier_verb verb)
{
    bool enter = verb == BARRIER_ENTER;
    bool own = cli->count != 0 || cli->command != NULL || cli->round != NULL || cli->id != NULL ||
               cli->late_pass || cli->allow_setuid || cli->layout != CONCLAVE_BARRIER_LAYOUT_NATIVE;
    if (enter && (cli->count < 1 || cli->count > CONCLAVE_DOUBLE_BARRIER_MAX)) {
        return usage_error(&USAGE, "enter wants --count, a number from 1 to %d",
                           CONCLAVE_DOUBLE_BARRIER_MAX);
    }
    const struct usage_rule rules[] = {
        {!enter && own, "set, wait and remove want PATH alone: the other options are for enter"},
        {cli->round != NULL && (cli->round[0] == '\0' || strchr(cli->round, '/') != NULL),
         "--round wants a node's name, without \"/\""},
        {strcmp(cli->path, "/") == 0, "the barrier needs a node of its own, not \"/\""},
        {false, NULL},
    };
    int code = usage_check(&USAGE, rules);
    return code == OPTIONS_GO_ON ? path_check(&USAGE, cli->path) : code;
}

static int barrier_run(struct conclave_client *client, struct conclave_recipes *recipes, void *ctx)
{
    struct barrier_wait *w = ctx;
    return w->verb == BARRIER_ENTER ? run_double(w, recipes) : run_plain(w, recipes);
}

int command_barrier(int argc, char **argv)
{
    struct barrier_cli cli = {
        .common = COMMON_OPTIONS_INIT, .connect_timeout_ms = 30000, .grace_ms = 3000};
    struct barrier_wait w = {.cli = &cli, .handler = ITEM_COMMAND_NONE};
    struct operands operands;
    sigset_t mask;
    cli.common.timeout_ms = CONCLAVE_FOREVER;
    int code = options_parse(&USAGE, argc, argv, &cli, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    cli.path = operands.words[1];
    cli.command = operands.command;
    w.verb = (enum barrier_verb)operands.verb;
    code = barrier_check(&cli, w.verb);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    struct common_options common = cli.common;
    struct child_program program = {.command = USAGE.name,
                                    .argv = cli.command,
                                    .variables = barrier_variables,
                                    .path = cli.path,
                                    .mask = &mask,
                                    .allow_setuid = cli.allow_setuid};
    common.timeout_ms = cli.connect_timeout_ms;
    (void)sigprocmask(SIG_SETMASK, NULL, &mask);
    code = cli.command != NULL ? item_command_init(&w.handler, &program, false) : 0;
    if (code == 0) {
        code = connection_run_waiting(USAGE.name, &common, &w.waiter, WAITER_END_SIGNALS,
                                      barrier_run, &w);
    }
    item_command_finish(&w.handler);
    return code;
}
