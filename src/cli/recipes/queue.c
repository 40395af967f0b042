/* conclave queue: arguments, checks and help; queue_take.c takes, queue_look.c puts and looks. */
#include "cli/recipes/queue.h"

#include <string.h>

#define FIELD(name) offsetof(struct queue_cli, name)

static const struct option_row ROWS[] = {
    {"file", 'f', OPTION_STRING, FIELD(file), "FILE",
     "put: take the item from a file; \"-\" is the input."},
    {"priority", 'p', OPTION_INTEGER, FIELD(priority), "N",
     "put: 0 to 999, the smallest first; default 500."},
    {"max-items", 0, OPTION_INTEGER, FIELD(max_items), "N",
     "put: wait while the queue has N items. Default: no limit."},
    {"timeout", 0, OPTION_DURATION, offsetof(struct common_options, timeout_ms), "DURATION",
     "Give up after this time, with exit code 75. put and take: when there was no room or no item; 0: look once; default: wait forever. The others: how long to wait for the answers; default 5s."},
    {"connect-timeout", 0, OPTION_DURATION, FIELD(connect_timeout_ms), "DURATION",
     "Wait this long for the first server; default 30s. Then give up, with exit code 69."},
    {"follow", 0, OPTION_FLAG, FIELD(follow), NULL,
     "take: go on with the next item, until a signal."},
    {"at-most-once", 0, OPTION_FLAG, FIELD(at_most_once), NULL,
     "take: remove an item before it is handed out. It is lost when this process dies."},
    {"max-attempts", 0, OPTION_INTEGER, FIELD(max_attempts), "N",
     "take: a dead letter after N failed attempts. Default: never."},
    {"id", 0, OPTION_STRING, FIELD(id), "TEXT", "take: name shown to others; default HOST:PID."},
    {"grace", 0, OPTION_DURATION, FIELD(grace_ms), "DURATION",
     "take: time for CMD to stop when the claim was lost. It is the time from TERM to KILL. Default, and the most: a third of the session timeout less 500ms (less a sixth of it below 3s); with --at-most-once 3s, and no limit."},
    OPTION_GROUP(ACL_ROWS, 0),
    OPTION_GROUP(ALLOW_SETUID_ROWS, FIELD(allow_setuid)),
    {"number", 'n', OPTION_INTEGER, FIELD(number), "N",
     "list, dead: no more than N. Default: all."},
    {"delay", 0, OPTION_DURATION, FIELD(delay_ms), "DURATION",
     "put: nobody takes the item before this time has passed, by the clock of the consumer."},
    {"item", 0, OPTION_STRING, FIELD(item), "ID",
     "put: an id of the item, by which remove finds it. Several items may have the same."},
    {"layout", 0, OPTION_CHOICE, FIELD(layout),
     "native|plain|kazoo|kazoo-locking|curator|curator-priority|curator-delay",
     "How the nodes are named; all users of PATH must use the same. plain: sequential nodes of any program. kazoo, kazoo-locking: kazoo's Queue and LockingQueue. curator...: its queues. Default: native."},
    {"prefix", 0, OPTION_STRING, FIELD(prefix), "TEXT",
     "Layout plain: prefix of the items. Default: put \"qn-\", take all."},
    {"claims", 0, OPTION_STRING, FIELD(claims), "PATH",
     "Layouts of Curator: the lockPath that the other programs use. Default: they use none."},
    {.name = NULL},
};

static const char ABOUT[] =
    "A queue in the tree: producers put items, consumers take them by priority, then in the order of "
    "putting.\n"
    "\n"
    "  put      puts DATA (or a file, or the input) and prints the item's name\n"
    "  take     takes the first item that nobody has: prints its bytes as they are,\n"
    "           or runs CMD with them as its input\n"
    "  peek     prints the first item and leaves it\n"
    "  list     lists the items: name, attempts, bytes, who has it\n"
    "  dead     lists the dead letters\n"
    "  requeue  puts a dead letter back, in its old place\n"
    "  remove   removes the items with an ID that nobody has, and prints how many\n"
    "\n"
    "At least once: an item stays in the queue, claimed, until CMD has ended with 0 (or it was "
    "printed); with anything else it is given back. When this process or its session dies, the item "
    "is handed to another consumer. When the claim is lost meanwhile, CMD and all that came from it are "
    "ended before another gets the item, even if this process is stopped or killed. What CMD leaves "
    "running is ended before the item is acknowledged.";

static const char MORE[] =
    "CMD finds in its environment CONCLAVE_PATH (the queue), CONCLAVE_NODE (the item's name), "
    "CONCLAVE_ATTEMPT, CONCLAVE_PRIORITY, CONCLAVE_CLAIM (path of the claim's node, for a check "
    "in a transaction), CONCLAVE_LEASE_FD (descriptor: a byte or its end means: lost, stop) and "
    "CONCLAVE_LEASE_SHM_FD (the lease's page, as of elect; the token in it is 0). INT, TERM, HUP and "
    "QUIT are passed on to it, and end --follow after it.\n"
    "\n"
    "With --json put prints {\"name\"}, take and peek {\"name\", \"priority\", \"attempt\", "
    "\"data\"}, list and dead one object per line, "
    "remove {\"removed\"}.\n"
    "\n"
    "Exit codes of take: as of \"conclave elect\"; 75 no item in time; 76 the claim was lost.\n";

