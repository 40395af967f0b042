/*
 * conclave barrier: a plain one is set, waited for and removed; a double one is entered, a command
 * run, and left.
 *
 * Waiting is in the main thread, for signals and for word of the barrier's callbacks.
 */
#include "base/buf.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/options.h"
#include "cli/run/item_command.h"

#include <conclave/barrier.h>

#include <inttypes.h>
#include <stdatomic.h>
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
    bool late_pass;
    bool allow_setuid;
};

#define FIELD(name) offsetof(struct barrier_cli, name)

static const struct option_row ROWS[] = {
    {"count", 'n', OPTION_INTEGER, FIELD(count), "N",
     "enter: how many have to be there; all must say the same.", NULL},
    {"round", 0, OPTION_STRING, FIELD(round), "NAME",
     "enter: name of this round below PATH; default \"round\".", NULL},
    {"late-pass", 0, OPTION_FLAG, FIELD(late_pass), NULL,
     "enter: pass when the barrier is open already. Default: fail with exit code 78.", NULL},
    {"id", 0, OPTION_STRING, FIELD(id), "TEXT", "enter: name shown to others; default HOST:PID.",
     NULL},
    {"grace", 0, OPTION_DURATION, FIELD(grace_ms), "DURATION",
     "enter: time that CMD has to stop when the membership was lost, from TERM to KILL; default 3s.",
     NULL},
    ACL_ROW,
    ALLOW_SETUID_ROW(FIELD(allow_setuid)),
    {"timeout", 0, OPTION_DURATION, offsetof(struct common_options, timeout_ms), "DURATION",
     "Give up, with exit code 75, when the barrier is still closed by then. Default: wait for ever.",
     NULL},
    {"connect-timeout", 0, OPTION_DURATION, FIELD(connect_timeout_ms), "DURATION",
     "Give up, with exit code 69, when no server was reached in this time; default 30s.", NULL},
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "barrier",
    .forms = (const char *const[]){"set PATH", "wait PATH [options]", "remove PATH",
                                   "enter PATH --count N [options] [-- CMD [ARGS...]]", NULL},
    .about =
        "A barrier is a node: while it stands, everybody waits.\n"
        "\n"
        "  set     puts it up (also when it stands already)\n"
        "  wait    waits until there is none\n"
        "  remove  takes it down: all that wait go on\n"
        "\n"
        "The double barrier lets N processes begin together and end together:\n"
        "\n"
        "  enter   waits until N are there, runs CMD, waits until all have ended\n"
        "\n"
        "Without CMD it prints \"entered\", and leaves when its input ends or a signal comes. Nobody "
        "enters with fewer than N; who gives up is not counted. When the session is lost inside, or "
        "this process is killed, CMD and all that came from it are ended.",
    .rows = ROWS,
    .more =
        "CMD finds CONCLAVE_PATH in its environment. INT, TERM, HUP and QUIT are passed on to it.\n"
        "\n"
        "Exit codes: CMD's own; 128+n when it died of signal n, or when signal n came while waiting; "
        "126, 127 CMD cannot be executed, was not found; 64 wrong arguments; 69 cannot connect; 71 "
        "CMD ran as another user and could not be ended; 73 the guardian failed; 75 still closed in the time given; 76 the membership was lost; 77 not permitted; 78 another N, "
        "or open already.\n",
    .client = true,
    .runs_command = true,
    .operands_min = 2,
    .operands_max = 2,
};

/* A call that is waited for, with signals. */
struct barrier_wait {
    const struct barrier_cli *cli;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    struct waiter waiter;
    struct item_command handler;
    sigset_t mask; /* of before the waiter */
    atomic_int error;
    atomic_bool answered;
    atomic_bool lost;
    int signal;
};

static void answer(struct barrier_wait *w, int error)
{
    atomic_store(&w->error, error);
    atomic_store(&w->answered, true);
    waiter_wake(&w->waiter);
}

