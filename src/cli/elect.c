/* conclave elect: arguments, checks and help; the work is done in elect_run.c and elect_list.c. */
#include "cli/elect.h"

#include "cli/command.h"

#include <conclave/client.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const ACK_CHOICES[] = {"exec", "fd", NULL};
/* In the order of enum conclave_naming. */
static const char *const NAMING_CHOICES[] = {"native", "latch", "lock", "kazoo", NULL};

#define FIELD(name) offsetof(struct elect_options, name)

static const struct option_row ROWS[] = {
    {"once", 0, OPTION_NOT, FIELD(forever), NULL,
     "End when CMD has ended, with its exit code. The default.", NULL},
    {"forever", 0, OPTION_FLAG, FIELD(forever), NULL,
     "Each time CMD has ended, or the leadership was lost, queue again at the end, after a pause "
     "of 1s that grows to 30s while terms are short.",
     NULL},
    {"timeout", 0, OPTION_DURATION, offsetof(struct common_options, timeout_ms), "DURATION",
     "Give up, with exit code 75, when not elected in this time. Default: wait for ever. With "
     "--list: for the answers; default 5s.",
     NULL},
    {"connect-timeout", 0, OPTION_DURATION, FIELD(connect_timeout_ms), "DURATION",
     "Give up, with exit code 69, when no server was reached in this time; default 30s. Later "
     "losses of the connection are waited out.",
     NULL},
    {"id", 0, OPTION_STRING, FIELD(id), "TEXT", "Name shown to the others; default HOST:PID.",
     NULL},
    {"data", 0, OPTION_STRING, FIELD(data), "TEXT",
     "More to show to the others, such as an address to reach the leader at.", NULL},
    {"naming", 0, OPTION_CHOICE, FIELD(naming), "native|latch|lock|kazoo",
     "How the candidates' nodes are named: our way (native, the default), or that of Curator's "
     "LeaderLatch (latch), of its InterProcessMutex and LeaderSelector (lock), or of kazoo's Lock "
     "and Election (kazoo), to stand for election among these. With --watch: whose nodes count.",
     NAMING_CHOICES},
    {"takeover-delay", 0, OPTION_DURATION, FIELD(takeover_delay_ms), "DURATION",
     "Wait this long after a leader that did not step down cleanly. Default 0.", NULL},
    {"grace", 0, OPTION_DURATION, FIELD(grace_ms), "DURATION",
     "Time that CMD has to stop, from the kill signal to SIGKILL. Default, and the most: a third "
     "of the session timeout less 500ms (less a sixth of it below 3s). Through a follower of an "
     "Apache ZooKeeper ensemble the session may end up to a sixth of its timeout and half a tick "
     "sooner: give that much less there.",
     NULL},
    {"kill-signal", 0, OPTION_SIGNAL, FIELD(kill_signal), "SIGNAL",
     "Signal that tells CMD to stop; default TERM.", NULL},
    {"ack-on", 0, OPTION_CHOICE, FIELD(ack_on), "exec|fd",
     "When to announce the new leader as ready: as soon as CMD runs (exec, the default), or when it "
     "writes the line READY=1 to descriptor $CONCLAVE_READY_FD (fd).",
     ACK_CHOICES},
    {"status-fd", 0, OPTION_INTEGER, FIELD(status_fd), "N",
     "Write one line of JSON per term to descriptor N: {\"reason\", \"exit_code\", "
     "\"child_status\", \"token\"}.",
     NULL},
    {"no-guardian", 0, OPTION_NOT, FIELD(guardian), NULL,
     "Do without the process that ends CMD in time should this one be stopped.", NULL},
    {"list", 'l', OPTION_FLAG, FIELD(list), NULL,
     "List the candidates in their order, the leader first.", NULL},
    {"watch", 'w', OPTION_FLAG, FIELD(watch), NULL,
     "Print the leader, and each change of leader as it happens.", NULL},
    {.name = NULL},
};

static const char ABOUT[] =
    "Runs CMD only while this process is the elected leader on PATH: of all candidates exactly one "
    "leads, in the order in which they came. When the leadership is lost, CMD and all that came "
    "from it are ended before anybody else is elected, even if this process is stopped or "
    "killed. CMD is executed directly, not by a shell.\n"
    "\n"
    "When CMD ends, what it left running is ended, too, and the leadership is given up before this "
    "process ends. INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on to CMD; while "
    "waiting, all but WINCH withdraw the candidacy.\n"
    "\n"
    "Without CMD: prints node and token and holds the leadership until its input ends or a signal "
    "comes.";

