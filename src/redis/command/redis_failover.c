/* conclave redis-failover: its options, arguments and help. */
#include "redis/command/redis_failover.h"

#include "cli/common/command.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(name) offsetof(struct redis_cli, name)

/* The words of a choice are those of their lists (cluster_config.h). */
static const struct option_row ROWS[] = {
    {"nodes", 'n', OPTION_STRING, FIELD(nodes), "H:P,H:P,...",
     "The Redis servers; the same for all managers. Needed by run."},
    {"managers", 0, OPTION_INTEGER, FIELD(config.managers), "N",
     "How many managers there are: votes are counted against this number. Default 1."},
    {"id", 0, OPTION_STRING, FIELD(id), "TEXT", "This manager's name; default HOST:PID."},
    {"zkservers", 'z', OPTION_STRING, offsetof(struct common_options, server), "HOSTS",
     "The same as --server."},
    {"with-chroot", 0, OPTION_STRING, FIELD(chroot), "PATH",
     "Everything stands below this path; the same as a path behind --server."},
    {"znode-path", 0, OPTION_STRING, FIELD(znode_path), "PATH",
     "The cluster's node; default /redis_failover/CLUSTER."},
    {"config", 'C', OPTION_STRING, FIELD(config_file), "FILE",
     "Read options from a file of lines NAME=VALUE, with the names of this list, or, in YAML, of the Ruby "
     "gem redis_failover; those of the command line count more."},
    {"environment", 'E', OPTION_STRING, FIELD(environment), "NAME",
     "The environment in that file, which is in YAML."},
    {"max-failures", 0, OPTION_INTEGER, FIELD(config.max_failures), "N",
     "A server that failed so often in a row is down. Default 3."},
    {"min-down", 0, OPTION_DURATION, FIELD(config.min_down_ms), "DURATION",
     "... and not before this time has passed since the first failure. Default 500ms."},
    {"period", 0, OPTION_DURATION, FIELD(config.period_ms), "DURATION",
     "Between two looks at a server, and two reports. Default 1s."},
    {"op-timeout", 0, OPTION_DURATION, FIELD(config.op_timeout_ms), "DURATION",
     "A command that a server has not answered by then has failed. Default 1s."},
    {"node-strategy", 0, OPTION_CHOICE, FIELD(config.strategy), "majority|consensus|single",
     "Who must agree that a server is down: more than half of --managers; all that report, and they "
     "are enough; any one. Default majority."},
    {"required-node-managers", 0, OPTION_INTEGER, FIELD(config.required_managers), "N",
     "Decide nothing with fewer fresh reports. Default: what the strategy needs."},
    {"failover-strategy", 0, OPTION_CHOICE, FIELD(config.preference), "offset|latency",
     "Among replicas of one priority: the one with most data, or the one that answers fastest. "
     "Default offset."},
    {"max-lag-bytes", 0, OPTION_INTEGER, FIELD(config.max_lag_bytes), "N",
     "A replica that is further behind what is known of the master is not taken. Default: no limit."},
    {"allow-data-loss", 0, OPTION_FLAG, FIELD(config.allow_data_loss), NULL,
     "Take the best replica even if it is beyond the limits."},
    {"cooldown", 0, OPTION_DURATION, FIELD(config.cooldown_ms), "DURATION",
     "Between two fail-overs that nobody asked for. Default 60s."},
    {"parallel-syncs", 0, OPTION_INTEGER, FIELD(config.parallel_syncs), "N",
     "So many replicas are pointed to a new master at a time. Default 1."},
    {"min-replicas", 0, OPTION_INTEGER, FIELD(config.min_replicas), "N",
     "Have the master refuse writes with fewer replicas (min-replicas-to-write). For three servers or "
     "more, started with a redis.conf, into which it is written as well. Default 0: their settings "
     "are left alone."},
    {"min-replicas-max-lag", 0, OPTION_INTEGER, FIELD(config.min_replicas_lag_s), "SECONDS",
     "... that acknowledged within this time. A master that is cut off stops then by itself. "
     "Default 10."},
    OPTION_GROUP(FENCE_ROWS, FIELD(fence)),
    {"unfenceable", 0, OPTION_CHOICE, FIELD(config.unfenceable), "wait|block",
     "When an old master can neither be reached nor fenced: wait until --min-replicas has stopped it "
     "(block where that is not set), or stay without a master until an operator says failover "
     "--force. Default wait."},
    {"redis-user", 0, OPTION_STRING, FIELD(redis_user), "NAME", "User of the Redis servers."},
    {"redis-password-file", 0, OPTION_STRING, FIELD(redis_password_file), "FILE",
     "A file whose first line is the password; else the environment's CONCLAVE_REDIS_PASSWORD."},
    {"redis-tls", 0, OPTION_FLAG, FIELD(redis_tls), NULL, "TLS to the Redis servers."},
    {"redis-ca", 0, OPTION_STRING, FIELD(redis_ca), "FILE",
     "Issuers that are trusted; default those of the system."},
    {"redis-cert", 0, OPTION_STRING, FIELD(redis_cert), "FILE", "Own certificate."},
    {"redis-key", 0, OPTION_STRING, FIELD(redis_key), "FILE", "Its key."},
    {"redis-any-name", 0, OPTION_FLAG, FIELD(redis_any_name), NULL,
     "Servers' certificates may be for other names than those in --nodes."},
    {"sentinel-port", 0, OPTION_INTEGER, FIELD(sentinel_port), "N",
     "Serve the protocol of Redis Sentinel at this port, and HTTP probes for load balancers."},
    {"sentinel-address", 0, OPTION_STRING, FIELD(sentinel_address), "HOST",
     "Listen only at this address. Default: all interfaces."},
    {"sentinel-announce", 0, OPTION_STRING, FIELD(sentinel_announce), "H:P",
     "The address of this manager in the answer to SENTINEL SENTINELS. Default: "
     "--sentinel-address, or if that is every interface, the address that this machine has towards "
     "the Redis servers; and --sentinel-port."},
    {"sentinel-users", 0, OPTION_STRING, FIELD(sentinel_users), "FILE",
     "Clients must log in: a file with lines NAME PASSWORD. AUTH with a password alone is for the "
     "user \"default\"."},
    {"sentinel-cert", 0, OPTION_STRING, FIELD(sentinel_cert), "FILE",
     "Serve TLS only, with this certificate."},
    {"sentinel-key", 0, OPTION_STRING, FIELD(sentinel_key), "FILE", "Its key."},
    {"sentinel-ca", 0, OPTION_STRING, FIELD(sentinel_ca), "FILE",
     "Clients need a certificate of these issuers."},
    {"sentinel-stale", 0, OPTION_DURATION, FIELD(sentinel_stale_ms), "DURATION",
     "Name no master if the ensemble has not confirmed the record for this time. Default 2s."},
    {"sentinel-failover", 0, OPTION_FLAG, FIELD(sentinel_failover), NULL,
     "Permit SENTINEL FAILOVER to clients."},
    {"gem-layout", 0, OPTION_FLAG, FIELD(gem_layout), NULL,
     "Keep the node of the Ruby gem redis_failover, too, so that its clients find the master; its "
     "manual_failover is a request."},
    {"gem-path", 0, OPTION_STRING, FIELD(gem_path), "PATH",
     "Where the gem's nodes stand; default /redis_failover."},
    {"dry-run", 0, OPTION_FLAG, FIELD(dry_run), NULL,
     "Neither report nor stand for election: look, and say what a leader would do."},
    {"events", 0, OPTION_INTEGER, FIELD(events), "N", "status: the last N events. Default 5."},
    {"to", 0, OPTION_STRING, FIELD(target), "H:P",
     "failover: this server becomes master. Default: the best replica."},
    {"force", 0, OPTION_FLAG, FIELD(force), NULL,
     "failover: even if the master cannot be fenced, or the replica is behind."},
    {"timeout", 0, OPTION_DURATION, offsetof(struct common_options, timeout_ms), "DURATION",
     "failover, pause, resume, forget: not carried out later than this. status, watch: for the "
     "answers. Default 10s."},
    {"wait", 0, OPTION_FLAG, FIELD(wait), NULL,
     "failover, pause, resume, forget: wait for the result."},
    OPTION_GROUP(ACL_ROWS, 0),
    {.name = NULL},
};

