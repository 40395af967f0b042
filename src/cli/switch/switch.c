/* conclave switch: arguments and help; switch_run.c takes part, switch_operate.c is for operators. */
#include "cli/switch/switch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIELD(name) offsetof(struct switch_options, name)

enum {
    PORT_MAX = 65535,
    LIST_TIMEOUT_MS = 5000,
    CEDE_TIMEOUT_MS = 60000,
    HADOOP_FAILOVER_PORT = 8019
};

static const struct option_row ROWS[] = {
    {"health-cmd", 0, OPTION_STRING, FIELD(health.command), "CMD",
     "Check the service by CMD, run by /bin/sh: 0 means healthy. Only a healthy member competes; an "
     "active one that becomes unhealthy steps down and is fenced. CMD must succeed on standby, too."},
    {"health-interval", 0, OPTION_DURATION, FIELD(health.interval_ms), "DURATION",
     "Interval between two checks; default 1s."},
    {"health-timeout", 0, OPTION_DURATION, FIELD(health.timeout_ms), "DURATION",
     "A check that takes longer has failed; default 10s."},
    {"health-failures", 0, OPTION_INTEGER, FIELD(health.failures), "N",
     "Failures in a row that make the service unhealthy; default 3."},
    {"health-successes", 0, OPTION_INTEGER, FIELD(health.successes), "N",
     "Successes in a row that make it healthy again; default 2. At the start one is enough."},
    OPTION_GROUP(FENCE_ROWS, FIELD(fence)),
    {"on-active", 0, OPTION_STRING, FIELD(on_active), "CMD",
     "Instead of a command behind \"--\", for a service that always runs: run by /bin/sh to make it "
     "active. If it fails, another member gets its turn."},
    {"on-standby", 0, OPTION_STRING, FIELD(on_standby), "CMD",
     "Run by /bin/sh to make the service passive, also once at the start. Only exit code 0 confirms "
     "it; otherwise the next active member fences this one."},
    {"hook-timeout", 0, OPTION_DURATION, FIELD(hook_timeout_ms), "DURATION",
     "Kill --on-active and --on-standby if they take longer; default 30s."},
    {"once", 0, OPTION_FLAG, FIELD(once), NULL,
     "End with exit code 76 when this member is no longer active, instead of going on standby."},
    {"forever", 0, OPTION_FLAG, FIELD(hold.forever), NULL,
     "Go on standby also when CMD has ended on its own, after a pause of 1s that grows to 30s while "
     "terms are short."},
    {"ready-fd", 0, OPTION_FLAG, FIELD(hold.ready_fd), NULL,
     "CMD announces when it is ready: it writes READY=1 and a newline to descriptor "
     "$CONCLAVE_READY_FD. Default: ready as soon as CMD runs."},
    {"host", 0, OPTION_STRING, FIELD(host), "NAME",
     "Host of this member, for fencing; default the machine's name."},
    {"port", 0, OPTION_INTEGER, FIELD(port), "N", "Port of this member, for fencing."},
    {"data", 0, OPTION_STRING, FIELD(data), "TEXT", "More data about this member, for fencing."},
    {"herd-free", 0, OPTION_FLAG, FIELD(herd_free), NULL,
     "Wait in a queue instead of all for one lock, for many members; the same for all members."},
    {"observer", 0, OPTION_FLAG, FIELD(observer), NULL,
     "Take part as an observer, which is listed and never becomes active; see --to-standby."},
    {"hadoop", 0, OPTION_FLAG, FIELD(hadoop), NULL,
     "Write the nodes as Hadoop's elector does, with the message ActiveNodeInfo of HDFS: "
     "nameservice is the last part of DIR, namenode --id."},
    {"yarn", 0, OPTION_FLAG, FIELD(yarn), NULL,
     "Write the nodes as a ResourceManager of YARN does, with the message ActiveRMInfoProto: cluster "
     "id is the last part of DIR, ResourceManager id --id."},
    {"hadoop-zkfc-port", 0, OPTION_INTEGER, FIELD(failover_port), "N",
     "Port of the fail-over controller in that message; default 8019."},
    OPTION_GROUP(HOLD_ROWS, FIELD(hold)),
    {"cede", 0, OPTION_FLAG, FIELD(cede), NULL,
     "Ask the active member to step down cleanly. Wait until another is active, or for --timeout; "
     "default 1m."},
    {"stay-out", 0, OPTION_DURATION, FIELD(stay_out_ms), "DURATION",
     "With --cede: time for which that member lets others go first; default 30s."},
    {"override", 0, OPTION_STRING, FIELD(override), "TOKEN",
     "Confirm that you have made sure that the member with TOKEN (see --list) is dead. The next "
     "member becomes active without fencing it."},
    {"state", 0, OPTION_STRING, FIELD(state_of), "ID",
     "Print the state of the member ID: active, standby, observer, neutral (does not compete), "
     "fencing or init."},
    {"check-health", 0, OPTION_STRING, FIELD(health_of), "ID",
     "Print the health of the member ID; exit code 0 if it is HEALTHY, else 1."},
    {"hand-over", 0, OPTION_STRING, FIELD(hand_over_to), "ID",
     "Make the member ID active in place of the present one, within --timeout; default 1m. If it "
     "cannot, the present one becomes active again."},
    {"to-observer", 0, OPTION_STRING, FIELD(to_observer), "ID",
     "Make the member ID an observer, which never becomes active. An active one steps down first."},
    {"to-standby", 0, OPTION_STRING, FIELD(to_standby), "ID",
     "Make the observer ID a standby member again."},
    {"reset", 0, OPTION_FLAG, FIELD(reset), NULL,
     "Delete DIR with everything below it and make it again. Refused while a member is active, or "
     "when the last active one has not stopped cleanly; asks first on a terminal."},
    {"force", 0, OPTION_FLAG, FIELD(force), NULL,
     "With --reset: do not ask, and do it also while a member is active. Make sure that none is."},
    {"non-interactive", 0, OPTION_FLAG, FIELD(non_interactive), NULL,
     "With --reset: never ask; fail when DIR exists, unless --force is given."},
    {"make-parent", 0, OPTION_FLAG, FIELD(make_parent), NULL,
     "Make DIR and what is missing above it."},
    {"set-acl", 0, OPTION_FLAG, FIELD(set_acl), NULL,
     "With --reset or --make-parent: set the ACL of --acl on DIR and each node above it also where "
     "they exist, as Hadoop does."},
    {.name = NULL},
};