static const struct command_verb VERBS[] = {
    [QUEUE_PUT] = {"put", 1, 2, false},       [QUEUE_TAKE] = {"take", 1, 1, true},
    [QUEUE_PEEK] = {"peek", 1, 1, false},     [QUEUE_LIST] = {"list", 1, 1, false},
    [QUEUE_DEAD] = {"dead", 1, 1, false},     [QUEUE_REQUEUE] = {"requeue", 2, 2, false},
    [QUEUE_REMOVE] = {"remove", 2, 2, false}, {.name = NULL},
};

const struct command_usage QUEUE_USAGE = {
    .name = "queue",
    .forms =
        (const char *const[]){"put PATH [DATA] [options]", "take PATH [options] [-- CMD [ARGS...]]",
                              "peek PATH", "list PATH", "dead PATH", "requeue PATH NAME",
                              "remove PATH ID", NULL},
    .about = ABOUT,
    .rows = ROWS,
    .verbs = VERBS,
    .more = MORE,
    .client = true,
    .runs_command = true,
};

static int queue_cli_check(const struct queue_cli *cli, enum queue_verb verb)
{
    bool taking = cli->follow || cli->at_most_once || cli->max_attempts > 0 || cli->id != NULL;
    const struct usage_rule rules[] = {
        {verb != QUEUE_TAKE && taking,
         "--follow, --at-most-once, --max-attempts and --id are for take"},
        {verb != QUEUE_PUT &&
             (cli->file != NULL || cli->max_items > 0 || cli->delay_ms != 0 || cli->item != NULL),
         "--file, --max-items, --delay and --item are for put"},
        {cli->delay_ms < 0, "--delay wants 0 or more"},
        {cli->delay_ms > 0 && cli->layout != CONCLAVE_QUEUE_LAYOUT_NATIVE &&
             cli->layout != CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY,
         "--delay wants the layout native or curator-delay"},
        {(cli->item != NULL || verb == QUEUE_REMOVE) &&
             cli->layout != CONCLAVE_QUEUE_LAYOUT_NATIVE &&
             cli->layout != CONCLAVE_QUEUE_LAYOUT_CURATOR,
         "--item and remove want the layout native or curator"},
        {cli->prefix != NULL && cli->layout != CONCLAVE_QUEUE_LAYOUT_PLAIN,
         "--prefix is for --layout plain"},
        {cli->claims != NULL && cli->layout < CONCLAVE_QUEUE_LAYOUT_CURATOR,
         "--claims is for the layouts of Curator"},
        {cli->data != NULL && cli->file != NULL, "give DATA or --file, not both"},
        {cli->priority < 0 || (cli->priority > CONCLAVE_QUEUE_PRIORITY_MAX &&
                               cli->layout != CONCLAVE_QUEUE_LAYOUT_CURATOR_PRIORITY),
         "--priority wants a number from 0 to 999"},
        {cli->priority != CONCLAVE_QUEUE_PRIORITY_DEFAULT &&
             (cli->layout == CONCLAVE_QUEUE_LAYOUT_PLAIN ||
              cli->layout == CONCLAVE_QUEUE_LAYOUT_CURATOR ||
              cli->layout == CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY),
         "this layout has no priorities"},
        {cli->max_items < 0 || cli->max_attempts < 0 || cli->number < 0,
         "--max-items, --max-attempts and --number want 0 or more"},
        {cli->id != NULL && (cli->id[0] == '\0' || strchr(cli->id, '\n') != NULL),
         "--id wants a name on one line"},
        {strcmp(cli->path, "/") == 0, "the queue needs a node of its own, not \"/\""},
        {false, NULL},
    };
    int code = usage_check(&QUEUE_USAGE, rules);
    return code == OPTIONS_GO_ON ? path_check(&QUEUE_USAGE, cli->path) : code;
}

int command_queue(int argc, char **argv)
{
    struct queue_cli cli = {.common = COMMON_OPTIONS_INIT,
                            .connect_timeout_ms = 30000,
                            .grace_ms = -1,
                            .priority = CONCLAVE_QUEUE_PRIORITY_DEFAULT};
    struct operands operands;
    cli.common.timeout_ms = CONCLAVE_FOREVER;
    int code = options_parse(&QUEUE_USAGE, argc, argv, &cli, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    enum queue_verb verb = (enum queue_verb)operands.verb;
    cli.path = operands.words[1];
    cli.data = operands.count > 2 ? operands.words[2] : NULL;
    cli.command = operands.command;
    code = queue_cli_check(&cli, verb);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    return verb == QUEUE_TAKE ? queue_cli_take(&cli) : queue_cli_look(&cli, verb);
}