static const char ABOUT[] =
    "Managers, preferably three or five on different machines, watch a set of Redis servers, one of "
    "which is the master, and elect one of them to carry out fail-overs. Clients follow the "
    "node \"current\", or use Sentinel's protocol.\n"
    "\n"
    "  run       is a manager; CLUSTER is \"default\" where it is not given\n"
    "  status    shows master, servers, managers, what is under way, the last events\n"
    "  watch     prints each change and each event until a signal\n"
    "  failover  asks for another master; nothing is lost while the old one answers\n"
    "  pause     nothing is done by itself until resume; requests are carried out\n"
    "  resume    ends a pause\n"
    "  forget    a server that is no more is not listed as unavailable any longer";

static const char MORE[] =
    "When it is ready run prints one line, \"conclave: redis-failover ready cluster=NAME id=ID\", "
    "then a line for each event: time, event, server, text (with --json an object each). INT and "
    "TERM end it in order.\n"
    "\n"
    "Exit codes: 1 refused, or no such cluster; 64 wrong arguments; 69 no server; 75 not done in "
    "time; 77 not permitted; 128+n after a signal.\n";

const struct command_usage REDIS_USAGE = {
    .name = "redis-failover",
    .forms =
        (const char *const[]){"[run] [CLUSTER] --nodes H:P,H:P,... [options]", "status [CLUSTER]",
                              "watch [CLUSTER]", "failover [CLUSTER] [--to H:P] [--force] [--wait]",
                              "pause [CLUSTER]", "resume [CLUSTER]", "forget [CLUSTER] H:P", NULL},
    .about = ABOUT,
    .rows = ROWS,
    .more = MORE,
    .client = true,
    .operands = {0, 3},
};