static const char ABOUT[] =
    "One member of the service on DIR is active: it runs CMD, and the others are on standby. Before "
    "another member becomes active, it makes sure that the previous one has stopped cleanly or is "
    "dead: it tries the fencing methods in their order until one confirms it. If none does, no "
    "member becomes active until one does, or an operator confirms it (--override).\n"
    "\n"
    "When this member is no longer active, CMD and all its descendants are ended before another "
    "member can become active, even if this process is stopped or killed; then this member is on "
    "standby again. When CMD ends on its own, this process ends with CMD's exit code. INT, TERM, "
    "HUP, QUIT, USR1, USR2 and WINCH are passed on to CMD; on standby, all but WINCH end this "
    "process.";

static const char MORE[] =
    "Each event is printed as a line, with tabs between, or as an object with --json:\n"
    "  state STATE TOKEN REASON    INIT, NEUTRAL (takes no part), STANDBY, FENCING,\n"
    "                              OBSERVER, ACTIVE; TOKEN of the active one, else -\n"
    "  ready TOKEN                 CMD or --on-active has made it ready\n"
    "  health HEALTH               HEALTHY, UNHEALTHY, NOT_RESPONDING, MONITOR_FAILED\n"
    "  fence ID TOKEN METHOD RESULT TEXT    confirmed or failed\n"
    "  request cede FROM MS        an operator asked it to step down\n"
    "  request ROLE FROM 0         an operator gave it the role observer or standby\n"
    "\n"
    "CMD gets the environment that \"conclave elect\" gives; CONCLAVE_ROLE is active and "
    "CONCLAVE_NODE the breadcrumb. Hooks get CONCLAVE_ROLE, _PATH, _ID, _TOKEN, _REASON and "
    "_STOP_WITHIN_MS; fencing methods get CONCLAVE_TARGET_ID, _TARGET_HOST, _TARGET_PORT, "
    "_TARGET_DATA, _OLD_TOKEN and _NEW_TOKEN.\n"
    "\n"
    "Exit codes: as of \"conclave elect\"; 76 no longer active (--once); 78 --on-standby failed at "
    "the start. The session timeout must be at least three ticks of the server.\n";

const struct command_usage SWITCH_USAGE = {
    .name = "switch",
    .forms = (const char *const[]){"DIR [options] -- CMD [ARGS...]",
                                   "DIR [options] --on-active CMD --on-standby CMD", "DIR --list",
                                   "DIR --cede [--stay-out DURATION]", "DIR --override TOKEN",
                                   "DIR --state ID", "DIR --check-health ID", "DIR --hand-over ID",
                                   "DIR --to-observer ID", "DIR --to-standby ID",
                                   "DIR --reset [--force] [--non-interactive]", "DIR --make-parent",
                                   NULL},
    .about = ABOUT,
    .rows = ROWS,
    .more = MORE,
    .client = true,
    .runs_command = true,
    .operands = {1, 1},
};

