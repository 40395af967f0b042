/* The arguments that `elect`, `lock` and `semaphore` share: defaults and checks. */
#include "cli/run/hold_command.h"

#include "cli/common/values.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define FIELD(name) offsetof(struct hold_options, name)

const struct option_row HOLD_ROWS[] = {
    {"timeout", 0, OPTION_DURATION, FIELD(common.timeout_ms), "DURATION",
     "Give up after this time, with exit code 75. Default: wait forever. With --list: time for the "
     "answers; default 5s."},
    {"list", 'l', OPTION_FLAG, FIELD(list), NULL,
     "Print who holds and who waits, in order, and end."},
    {"connect-timeout", 0, OPTION_DURATION, FIELD(connect_timeout_ms), "DURATION",
     "Wait this long for the first server; default 30s. Then give up, with exit code 69. Later "
     "losses of the connection are waited out."},
    {"id", 0, OPTION_STRING, FIELD(id), "TEXT", "Name shown to the others; default HOST:PID."},
    {"grace", 0, OPTION_DURATION, FIELD(grace_ms), "DURATION",
     "Time for CMD to stop, from the signal to SIGKILL. Default and maximum: a third of the session "
     "timeout less 500ms (less a sixth of it below 3s). Through a follower of an Apache ZooKeeper "
     "ensemble the session may end up to a sixth of its timeout and half a tick sooner: give that "
     "much less there."},
    {"kill-signal", 0, OPTION_SIGNAL, FIELD(kill_signal), "SIGNAL",
     "Signal that tells CMD to stop; default TERM."},
    {"status-fd", 0, OPTION_INTEGER, FIELD(status_fd), "N",
     "Write one line of JSON per term to descriptor N. It is {\"reason\", \"exit_code\", "
     "\"child_status\", \"token\"}."},
    OPTION_GROUP(ACL_ROWS, FIELD(common)),
    OPTION_GROUP(ALLOW_SETUID_ROWS, FIELD(allow_setuid)),
    {"no-guardian", 0, OPTION_NOT, FIELD(guardian), NULL,
     "Start no guardian. The guardian is a process that ends CMD in time when this one is stopped "
     "or killed."},
    {.name = NULL},
};

static int hold_options_check(const struct hold_options *o)
{
    size_t id = strlen(o->id);
    bool status = o->status_fd >= 0;
    const struct usage_rule rules[] = {
        {o->list && o->command != NULL, "--list runs no command"},
        {o->try && o->common.timeout_ms != CONCLAVE_FOREVER, "give --try or --timeout, not both"},
        {o->kill_signal == SIGSTOP || o->kill_signal == SIGCONT,
         "--kill-signal wants a signal that ends a process"},
        {id == 0 || id >= HOLD_ID_MAX || strchr(o->id, '\n') != NULL,
         "--id wants 1 to 255 bytes on one line"},
        {strcmp(o->path, "/") == 0, "name a node of its own, not \"/\""},
        {status && fcntl((int)o->status_fd, F_GETFD) < 0, "--status-fd is not open for writing"},
        {o->timeout_exit < 0 || o->timeout_exit > 255, "-E wants an exit code, from 0 to 255"},
        {false, NULL},
    };
    int code = usage_check(o->usage, rules);
    return code == OPTIONS_GO_ON ? path_check(o->usage, o->path) : code;
}

int hold_options_finish(struct hold_options *options, const struct command_usage *usage,
                        const struct hold_kind *kind, const void *own,
                        const struct operands *operands)
{
    options->usage = usage;
    options->kind = kind;
    options->own = own;
    options->id = options->id != NULL ? options->id : host_pid_text(options->id_space);
    options->path = operands->words[0];
    options->command = operands->command;
    int code = hold_options_check(options);
    if (code == OPTIONS_GO_ON && options->status_fd > STDERR_FILENO) {
        /* Nothing that we start gets it; CMD needs its standard output and error, though. */
        fcntl((int)options->status_fd, F_SETFD, FD_CLOEXEC);
    }
    return code;
}

int64_t hold_answer_ms(const struct hold_options *options)
{
    int64_t timeout_ms = options->common.timeout_ms;
    return timeout_ms == CONCLAVE_FOREVER ? HOLD_ANSWER_TIMEOUT_MS : timeout_ms;
}

int hold_look(const struct hold_options *options, recipes_fn look, void *ctx)
{
    struct common_options common = options->common;
    common.timeout_ms = hold_answer_ms(options);
    return output_end(options->usage->name,
                      connection_run_recipes(options->usage->name, &common, look, ctx));
}