enum failover_verb {
    VERB_RUN,
    VERB_STATUS,
    VERB_WATCH,
    VERB_FAILOVER,
    VERB_PAUSE,
    VERB_RESUME,
    VERB_FORGET,
    VERBS
};

static const struct verb_row {
    const char *name;
    bool target;                             /* its last operand is a server */
    int (*run)(const struct redis_cli *cli); /* NULL: a request to the leading manager */
    enum redis_request_kind kind;
} VERB_ROWS[VERBS] = {
    [VERB_RUN] = {"run", false, redis_cli_run},
    [VERB_STATUS] = {"status", false, redis_cli_status},
    [VERB_WATCH] = {"watch", false, redis_cli_watch},
    [VERB_FAILOVER] = {"failover", false, NULL, REDIS_REQUEST_FAILOVER},
    [VERB_PAUSE] = {"pause", false, NULL, REDIS_REQUEST_PAUSE},
    [VERB_RESUME] = {"resume", false, NULL, REDIS_REQUEST_RESUME},
    [VERB_FORGET] = {"forget", true, NULL, REDIS_REQUEST_FORGET},
};

static enum failover_verb verb_find(const char *name)
{
    int verb = 0;
    while (verb < VERBS && strcmp(VERB_ROWS[verb].name, name) != 0) {
        verb++;
    }
    return (enum failover_verb)verb;
}

/* --- checks ------------------------------------------------------------------------ */