/* The number of forms for operators that were given. */
static int forms(const struct switch_options *o)
{
    return o->hold.list + o->cede + (o->override != NULL) + (o->state_of != NULL) +
           (o->health_of != NULL) + (o->hand_over_to != NULL) + (o->to_observer != NULL) +
           (o->to_standby != NULL) + o->reset + o->make_parent;
}

static bool asks(const struct switch_options *o)
{
    return forms(o) > 0;
}

static int switch_check(const struct switch_options *o)
{
    const struct hold_options *h = &o->hold;
    bool hooks = o->on_active != NULL || o->on_standby != NULL;
    bool both = o->on_active != NULL && o->on_standby != NULL;
    bool runs = !asks(o);
    int64_t most = o->port > o->failover_port ? o->port : o->failover_port;
    const struct usage_rule rules[] = {
        {o->health.failures < 1 || o->health.successes < 1,
         "--health-failures and --health-successes want 1 or more"},
        {o->health.timeout_ms == 0 || o->hook_timeout_ms == 0,
         "--health-timeout and --hook-timeout want more than 0"},
        {o->port < 0 || o->failover_port < 0 || most > PORT_MAX, "a port is from 0 to 65535"},
        {strchr(o->host, '\n') != NULL || strlen(o->host) >= CARD_NAME_MAX,
         "--host wants a name of less than 256 bytes, on one line"},
        {strlen(h->path) > SWITCH_PATH_MAX - 32, "DIR is too long"},
        {forms(o) > 1, "give one of --list, --cede, --override, --state, --check-health, "
                       "--hand-over, --to-observer, --to-standby, --reset and --make-parent"},
        {asks(o) && (h->command != NULL || hooks), "this form runs no command"},
        {(o->force || o->non_interactive) && !o->reset,
         "--force and --non-interactive go with --reset"},
        {o->set_acl && !o->reset && !o->make_parent,
         "--set-acl goes with --reset or --make-parent"},
        {runs && h->command == NULL && !both,
         "give a command behind \"--\", or --on-active and --on-standby"},
        {runs && h->command != NULL && hooks, "give a command, or --on-active and --on-standby"},
        {runs && hooks && (h->ready_fd || h->forever),
         "--ready-fd and --forever want a command behind \"--\""},
        {runs && o->once && h->forever, "give --once or --forever, not both"},
        {o->hadoop && o->yarn, "give --hadoop or --yarn, not both"},
        {runs && (o->hadoop || o->yarn) && o->data != NULL,
         "--hadoop and --yarn leave no place for --data"},
        {runs && strchr(h->id, '/') != NULL, "--id is the name of a node: no \"/\""},
        {false, NULL},
    };
    return usage_check(&SWITCH_USAGE, rules);
}

static void set_defaults(struct switch_options *o, char *host, size_t size)
{
    struct hold_options *t = &o->hold;
    if (o->host == NULL) {
        (void)snprintf(host, size, "localhost");
        (void)gethostname(host, size - 1); /* a name that was cut still has its end */
        o->host = host;
    }
    t->lasting = !o->once;
    t->silent = true;
    if (asks(o) && t->common.timeout_ms == CONCLAVE_FOREVER) {
        bool long_form = o->cede || o->hand_over_to != NULL || o->to_observer != NULL;
        t->common.timeout_ms = long_form ? CEDE_TIMEOUT_MS : LIST_TIMEOUT_MS;
    }
    if (t->command == NULL) {
        /* A hook may take as long as the lease lets it. */
        t->leave_timeout_ms += t->common.session_ms + o->hook_timeout_ms;
    }
}

static int run(struct switch_options *o)
{
    if (o->hold.list) {
        return switch_list(o);
    }
    if (o->cede) {
        return switch_cede(o);
    }
    if (o->state_of != NULL || o->health_of != NULL) {
        return switch_state(o);
    }
    if (o->hand_over_to != NULL) {
        return switch_hand_over(o);
    }
    if (o->to_observer != NULL || o->to_standby != NULL) {
        return switch_role(o);
    }
    if (o->reset || o->make_parent) {
        return switch_parent(o);
    }
    return o->override != NULL ? switch_override(o) : switch_run(o);
}

int command_switch(int argc, char **argv)
{
    struct switch_options options = {.hold = HOLD_OPTIONS_INIT,
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
    code = hold_options_finish(&options.hold, &SWITCH_USAGE, &SWITCHING, &options, &operands);
    code = code == OPTIONS_GO_ON ? fence_options_finish(&SWITCH_USAGE, &options.fence) : code;
    if (code == OPTIONS_GO_ON) {
        set_defaults(&options, host, sizeof host);
        code = switch_check(&options);
    }
    return code == OPTIONS_GO_ON ? run(&options) : code;
}
