/* conclave switch: arguments and help; switch_run.c takes part, switch_operate.c is for operators. */
#include "cli/switch/switch.h"

#include "cli/common/command.h"
#include "cli/common/values.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIELD(name) offsetof(struct switch_options, name)
#define TURN_FIELD(name) offsetof(struct switch_options, turn.name)
#define FENCE_FIELD(name) offsetof(struct switch_options, fence.name)

enum {
    PORT_MAX = 65535,
    LIST_TIMEOUT_MS = 5000,
    CEDE_TIMEOUT_MS = 60000,
    HADOOP_FAILOVER_PORT = 8019
};

static const struct option_row ROWS[] = {
    {"health-cmd", 0, OPTION_STRING, FIELD(health.command), "CMD",
     "Ask CMD whether the service is well: 0 says yes. It is run by /bin/sh. Only a member that is well takes part; when it is well no more it steps down and is fenced. CMD has to succeed on standby, too.",
     NULL},
    {"health-interval", 0, OPTION_DURATION, FIELD(health.interval_ms), "DURATION",
     "Between two checks; default 1s.", NULL},
    {"health-timeout", 0, OPTION_DURATION, FIELD(health.timeout_ms), "DURATION",
     "A check that takes longer has failed; default 10s.", NULL},
    {"health-failures", 0, OPTION_INTEGER, FIELD(health.failures), "N",
     "Failures in a row until it is unwell; default 3.", NULL},
    {"health-successes", 0, OPTION_INTEGER, FIELD(health.successes), "N",
     "Successes until it is well again; default 2. At the start one suffices.", NULL},
    FENCE_ROWS(FENCE_FIELD),
    {"on-active", 0, OPTION_STRING, FIELD(on_active), "CMD",
     "Instead of a command behind \"--\", for a service that runs all the time: run by /bin/sh to "
     "make it active. When it fails, another gets its turn.",
     NULL},
    {"on-standby", 0, OPTION_STRING, FIELD(on_standby), "CMD",
     "The same to make it passive, also once at the start. Only 0 says that it is; else the next "
     "one fences it.",
     NULL},
    {"hook-timeout", 0, OPTION_DURATION, FIELD(hook_timeout_ms), "DURATION",
     "Kill --on-active and --on-standby when they take longer; default 30s.", NULL},
    {"once", 0, OPTION_FLAG, FIELD(once), NULL,
     "End when it is active no more, with exit code 76, instead of going on standby.", NULL},
    {"forever", 0, OPTION_FLAG, TURN_FIELD(forever), NULL,
     "Also when CMD has ended by itself: go on standby, after a pause of 1s that grows to 30s while "
     "terms are short.",
     NULL},
    {"timeout", 0, OPTION_DURATION, TURN_FIELD(common.timeout_ms), "DURATION",
     "Give up, with exit code 75, when not active in this time. Default: wait for ever. With --list "
     "and --override for the answers, default 5s; with --cede for the next one, default 1m.",
     NULL},
    {"ready-fd", 0, OPTION_FLAG, TURN_FIELD(ready_fd), NULL,
     "CMD says itself when it is ready: READY=1 and a newline to descriptor $CONCLAVE_READY_FD. "
     "Else it is as soon as it runs.",
     NULL},
    {"host", 0, OPTION_STRING, FIELD(host), "NAME",
     "Where this one runs, for those that have to fence it; default the machine's name.", NULL},
    {"port", 0, OPTION_INTEGER, FIELD(port), "N", "And its port.", NULL},
    {"data", 0, OPTION_STRING, FIELD(data), "TEXT", "And more about it.", NULL},
    {"herd-free", 0, OPTION_FLAG, FIELD(herd_free), NULL,
     "Wait in a line instead of all for one lock, when there are many; the same for all members.",
     NULL},
    {"hadoop", 0, OPTION_FLAG, FIELD(hadoop), NULL,
     "Write the nodes as Hadoop's elector does, with the message ActiveNodeInfo of HDFS: "
     "nameservice is the last part of DIR, namenode --id.",
     NULL},
    {"hadoop-zkfc-port", 0, OPTION_INTEGER, FIELD(failover_port), "N",
     "Its port of the fail-over controller; default 8019.", NULL},
    TURN_ROWS(TURN_FIELD),
    {"list", 'l', OPTION_FLAG, FIELD(list), NULL,
     "Show who is active, who was made active last, and the members.", NULL},
    {"cede", 0, OPTION_FLAG, FIELD(cede), NULL,
     "Ask the active one to step down in order, and wait until another is active.", NULL},
    {"stay-out", 0, OPTION_DURATION, FIELD(stay_out_ms), "DURATION",
     "With --cede: for so long it leaves the turn to others; default 30s.", NULL},
    {"override", 0, OPTION_STRING, FIELD(override), "TOKEN",
     "Say that you have made sure yourself that the one with TOKEN (see --list) is dead: the next "
     "one becomes active without fencing it.",
     NULL},
    {.name = NULL},
};