static bool cluster_name_good(const char *name)
{
    static const char GOOD[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return name[0] != '\0' && name[0] != '.' && strlen(name) < 100 &&
           name[strspn(name, GOOD)] == '\0' && strcmp(name, "nodes") != 0 &&
           strcmp(name, "manual_failover") != 0 && strcmp(name, "manager_node_state") != 0;
}

/* The cluster's node, without "/" at its end. */
static int root_make(struct redis_cli *cli)
{
    if (!cluster_name_good(cli->cluster)) {
        return usage_error(&REDIS_USAGE,
                           "CLUSTER wants letters, digits, \"-\", \"_\" and \".\", and none of the "
                           "gem's names (nodes, manual_failover, manager_node_state)");
    }
    if (cli->znode_path == NULL) {
        snprintf(cli->root, sizeof cli->root, "/redis_failover/%s", cli->cluster);
        return OPTIONS_GO_ON;
    }
    size_t len = strlen(cli->znode_path);
    while (len > 1 && cli->znode_path[len - 1] == '/') {
        len--;
    }
    if (len >= sizeof cli->root || len < 2) {
        return usage_error(&REDIS_USAGE,
                           "--znode-path wants a path, not \"/\", of at most %d bytes",
                           REDIS_CLI_ROOT_MAX - 1);
    }
    snprintf(cli->root, sizeof cli->root, "%.*s", (int)len, cli->znode_path);
    return path_check(&REDIS_USAGE, cli->root);
}

static int gem_path_check(const struct redis_cli *cli)
{
    if (cli->gem_path == NULL) {
        return OPTIONS_GO_ON;
    }
    if (strcmp(cli->gem_path, "/") == 0 || strlen(cli->gem_path) >= REDIS_CLI_ROOT_MAX) {
        return usage_error(&REDIS_USAGE, "--gem-path wants a path, not \"/\", of at most %d bytes",
                           REDIS_CLI_ROOT_MAX - 1);
    }
    return path_check(&REDIS_USAGE, cli->gem_path);
}

/* Makes "host:port/chroot" the list of servers. */
static int chroot_apply(struct redis_cli *cli)
{
    if (cli->chroot == NULL) {
        return OPTIONS_GO_ON;
    }
    struct conclave_server_list *list = NULL;
    int code = connection_servers(REDIS_USAGE.name, &cli->common, &list);
    if (code != 0) {
        return code;
    }
    const char *slash = cli->chroot[0] == '/' ? "" : "/";
    size_t size = strlen(list->text) + strlen(cli->chroot) + 2;
    char *text = malloc(size);
    if (list->chroot[0] != '\0') {
        code = usage_error(&REDIS_USAGE, "give a path behind --server or --with-chroot, not both");
    } else if (text == NULL) {
        code = fail(REDIS_USAGE.name, NULL, CONCLAVE_ENOMEM);
    } else {
        snprintf(text, size, "%.*s%s%s", (int)strcspn(list->text, "/"), list->text, slash,
                 cli->chroot);
        cli->server = text;
        cli->common.server = text;
        text = NULL;
        code = OPTIONS_GO_ON;
    }
    free(text);
    conclave_server_list_free(list);
    return code;
}

static int operands_take(struct redis_cli *cli, enum failover_verb verb,
                         const struct operands *operands, int first)
{
    const struct verb_row *row = &VERB_ROWS[verb];
    int count = operands->count - first;
    assert(verb < VERBS && count >= 0);
    if (row->target && count < 1) {
        return usage_error(&REDIS_USAGE, "%s wants a server, HOST:PORT", row->name);
    }
    if (count > 1 + row->target) {
        return usage_error(&REDIS_USAGE, "%s: \"%s\" is one word too many", row->name,
                           operands->words[operands->count - 1]);
    }
    if (verb != VERB_FAILOVER && (cli->target != NULL || cli->force)) {
        return usage_error(&REDIS_USAGE, "--to and --force are for failover");
    }
    if (row->target) {
        cli->target = operands->words[--count + first];
    }
    cli->cluster = count > 0 ? operands->words[first] : "default";
    if (first == 0 && count > 0 && cli->nodes == NULL) {
        return usage_error(
            &REDIS_USAGE,
            "\"%.60s\" is no verb (run, status, watch, failover, pause, resume, forget), "
            "and run wants --nodes",
            cli->cluster);
    }
    return OPTIONS_GO_ON;
}

static int redis_cli_parse(int argc, char **argv, struct redis_cli *cli, struct operands *operands)
{
    char **all = argv;
    int count = argc;
    int code = redis_cli_file(argc, argv, cli, &all, &count);
    return code != 0 ? code : options_parse(&REDIS_USAGE, count, all, cli, operands);
}

int command_redis_failover(int argc, char **argv)
{
    struct redis_cli cli = {
        .common = COMMON_OPTIONS_INIT, .fence = FENCE_OPTIONS_INIT, .events = 5};
    struct operands operands = {.count = 0};
    enum failover_verb verb = VERB_RUN;
    int first = 0;
    redis_config_init(&cli.config);
    cli.common.timeout_ms = 10000;
    cli.common.session_ms = 6000;
    cli.sentinel_stale_ms = 2000;
    int code = redis_cli_parse(argc, argv, &cli, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    if (operands.count > 0 && verb_find(operands.words[0]) != VERBS) {
        verb = verb_find(operands.words[0]);
        first = 1;
    }
    code = operands_take(&cli, verb, &operands, first);
    if (code == OPTIONS_GO_ON) {
        code = root_make(&cli);
    }
    if (code == OPTIONS_GO_ON) {
        code = gem_path_check(&cli);
    }
    if (code == OPTIONS_GO_ON) {
        code = chroot_apply(&cli);
    }
    if (code == OPTIONS_GO_ON) {
        const struct verb_row *row = &VERB_ROWS[verb];
        assert(cli.cluster != NULL && cli.root[0] == '/');
        code = row->run != NULL ? row->run(&cli) : redis_cli_ask(&cli, row->kind);
    }
    free(cli.server);
    return code;
}