static void on_plain(struct conclave_barrier *barrier, int error, void *ctx)
{
    answer(ctx, error);
}

static void on_double(struct conclave_double_barrier *barrier, int error, void *ctx)
{
    answer(ctx, error);
}

static void on_double_lost(struct conclave_double_barrier *barrier, int why, void *ctx)
{
    struct barrier_wait *w = ctx;
    atomic_store(&w->lost, true);
    waiter_wake(&w->waiter);
}

/* Until the call has its answer; a signal closes the handle, which answers, too. */
static int await(struct barrier_wait *w, struct conclave_barrier *plain,
                 struct conclave_double_barrier *both)
{
    while (!atomic_load(&w->answered)) {
        if (waiter_wait(&w->waiter, -1, -1, &w->signal) == WAITER_SIGNAL) {
            if (plain != NULL) {
                conclave_barrier_close(plain);
            } else {
                conclave_double_barrier_close(both);
            }
        }
    }
    atomic_store(&w->answered, false);
    return atomic_load(&w->error);
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
    if (error == CONCLAVE_ECONFLICT) {
        return CLI_EXIT_CONFIG;
    }
    return error == CONCLAVE_ELOST || error == CONCLAVE_SESSION_EXPIRED ? CLI_EXIT_LOST : code;
}

/* --- plain ------------------------------------------------------------------------------------ */

static int run_plain(struct barrier_wait *w, const char *verb)
{
    struct conclave_barrier_options options = CONCLAVE_BARRIER_OPTIONS_INIT;
    struct conclave_barrier *barrier;
    int64_t timeout_ms = w->cli->common.timeout_ms;
    options.path = w->cli->path;
    int error = conclave_barrier_open(w->recipes, &options, NULL, NULL, &barrier);
    if (error != 0) {
        return answer_code(w, error);
    }
    error = verb[0] == 's'   ? conclave_barrier_set_async(barrier, timeout_ms, on_plain, w)
            : verb[0] == 'w' ? conclave_barrier_wait_async(barrier, timeout_ms, on_plain, w)
                             : conclave_barrier_remove_async(barrier, timeout_ms, on_plain, w);
    if (error == 0) {
        error = await(w, barrier, NULL);
    }
    int code = answer_code(w, error);
    if (conclave_barrier_close_wait(barrier, CONCLAVE_FOREVER) == 0) {
        conclave_barrier_destroy(barrier);
    }
    return code;
}

/* --- double ------------------------------------------------------------------------------------- */

