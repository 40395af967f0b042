/* conclave elect: arguments, help, how to lead (hold_command.h), and --list and --watch. */
#include "cli/common/record.h"
#include "cli/recipes/acquire.h"
#include "cli/recipes/hand_over.h"
#include "cli/recipes/hold_functions.h"

#include <conclave/election.h>

#include <string.h>

struct elect_options {
    struct hold_options hold;
    bool watch;
    const char *data; /* may be NULL */
    const char *hand_over_to;
    int64_t takeover_delay_ms;
    int ack_on; /* 1: fd */
    int naming; /* enum conclave_naming */
};

#define FIELD(name) offsetof(struct elect_options, name)

static const struct option_row ROWS[] = {
    {"once", 0, OPTION_NOT, FIELD(hold.forever), NULL,
     "End when CMD has ended, with its exit code. The default."},
    {"forever", 0, OPTION_FLAG, FIELD(hold.forever), NULL,
     "Each time CMD has ended or the lead was lost, queue again at the end. A pause of 1s, which "
     "grows to 30s while terms are short, comes before that."},
    {"data", 0, OPTION_STRING, FIELD(data), "TEXT", "Data that others see, such as an address."},
    /* In the order of enum conclave_naming. */
    {"naming", 0, OPTION_CHOICE, FIELD(naming), "native|latch|lock|kazoo|fixed",
     "Names of the candidates' nodes, to share PATH with other clients. native, the default: "
     "Conclave's; latch: those of Curator's LeaderLatch; lock: those of its LeaderSelector; kazoo: "
     "those of kazoo's Election; fixed: PATH itself is the leader's ephemeral node, with --data as "
     "its data, and candidates race to create it."},
    {"takeover-delay", 0, OPTION_DURATION, FIELD(takeover_delay_ms), "DURATION",
     "Wait this long after a leader that did not step down cleanly. Default 0."},
    {"ack-on", 0, OPTION_CHOICE, FIELD(ack_on), "exec|fd",
     "When to announce the leader as ready. exec, the default: as soon as CMD runs; fd: when CMD "
     "writes the line READY=1 to descriptor $CONCLAVE_READY_FD."},
    OPTION_GROUP(ACQUIRE_ROWS, FIELD(hold)),
    {"watch", 'w', OPTION_FLAG, FIELD(watch), NULL,
     "Print the leader, and each change of leader. Only nodes with the names of --naming count."},
    {"hand-over", 0, OPTION_STRING, FIELD(hand_over_to), "ID",
     "Make the candidate ID (an id or node of --list) lead in place of the present leader, within "
     "--timeout; default 1m. The leader stops first; it and the candidates between the two go to "
     "the end of the line. Only with the names of --naming native."},
    OPTION_GROUP(HOLD_ROWS, FIELD(hold)),
    {.name = NULL},
};

static const char ABOUT[] =
    "Runs CMD only while this process leads on PATH. One of all candidates leads at a time, in the "
    "order of their arrival. When this process loses the lead, CMD and all its descendants are ended "
    "before another candidate is elected, even if this process is stopped or killed. CMD is executed "
    "directly, not by a shell.\n"
    "\n"
    "When CMD ends, the processes that it left running are ended, too, and this process gives up the "
    "lead before it ends. INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on to CMD. While "
    "this process waits, all but WINCH withdraw the candidacy.\n"
    "\n"
    "Without CMD: prints node and token and leads until its input ends or a signal comes.";

