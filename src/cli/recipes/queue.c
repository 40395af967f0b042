/* conclave queue: arguments, checks and help; queue_take.c takes, queue_look.c puts and looks. */
#include "cli/recipes/queue.h"

#include "cli/common/command.h"

#include <string.h>

#define FIELD(name) offsetof(struct queue_cli, name)

static const struct option_row ROWS[] = {
    {"file", 'f', OPTION_STRING, FIELD(file), "FILE",
     "put: take the item from a file; \"-\" is the input.", NULL},
    {"priority", 'p', OPTION_INTEGER, FIELD(priority), "N",
     "put: 0 to 999, the smallest first; default 500.", NULL},
    {"max-items", 0, OPTION_INTEGER, FIELD(max_items), "N",
     "put: wait while the queue has N items. Default: no limit.", NULL},
    {"timeout", 0, OPTION_DURATION, offsetof(struct common_options, timeout_ms), "DURATION",
     "Give up after this time, with exit code 75. put and take: when there was no room or no item; 0: look once; default: wait forever. The others: how long to wait for the answers; default 5s.",
     NULL},
    {"connect-timeout", 0, OPTION_DURATION, FIELD(connect_timeout_ms), "DURATION",
     "Wait this long for the first server; default 30s. Then give up, with exit code 69.", NULL},
    {"follow", 0, OPTION_FLAG, FIELD(follow), NULL,
     "take: go on with the next item, until a signal.", NULL},
    {"at-most-once", 0, OPTION_FLAG, FIELD(at_most_once), NULL,
     "take: remove an item before it is handed out. It is lost when this process dies.", NULL},
    {"max-attempts", 0, OPTION_INTEGER, FIELD(max_attempts), "N",
     "take: a dead letter after N failed attempts. Default: never.", NULL},
    {"id", 0, OPTION_STRING, FIELD(id), "TEXT", "take: name shown to others; default HOST:PID.",
     NULL},
    {"grace", 0, OPTION_DURATION, FIELD(grace_ms), "DURATION",
     "take: time for CMD to stop when the claim was lost. It is the time from TERM to KILL. Default, and the most: a third of the session timeout less 500ms (less a sixth of it below 3s); with --at-most-once 3s, and no limit.",
     NULL},
    ACL_ROW,
    ALLOW_SETUID_ROW(FIELD(allow_setuid)),
    {"number", 'n', OPTION_INTEGER, FIELD(number), "N", "list, dead: no more than N. Default: all.",
     NULL},
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
    "CONCLAVE_LEASE_SHM_FD (the lease's page, as of elect; the token in it is 0). INT, TERM, HUP and QUIT are passed on to it, and end --follow after it.\n"
    "\n"
    "With --json put prints {\"name\"}, take and peek {\"name\", \"priority\", \"attempt\", "
    "\"data\"}, list and dead one object per line.\n"
    "\n"
    "Exit codes of take: CMD's own; 128+n when it died of signal n, or when signal n came while "
    "waiting; 126, 127 CMD cannot be executed, was not found; 64 wrong arguments; 69 cannot connect; "
    "71 CMD ran as another user and could not be ended; 73 the guardian failed; 75 nothing came in time; 76 the claim was lost; 77 not permitted.\n";

static const struct command_usage USAGE = {
    .name = "queue",
    .forms =
        (const char *const[]){"put PATH [DATA] [options]", "take PATH [options] [-- CMD [ARGS...]]",
                              "peek PATH", "list PATH", "dead PATH", "requeue PATH NAME", NULL},
    .about = ABOUT,
    .rows = ROWS,
    .more = MORE,
    .client = true,
    .runs_command = true,
    .operands_min = 2,
    .operands_max = 3,
};

enum queue_verb { VERB_PUT, VERB_TAKE, VERB_PEEK, VERB_LIST, VERB_DEAD, VERB_REQUEUE, VERBS };

static const struct verb_row {
    const char *name;
    int operands_min;
    int operands_max;
    int (*run)(const struct queue_cli *cli);
} VERB_ROWS[VERBS] = {
    [VERB_PUT] = {"put", 2, 3, queue_cli_put},
    [VERB_TAKE] = {"take", 2, 2, queue_cli_take},
    [VERB_PEEK] = {"peek", 2, 2, queue_cli_peek},
    [VERB_LIST] = {"list", 2, 2, queue_cli_list},
    [VERB_DEAD] = {"dead", 2, 2, queue_cli_dead},
    [VERB_REQUEUE] = {"requeue", 3, 3, queue_cli_requeue},
};

static enum queue_verb verb_find(const char *name)
{
    int verb = 0;
    while (verb < VERBS && strcmp(VERB_ROWS[verb].name, name) != 0) {
        verb++;
    }
    return (enum queue_verb)verb;
}

static int queue_cli_check(const struct queue_cli *cli, enum queue_verb verb,
                           const struct operands *operands)
{
    const struct verb_row *row = &VERB_ROWS[verb];
    bool taking = verb == VERB_TAKE;
    if (operands->count < row->operands_min || operands->count > row->operands_max) {
        return usage_error(&USAGE, "%s wants %s", row->name,
                           verb == VERB_PUT       ? "PATH and at most DATA"
                           : verb == VERB_REQUEUE ? "PATH and NAME"
                                                  : "PATH alone");
    }
    if (!taking && (cli->follow || cli->at_most_once || cli->max_attempts > 0 ||
                    cli->command != NULL || cli->id != NULL)) {
        return usage_error(&USAGE,
                           "%s takes nothing: --follow, --at-most-once, --max-attempts, "
                           "--id and a command are for take",
                           row->name);
    }
    if (verb != VERB_PUT && (cli->file != NULL || cli->max_items > 0)) {
        return usage_error(&USAGE, "--file and --max-items are for put");
    }
    if (cli->data != NULL && cli->file != NULL) {
        return usage_error(&USAGE, "give DATA or --file, not both");
    }
    if (cli->priority < 0 || cli->priority > CONCLAVE_QUEUE_PRIORITY_MAX) {
        return usage_error(&USAGE, "--priority wants a number from 0 to %d",
                           CONCLAVE_QUEUE_PRIORITY_MAX);
    }
    if (cli->max_items < 0 || cli->max_attempts < 0 || cli->number < 0) {
        return usage_error(&USAGE, "--max-items, --max-attempts and --number want 0 or more");
    }
    if (cli->id != NULL && (cli->id[0] == '\0' || strchr(cli->id, '\n') != NULL)) {
        return usage_error(&USAGE, "--id wants a name on one line");
    }
    if (strcmp(cli->path, "/") == 0) {
        return usage_error(&USAGE, "the queue needs a node of its own, not \"/\"");
    }
    return path_check(&USAGE, cli->path);
}

int command_queue(int argc, char **argv)
{
    struct queue_cli cli = {.common = COMMON_OPTIONS_INIT,
                            .connect_timeout_ms = 30000,
                            .usage = &USAGE,
                            .grace_ms = -1,
                            .priority = CONCLAVE_QUEUE_PRIORITY_DEFAULT};
    struct operands operands;
    cli.common.timeout_ms = CONCLAVE_FOREVER;
    int code = options_parse(&USAGE, argc, argv, &cli, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    enum queue_verb verb = verb_find(operands.words[0]);
    if (verb == VERBS) {
        return usage_error(&USAGE, "unknown verb \"%s\"", operands.words[0]);
    }
    cli.path = operands.words[1];
    cli.data = operands.count > 2 ? operands.words[2] : NULL;
    cli.command = operands.command;
    code = queue_cli_check(&cli, verb, &operands);
    return code != OPTIONS_GO_ON ? code : VERB_ROWS[verb].run(&cli);
}