static const char ABOUT[] =
    "Of all members of a service on DIR one is active: it runs CMD, the others stand by. Before "
    "another becomes active it makes sure that the one before it has stopped in order, or is dead: "
    "by the fencing methods, in their order, until one confirms it. When none does, nobody becomes "
    "active until one does or an operator says so (--override).\n"
    "\n"
    "When it is active no more, CMD and all that came from it are ended before anybody else may be "
    "active, even if this process is stopped or killed; then it stands by. When CMD ends by itself, "
    "this process ends with CMD's exit code. INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are "
    "passed on to CMD; while standing by, all but WINCH end this process.";

static const char MORE[] =
    "What happens is printed as lines, tabs between, or as objects with --json:\n"
    "  state STATE TOKEN REASON    INIT, NEUTRAL (not in the race), STANDBY, FENCING\n"
    "                              or ACTIVE; TOKEN of the active one, else -\n"
    "  ready TOKEN                 CMD or --on-active has made it ready\n"
    "  health HEALTH               HEALTHY, UNHEALTHY, NOT_RESPONDING, MONITOR_FAILED\n"
    "  fence ID TOKEN METHOD RESULT TEXT    confirmed or failed\n"
    "  request cede FROM MS        somebody asked it to step down\n"
    "\n"
    "CMD finds in its environment what elect gives, CONCLAVE_ROLE being active and CONCLAVE_NODE "
    "the breadcrumb; hooks find CONCLAVE_ROLE, _PATH, _ID, _TOKEN, _REASON and _STOP_WITHIN_MS; "
    "methods of fencing CONCLAVE_TARGET_ID, _TARGET_HOST, _TARGET_PORT, _TARGET_DATA, _OLD_TOKEN "
    "and _NEW_TOKEN.\n"
    "\n"
    "Exit codes: CMD's own; 128+n when it died of signal n, or when signal n came on standby; 126, "
    "127 CMD cannot be executed, was not found; 64 wrong arguments; 69 cannot connect; 71 CMD ran as another user "
    "and could not be ended in time; 73 the "
    "guardian failed; 75 not in time; 76 (--once) active no more; 77 not permitted; 78 --on-standby "
    "failed at the start. --status-fd tells CMD's own 64 to 78 from these, as of elect. The session "
    "timeout must be at least three ticks of the server.\n";

const struct command_usage SWITCH_USAGE = {
    .name = "switch",
    .forms =
        (const char *const[]){"DIR [options] -- CMD [ARGS...]",
                              "DIR [options] --on-active CMD --on-standby CMD", "DIR --list",
                              "DIR --cede [--stay-out DURATION]", "DIR --override TOKEN", NULL},
    .about = ABOUT,
    .rows = ROWS,
    .more = MORE,
    .client = true,
    .runs_command = true,
    .operands_min = 1,
    .operands_max = 1,
};

static bool asks(const struct switch_options *o)
{
    return o->list || o->cede || o->override != NULL;
}

/* What an operator's question has to do with the rest. */
static int check_asking(const struct switch_options *o)
{
    if ((o->list ? 1 : 0) + (o->cede ? 1 : 0) + (o->override != NULL ? 1 : 0) > 1) {
        return usage_error(&SWITCH_USAGE, "give one of --list, --cede and --override");
    }
    if (o->turn.command != NULL || o->on_active != NULL || o->on_standby != NULL) {
        return usage_error(&SWITCH_USAGE, "--list, --cede and --override run no command");
    }
    return OPTIONS_GO_ON;
}