static const char MORE[] =
    "CMD finds in its environment:\n"
    "  CONCLAVE_TOKEN               fencing token of this term, decimal: larger than\n"
    "                               all before; let what you write to refuse smaller\n"
    "  CONCLAVE_PATH, _NODE, _ID    election, this candidate's node, its name\n"
    "  CONCLAVE_SESSION             session id, 0x...\n"
    "  CONCLAVE_SESSION_TIMEOUT_MS  its timeout, as the server granted it\n"
    "  CONCLAVE_LEASE_FD            descriptor: a byte or its end means: lost, stop\n"
    "  CONCLAVE_LEASE_SHM_FD        descriptor of a page to map read-only: offset 0\n"
    "                               u32 magic, 4 u32 state (1: leading), 8 u64\n"
    "                               sequence (odd: being written), 16 i64 end of the\n"
    "                               lease in ns of CLOCK_BOOTTIME, 24 i64 token\n"
    "  CONCLAVE_READY_FD            with --ack-on fd: write READY=1 and a newline\n"
    "  CONCLAVE_ROLE                leader\n"
    "\n"
    "Exit codes: CMD's own; 128+n when it died of signal n, or when signal n came while waiting; "
    "126, 127 CMD cannot be executed, was not found; 64 wrong arguments; 69 cannot connect; 73 the "
    "guardian failed; 75 not elected in time; 76 leadership lost and CMD ended; 77 not permitted. "
    "--status-fd tells CMD's own 64 to 78 from these: its \"reason\" is one of exited, signaled, "
    "lost, exec-failed, timeout, signal, released, unreachable, guardian, error.\n"
    "\n"
    "--list prints a candidate per line: role, node, token, id, tabs between. --watch prints a "
    "leader per line: \"leader\" (elected) or \"ready\" (and announced), node, token, id; or "
    "\"none\". Both know --json. The session timeout must be at least three ticks of the server.\n";

const struct command_usage ELECT_USAGE = {
    .name = "elect",
    .forms = (const char *const[]){"PATH [options] -- CMD [ARGS...]", "PATH [options]",
                                   "--list PATH", "--watch PATH", NULL},
    .about = ABOUT,
    .rows = ROWS,
    .more = MORE,
    .client = true,
    .runs_command = true,
    .operands_min = 1,
    .operands_max = 1,
};

static int elect_check(const struct elect_options *options)
{
    if (options->list && options->watch) {
        return usage_error(&ELECT_USAGE, "give --list or --watch, not both");
    }
    if ((options->list || options->watch) && options->command != NULL) {
        return usage_error(&ELECT_USAGE, "--list and --watch run no command");
    }
    if (options->forever && options->command == NULL) {
        return usage_error(&ELECT_USAGE, "--forever wants a command behind \"--\"");
    }
    if (options->ack_on == ELECT_ACK_FD && options->command == NULL) {
        return usage_error(&ELECT_USAGE, "--ack-on fd wants a command behind \"--\"");
    }
    if (options->kill_signal == SIGSTOP || options->kill_signal == SIGCONT) {
        return usage_error(&ELECT_USAGE, "--kill-signal wants a signal that ends a process");
    }
    if (options->id[0] == '\0' || strchr(options->id, '\n') != NULL ||
        strlen(options->id) >= ELECT_ID_MAX) {
        return usage_error(&ELECT_USAGE, "--id wants 1 to %d bytes on one line", ELECT_ID_MAX - 1);
    }
    if (strcmp(options->path, "/") == 0) {
        return usage_error(&ELECT_USAGE, "the election needs a node of its own, not \"/\"");
    }
    if (options->status_fd >= 0 &&
        (options->status_fd > INT32_MAX || fcntl((int)options->status_fd, F_GETFD) < 0)) {
        return usage_error(&ELECT_USAGE, "--status-fd %lld is not open for writing",
                           (long long)options->status_fd);
    }
    return path_check(&ELECT_USAGE, options->path);
}

int command_elect(int argc, char **argv)
{
    struct elect_options options = {.common = COMMON_OPTIONS_INIT,
                                    .guardian = true,
                                    .connect_timeout_ms = 30000,
                                    .grace_ms = -1,
                                    .kill_signal = SIGTERM,
                                    .status_fd = -1};
    struct operands operands;
    char host[128] = "localhost";
    char id[ELECT_ID_MAX];
    options.common.timeout_ms = CONCLAVE_FOREVER;
    int code = options_parse(&ELECT_USAGE, argc, argv, &options, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    /* A name that was cut still has its end. */
    (void)gethostname(host, sizeof host - 1);
    snprintf(id, sizeof id, "%s:%d", host, (int)getpid());
    options.id = options.id != NULL ? options.id : id;
    options.path = operands.words[0];
    options.command = operands.command;
    code = elect_check(&options);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    if (options.list) {
        return elect_list(&options);
    }
    return options.watch ? elect_watch(&options) : elect_run(&options);
}