static void write_variables(const struct child_spec *spec, struct buf *out)
{
    buf_printf(out, "CONCLAVE_PATH=%s%c", spec->path, 0);
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

static int leave(struct barrier_wait *w, struct conclave_double_barrier *barrier)
{
    int error =
        conclave_double_barrier_leave_async(barrier, w->cli->common.timeout_ms, on_double, w);
    return error == 0 ? await(w, NULL, barrier) : error;
}

static int run_double(struct barrier_wait *w)
{
    struct conclave_double_barrier_options options = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
    struct conclave_double_barrier_callbacks callbacks = {.on_lost = on_double_lost};
    struct conclave_double_barrier *barrier;
    options.path = w->cli->path;
    options.round = w->cli->round;
    options.id = w->cli->id;
    options.count = (uint32_t)w->cli->count;
    options.late_pass = w->cli->late_pass;
    int error = conclave_double_barrier_open(w->recipes, &options, &callbacks, w, &barrier);
    if (error != 0) {
        return answer_code(w, error);
    }
    error = conclave_double_barrier_enter_async(barrier, w->cli->common.timeout_ms, on_double, w);
    if (error == 0) {
        error = await(w, NULL, barrier);
    }
    int code = answer_code(w, error);
    if (error == 0) {
        code = inside(w);
        int left = answer_code(w, leave(w, barrier));
        code = left != 0 && (code == 0 || left == CLI_EXIT_LOST) ? left : code;
    }
    if (conclave_double_barrier_close_wait(barrier, CONCLAVE_FOREVER) == 0) {
        conclave_double_barrier_destroy(barrier);
    }
    return code;
}

/* --- arguments ------------------------------------------------------------------------------------ */

static int barrier_check(const struct barrier_cli *cli, const char *verb)
{
    bool enter = strcmp(verb, "enter") == 0;
    if (!enter && strcmp(verb, "set") != 0 && strcmp(verb, "wait") != 0 &&
        strcmp(verb, "remove") != 0) {
        return usage_error(&USAGE, "unknown verb \"%s\"", verb);
    }
    if (enter && (cli->count < 1 || cli->count > CONCLAVE_DOUBLE_BARRIER_MAX)) {
        return usage_error(&USAGE, "enter wants --count, a number from 1 to %d",
                           CONCLAVE_DOUBLE_BARRIER_MAX);
    }
    if (!enter && (cli->count != 0 || cli->command != NULL || cli->round != NULL ||
                   cli->id != NULL || cli->late_pass || cli->allow_setuid)) {
        return usage_error(&USAGE, "%s wants PATH alone: the other options are for enter", verb);
    }
    if (cli->round != NULL && (cli->round[0] == '\0' || strchr(cli->round, '/') != NULL)) {
        return usage_error(&USAGE, "--round wants a node's name, without \"/\"");
    }
    if (strcmp(cli->path, "/") == 0) {
        return usage_error(&USAGE, "the barrier needs a node of its own, not \"/\"");
    }
    return path_check(&USAGE, cli->path);
}

static int barrier_run(struct barrier_wait *w, const char *verb)
{
    struct common_options common = w->cli->common;
    common.timeout_ms = w->cli->connect_timeout_ms;
    int code = connection_open_own(USAGE.name, &common, NULL, NULL, &w->client);
    if (code != 0) {
        return code;
    }
    int error = conclave_recipes_open(w->client, &w->recipes);
    if (error != 0) {
        code = fail(USAGE.name, NULL, error);
    } else {
        code = strcmp(verb, "enter") == 0 ? run_double(w) : run_plain(w, verb);
    }
    conclave_recipes_destroy(w->recipes);
    connection_close(w->client);
    return code;
}

/* Before there are threads. */
static int barrier_prepare(struct barrier_wait *w, struct item_command_spec *spec)
{
    (void)sigprocmask(SIG_SETMASK, NULL, &w->mask);
    if (waiter_init(&w->waiter, WAITER_END_SIGNALS, false) != 0) {
        return fail(USAGE.name, NULL, CONCLAVE_EIO);
    }
    *spec = (struct item_command_spec){.command = USAGE.name,
                                       .argv = w->cli->command,
                                       .path = w->cli->path,
                                       .variables = write_variables,
                                       .mask = &w->mask,
                                       .allow_setuid = w->cli->allow_setuid};
    return w->cli->command != NULL ? item_command_init(&w->handler, spec) : 0;
}

int command_barrier(int argc, char **argv)
{
    struct barrier_cli cli = {
        .common = COMMON_OPTIONS_INIT, .connect_timeout_ms = 30000, .grace_ms = 3000};
    struct barrier_wait w = {.cli = &cli, .waiter = {.signal_fd = -1, .wake_fd = -1}};
    struct item_command_spec spec;
    struct operands operands;
    cli.common.timeout_ms = CONCLAVE_FOREVER;
    int code = options_parse(&USAGE, argc, argv, &cli, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    cli.path = operands.words[1];
    cli.command = operands.command;
    code = barrier_check(&cli, operands.words[0]);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    code = barrier_prepare(&w, &spec);
    if (code == 0) {
        code = barrier_run(&w, operands.words[0]);
    }
    item_command_finish(&w.handler);
    waiter_finish(&w.waiter);
    return code;
}