static const char MORE[] =
    "CMD finds in its environment:\n"
    "  CONCLAVE_TOKEN               fencing token of this term, decimal, larger than\n"
    "                               all before: let the storage refuse smaller ones\n"
    "  CONCLAVE_PATH, _NODE, _ID    election, this candidate's node, its name\n"
    "  CONCLAVE_SESSION             session id, 0x...\n"
    "  CONCLAVE_SESSION_TIMEOUT_MS  session timeout that the server granted\n"
    "  CONCLAVE_LEASE_FD            descriptor: a byte or its end means: lost, stop\n"
    "  CONCLAVE_LEASE_SHM_FD        descriptor of a page to map read-only: offset 0\n"
    "                               u32 magic, 4 u32 state (1: leading), 8 u64\n"
    "                               sequence (odd: being written), 16 i64 end of the\n"
    "                               lease in ns of CLOCK_BOOTTIME, 24 i64 token\n"
    "  CONCLAVE_READY_FD            with --ack-on fd: write READY=1 and a newline\n"
    "  CONCLAVE_ROLE                leader\n"
    "\n"
    "Exit codes: CMD's own; 128+n when signal n ended CMD, or came while this process waited; 126 "
    "CMD cannot be executed, 127 it was not found; 64 wrong arguments; 69 cannot connect; 71 CMD ran "
    "as another user and could not be ended in time; 73 the guardian failed; 75 not elected in time; "
    "76 lead lost and CMD ended; 77 not permitted. CMD may use 64 to 78 itself: the \"reason\" of "
    "--status-fd tells which it is: exited, signaled, lost, denied, exec-failed, timeout, signal, "
    "released, unreachable, guardian or error.\n"
    "\n"
    "--list prints titles, then a candidate per line: role, node, token, id, with tabs between. "
    "--watch prints a leader per line: \"leader\" (elected) or \"ready\" (and announced), node, "
    "token, id; or \"none\". Both know --json. The session timeout must be at least three ticks of "
    "the server.\n";

