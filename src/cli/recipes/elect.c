/* conclave elect: arguments, help, and what it holds (hold_command.h); elect_list.c looks on. */
#include "cli/recipes/elect.h"

#include "cli/common/command.h"
#include "cli/common/values.h"
#include "cli/recipes/hold_functions.h"

#include <conclave/election.h>

#include <stdio.h>
#include <string.h>

static const char *const ACK_CHOICES[] = {"exec", "fd", NULL};
/* In the order of enum conclave_naming. */
static const char *const NAMING_CHOICES[] = {"native", "latch", "lock", "kazoo", NULL};

#define FIELD(name) offsetof(struct elect_options, name)
#define TURN_FIELD(name) offsetof(struct elect_options, turn.name)

static const struct option_row ROWS[] = {
    {"once", 0, OPTION_NOT, TURN_FIELD(forever), NULL,
     "End when CMD has ended, with its exit code. The default.", NULL},
    {"forever", 0, OPTION_FLAG, TURN_FIELD(forever), NULL,
     "Queue again when CMD has ended or the lead was lost. It goes to the end of the line, after a pause of 1s that grows to 30s while terms are short.",
     NULL},
    {"timeout", 0, OPTION_DURATION, TURN_FIELD(common.timeout_ms), "DURATION",
     "Give up after this time, with exit code 75. Default: wait forever. With --list: how long to wait for the answers; default 5s.",
     NULL},
    {"data", 0, OPTION_STRING, FIELD(data), "TEXT", "Text shown to the others, such as an address.",
     NULL},
    {"naming", 0, OPTION_CHOICE, FIELD(naming), "native|latch|lock|kazoo",
     "Names of the nodes, to share PATH with other clients. native, the default: our own names; latch: those of Curator's LeaderLatch; lock: those of its InterProcessMutex and LeaderSelector; kazoo: those of kazoo's Lock and Election. With --watch: whose nodes count.",
     NAMING_CHOICES},
    {"takeover-delay", 0, OPTION_DURATION, FIELD(takeover_delay_ms), "DURATION",
     "Wait this long after an unclean end. Default 0.", NULL},
    {"ack-on", 0, OPTION_CHOICE, FIELD(ack_on), "exec|fd",
     "When to announce the leader as ready. exec, the default: as soon as CMD runs; fd: when CMD writes the line READY=1 to descriptor $CONCLAVE_READY_FD.",
     ACK_CHOICES},
    TURN_ROWS(TURN_FIELD),
    {"list", 'l', OPTION_FLAG, FIELD(list), NULL,
     "List the candidates in their order, the leader first.", NULL},
    {"watch", 'w', OPTION_FLAG, FIELD(watch), NULL, "Print the leader, and each change of leader.",
     NULL},
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
    "126, 127 CMD cannot be executed, was not found; 64 wrong arguments; 69 cannot connect; 71 CMD "
    "ran as another user and could not be ended in time; 73 the "
    "guardian failed; 75 not elected in time; 76 leadership lost and CMD ended; 77 not permitted. "
    "--status-fd tells CMD's own 64 to 78 from these: its \"reason\" is one of exited, signaled, "
    "lost, denied, exec-failed, timeout, signal, released, unreachable, guardian, error.\n"
    "\n"
    "--list prints titles, then a candidate per line: role, node, token, id, tabs between. --watch prints a "
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

/* --- leading ---------------------------------------------------------------------------------- */

HOLD_FUNCTIONS(election)

static int elect_on_elected(struct conclave_election *election, struct conclave_token token,
                            bool regrant, void *ctx)
{
    hold_granted(ctx, token.czxid, conclave_election_lease_until_ns(election));
    return 0;
}

static int elect_start(struct hold *r, void **ret_holding)
{
    static const struct conclave_election_callbacks callbacks = {
        .on_elected = elect_on_elected,
        .on_revoked = election_hold_lost,
        .on_closed = election_hold_closed,
    };
    const struct elect_options *own = r->options->own;
    struct conclave_election_options options = CONCLAVE_ELECTION_OPTIONS_INIT;
    struct conclave_election *election;
    options.path = r->options->path;
    options.id = r->options->id;
    options.data = own->data;
    options.data_len = own->data != NULL ? strlen(own->data) : 0;
    options.lease.grace_ms = r->options->grace_ms > 0 ? r->options->grace_ms : 0;
    options.ack = r->options->command == NULL;
    options.requeue = false;
    options.takeover_delay_ms = own->takeover_delay_ms;
    options.naming = (enum conclave_naming)own->naming;
    int error = conclave_election_open(r->recipes, &options, &callbacks, r, &election);
    if (error == 0) {
        *ret_holding = election;
    }
    return error;
}

static int elect_ack(void *holding)
{
    return conclave_election_ack(holding);
}

static void elect_tell_timeout(const struct hold *r)
{
    char timeout[DURATION_TEXT_MAX];
    fprintf(stderr,
            "conclave elect: %s: not elected within %s; see who leads with \"conclave elect --list "
            "%s\"\n",
            r->options->path, duration_text(r->options->common.timeout_ms, timeout),
            r->options->path);
}

static const struct hold_kind LEADING = {
    .thing = "election",
    .role = "leader",
    .lost = "leadership lost",
    .withdrawn = "the candidacy is withdrawn",
    .start = elect_start,
    HOLD_FUNCTIONS_OF(election),
    .ack = elect_ack,
    .tell_timeout = elect_tell_timeout,
};

/* --- arguments -------------------------------------------------------------------------------- */

static int elect_check(const struct elect_options *options)
{
    const struct hold_options *turn = &options->turn;
    if (options->list && options->watch) {
        return usage_error(&ELECT_USAGE, "give --list or --watch, not both");
    }
    if ((options->list || options->watch) && turn->command != NULL) {
        return usage_error(&ELECT_USAGE, "--list and --watch run no command");
    }
    if (turn->forever && turn->command == NULL) {
        return usage_error(&ELECT_USAGE, "--forever wants a command behind \"--\"");
    }
    if (turn->ready_fd && turn->command == NULL) {
        return usage_error(&ELECT_USAGE, "--ack-on fd wants a command behind \"--\"");
    }
    return OPTIONS_GO_ON;
}

int command_elect(int argc, char **argv)
{
    struct elect_options options = {.turn = TURN_OPTIONS_INIT};
    struct operands operands;
    int code = options_parse(&ELECT_USAGE, argc, argv, &options, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    options.turn.usage = &ELECT_USAGE;
    options.turn.kind = &LEADING;
    options.turn.own = &options;
    options.turn.ready_fd = options.ack_on == 1;
    code = hold_options_finish(&options.turn, &operands);
    if (code == OPTIONS_GO_ON) {
        code = elect_check(&options);
    }
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    if (options.list) {
        return elect_list(&options);
    }
    return options.watch ? elect_watch(&options) : hold_run(&options.turn);
}