static int check_running(const struct switch_options *o)
{
    bool hooks = o->on_active != NULL || o->on_standby != NULL;
    if (o->turn.command == NULL && (o->on_active == NULL || o->on_standby == NULL)) {
        return usage_error(&SWITCH_USAGE, "a command stands behind \"--\", or give --on-active and "
                                          "--on-standby");
    }
    if (o->turn.command != NULL && hooks) {
        return usage_error(&SWITCH_USAGE, "give a command, or --on-active and --on-standby");
    }
    if (hooks && (o->turn.ready_fd || o->turn.forever)) {
        return usage_error(&SWITCH_USAGE, "--ready-fd and --forever want a command behind \"--\"");
    }
    if (o->once && o->turn.forever) {
        return usage_error(&SWITCH_USAGE, "give --once or --forever, not both");
    }
    if (o->hadoop && o->data != NULL) {
        return usage_error(&SWITCH_USAGE, "--hadoop leaves no place for --data");
    }
    if (strchr(o->turn.id, '/') != NULL) {
        return usage_error(&SWITCH_USAGE, "--id is the name of a node: no \"/\"");
    }
    return OPTIONS_GO_ON;
}

static int switch_check(const struct switch_options *o)
{
    const struct health_rules *h = &o->health;
    if (h->failures < 1 || h->successes < 1) {
        return usage_error(&SWITCH_USAGE,
                           "--health-failures and --health-successes want 1 or more");
    }
    if (h->timeout_ms == 0 || o->hook_timeout_ms == 0) {
        return usage_error(&SWITCH_USAGE, "--health-timeout and --hook-timeout want more than 0");
    }
    if (o->port < 0 || o->port > PORT_MAX || o->failover_port < 0 || o->failover_port > PORT_MAX) {
        return usage_error(&SWITCH_USAGE, "a port is from 0 to %d", PORT_MAX);
    }
    if (strchr(o->host, '\n') != NULL || strlen(o->host) >= CARD_NAME_MAX) {
        return usage_error(&SWITCH_USAGE, "--host wants a name of less than %d bytes",
                           CARD_NAME_MAX);
    }
    if (strlen(o->turn.path) > SWITCH_PATH_MAX - 32) {
        return usage_error(&SWITCH_USAGE, "DIR is too long");
    }
    return asks(o) ? check_asking(o) : check_running(o);
}

static void set_defaults(struct switch_options *o, char *host, size_t size)
{
    struct hold_options *t = &o->turn;
    if (o->host == NULL) {
        (void)snprintf(host, size, "localhost");
        (void)gethostname(host, size - 1); /* a name that was cut still has its end */
        o->host = host;
    }
    t->lasting = !o->once;
    t->silent = true;
    if (asks(o) && t->common.timeout_ms == CONCLAVE_FOREVER) {
        t->common.timeout_ms = o->cede ? CEDE_TIMEOUT_MS : LIST_TIMEOUT_MS;
    }
    if (t->command == NULL) {
        /* A hook may take as long as the lease lets it. */
        t->leave_timeout_ms += t->common.session_ms + o->hook_timeout_ms;
    }
}

static int run(struct switch_options *o)
{
    if (o->list) {
        return switch_list(o);
    }
    if (o->cede) {
        return switch_cede(o);
    }
    return o->override != NULL ? switch_override(o) : switch_run(o);
}

int command_switch(int argc, char **argv)
{
    struct switch_options options = {.turn = TURN_OPTIONS_INIT,
                                     .fence = FENCE_OPTIONS_INIT,
                                     .health = {NULL, 1000, 10000, 3, 2},
                                     .hook_timeout_ms = 30000,
                                     .failover_port = HADOOP_FAILOVER_PORT,
                                     .stay_out_ms = 30000};
    struct operands operands;
    char host[CARD_NAME_MAX];
    int code = options_parse(&SWITCH_USAGE, argc, argv, &options, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    options.turn.usage = &SWITCH_USAGE;
    options.turn.kind = &SWITCHING;
    options.turn.own = &options;
    code = hold_options_finish(&options.turn, &operands);
    if (code == OPTIONS_GO_ON) {
        code = fence_options_finish(&SWITCH_USAGE, &options.fence);
    }
    if (code == OPTIONS_GO_ON) {
        set_defaults(&options, host, sizeof host);
        code = switch_check(&options);
    }
    return code == OPTIONS_GO_ON ? run(&options) : code;
}