static const struct command_usage USAGE = {
    .name = "elect",
    .forms = (const char *const[]){"PATH [options] -- CMD [ARGS...]", "PATH [options]",
                                   "--list PATH", "--watch PATH", "PATH --hand-over ID", NULL},
    .about = ABOUT,
    .rows = ROWS,
    .more = MORE,
    .client = true,
    .runs_command = true,
    .operands = {1, 1},
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
        .size = sizeof callbacks,
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
    options.lease.grace_ms = hold_lease_grace_ms(r);
    options.ack = r->options->command == NULL;
    options.requeue = false;
    options.takeover_delay_ms = own->takeover_delay_ms;
    options.naming = (enum conclave_naming)own->naming;
    options.no_wait = hold_acquire_ms(r) == 0;
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

static const struct hold_kind LEADING = {
    .role = "leader",
    .lost = "leadership lost",
    .handed_over = "handed over, as an operator asked",
    .withdrawn = "the candidacy is withdrawn",
    .busy = "another leads",
    .late = "not elected",
    .see = "who leads",
    .start = elect_start,
    HOLD_FUNCTIONS_OF(election),
    .ack = elect_ack,
};

/* --- list and watch --------------------------------------------------------------------------- */

static void participant_put(struct record *r, const struct conclave_participant *p)
{
    record_string(r, "node", p->node);
    record_int(r, "token", p->token.czxid);
    record_string(r, "id", p->id);
    if (r->json) {
        json_data(&r->j, p->data_len > 0 ? p->data : NULL, p->data_len);
        json_member_hex(&r->j, "session", p->session_id);
    }
}

static int participants_print(const struct elect_options *options,
                              struct conclave_participant *const *list, size_t count)
{
    struct record r;
    record_begin(&r, options->hold.common.json);
    record_add_path(&r, options->hold.path);
    record_list_begin(&r, "participants", count, "ROLE\tNODE\tTOKEN\tID");
    for (size_t i = 0; i < count; i++) {
        record_row_begin(&r);
        record_string(&r, "role", i == 0 ? "leader" : "waiting");
        participant_put(&r, list[i]);
        record_row_end(&r);
    }
    record_list_end(&r);
    return record_print(&r);
}

static int elect_list(struct conclave_client *client, struct conclave_recipes *recipes, void *ctx)
{
    const struct elect_options *options = ctx;
    struct conclave_participant **list = NULL;
    size_t count = 0;
    int error = conclave_election_participants(recipes, options->hold.path,
                                               hold_answer_ms(&options->hold), &list, &count);
    if (error == CONCLAVE_NO_NODE) {
        error = 0; /* the node comes with the first candidate, and may go with the last */
    }
    error = error == 0 ? participants_print(options, list, count) : error;
    conclave_participants_free(list, count);
    return error == 0 ? 0 : fail(USAGE.name, options->hold.path, error);
}

struct elect_watch {
    const struct elect_options *options;
    struct waiter waiter;
};

static void on_leader(struct conclave_election *election, const struct conclave_participant *leader,
                      bool acked, void *ctx)
{
    struct elect_watch *w = ctx;
    struct record r;
    record_begin(&r, w->options->hold.common.json);
    record_string(&r, "event", leader == NULL ? "none" : acked ? "ready" : "leader");
    if (leader != NULL) {
        participant_put(&r, leader);
    }
    waiter_end(&w->waiter, record_print(&r));
}

static void elect_watch_on_closed(struct conclave_election *election, int why, void *ctx)
{
    struct elect_watch *w = ctx;
    waiter_end(&w->waiter, why);
}

static int elect_watch_run(struct conclave_client *client, struct conclave_recipes *recipes,
                           void *ctx)
{
    struct elect_watch *w = ctx;
    struct conclave_election_options options = CONCLAVE_ELECTION_OPTIONS_INIT;
    struct conclave_election_callbacks callbacks = {
        .size = sizeof callbacks, .on_leader = on_leader, .on_closed = elect_watch_on_closed};
    struct conclave_election *election;
    int number = 0;
    options.path = w->options->hold.path;
    options.naming = (enum conclave_naming)w->options->naming;
    options.observe_only = true;
    int error = conclave_election_open(recipes, &options, &callbacks, w, &election);
    if (error == 0) {
        number = waiter_wait_end(&w->waiter);
        error = conclave_election_close_wait(election, CONCLAVE_FOREVER);
        conclave_election_destroy(election);
    }
    return wait_exit_code(&w->waiter, USAGE.name, options.path, error, number);
}

static int elect_watch(const struct elect_options *options)
{
    struct common_options common = options->hold.common;
    struct elect_watch w = {.options = options};
    common.timeout_ms = options->hold.connect_timeout_ms;
    return connection_run_waiting(USAGE.name, &common, &w.waiter, WAITER_END_SIGNALS,
                                  elect_watch_run, &w);
}

/* --- arguments -------------------------------------------------------------------------------- */

static int elect_check(const struct elect_options *o)
{
    bool command = o->hold.command != NULL;
    const struct usage_rule rules[] = {
        {o->hold.list && o->watch, "give --list or --watch, not both"},
        {o->watch && command, "--watch runs no command"},
        {o->hand_over_to != NULL && (command || o->watch || o->hold.list),
         "--hand-over goes without a command, --list and --watch"},
        {o->hold.forever && !command, "--forever wants a command behind \"--\""},
        {o->hold.ready_fd && !command, "--ack-on fd wants a command behind \"--\""},
        {false, NULL},
    };
    return usage_check(&USAGE, rules);
}

int command_elect(int argc, char **argv)
{
    struct elect_options o = {.hold = HOLD_OPTIONS_INIT};
    struct operands operands;
    int code = options_parse(&USAGE, argc, argv, &o, &operands);
    if (code == OPTIONS_GO_ON) {
        o.hold.ready_fd = o.ack_on == 1;
        code = hold_options_finish(&o.hold, &USAGE, &LEADING, &o, &operands);
    }
    code = code == OPTIONS_GO_ON ? elect_check(&o) : code;
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    const struct hand_over_form form = {&o.hold, o.hand_over_to, LEADING.role,
                                        conclave_election_hand_over};
    return o.hand_over_to != NULL ? hand_over_form_run(&form)
           : o.watch              ? elect_watch(&o)
           : o.hold.list          ? hold_look(&o.hold, elect_list, &o)
                                  : hold_run(&o.hold);
}
