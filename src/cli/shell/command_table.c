#include "cli/shell/command_table.h"

#include "cli/common/command.h"

#include <string.h>

static const struct command_row COMMANDS[] = {
    {"server", "Serve ZooKeeper clients, alone or as a member of an ensemble.", command_server,
     "Service", false},
    {"status", "Show the servers of an ensemble, and what is wrong.", command_status, NULL, false},
    {"members", "Show or change the members of the ensemble.", command_members, NULL, false},
    {"sessions", "List the sessions; tell why one ended, or end it.", command_sessions, NULL,
     false},
    {"reload", "Make servers read their configuration again.", command_reload, NULL, false},
    {"slow", "Show slow requests, and where their time went.", command_slow, NULL, false},
    {"backup", "Write a backup of a running server to a file.", command_backup, NULL, false},
    {"restore", "Check backups, and make a data folder from them.", command_restore, NULL, false},
    {"history", "Show what happened to a node, from backups.", command_history, NULL, false},
    {"undelete", "Bring back a deleted branch, from backups.", command_undelete, NULL, false},
    {"doctor", "Look a server and its ensemble over, and say what is wrong.", command_doctor, NULL,
     false},
    {"bench", "Measure how fast ZooKeeper servers answer.", command_bench, NULL, false},
    {"users", "Edit the file of users for authentication by digest.", command_users, NULL, false},
    {"certs", "Make a CA and certificates for TLS, for tests and small sites.", command_certs, NULL,
     false},
    {"secret", "Make a random secret for the servers of an ensemble.", command_secret, NULL, false},
    {"demo", "See a leader killed and the next one take over, in a few seconds.", command_demo,
     NULL, false},
    {"inspect", "Tell what is in a data folder of Apache ZooKeeper.", command_inspect, "Migration",
     false},
    {"migrate", "Follow a running Apache ZooKeeper, and take over from it.", command_migrate, NULL,
     false},
    {"export", "Write a data folder from which Apache ZooKeeper starts.", command_export, NULL,
     false},
    {"elect", "Run a command only while this process is the leader.", command_elect, "Coordination",
     false},
    {"lock", "Run a command only while this process holds a lock.", command_lock, NULL, false},
    {"semaphore", "Run a command while this process has one of N places.", command_semaphore, NULL,
     false},
    {"switch", "Keep one active and others on standby, with fencing.", command_switch, NULL, false},
    {"queue", "Put items into a queue, take them, look at them.", command_queue, NULL, false},
    {"barrier", "Wait for others, begin and end together.", command_barrier, NULL, false},
    {"group", "Be a member of a group, list it, watch it.", command_group, NULL, false},
    {"lease", "Nodes that go together when nobody renews their lease.", command_lease, NULL, false},
    {"config", "Read, write, watch and roll out configuration.", command_config, NULL, false},
    {"redis-failover", "Keep one of a set of Redis servers master.", command_redis_failover,
     "Fail-over", false},
    {"ls", "List the children of a node.", command_ls, "The tree", true},
    {"get", "Print the data of a node.", command_get, NULL, true},
    {"set", "Replace the data of a node.", command_set, NULL, true},
    {"create", "Create a node.", command_create, NULL, true},
    {"rm", "Remove a node, or a whole branch.", command_rm, NULL, true},
    {"stat", "Show versions, times and owner of a node.", command_stat, NULL, true},
    {"tree", "Show a branch, indented.", command_tree, NULL, true},
    {"count", "Count the nodes below a node.", command_count, NULL, true},
    {"watch", "Print each change of a node or a branch as it happens.", command_watch, NULL, true},
    {"acl", "Show or replace the ACL of a node.", command_acl, NULL, true},
    {"quota", "Limit the nodes and the bytes of a branch.", command_quota, NULL, true},
    {"fence", "Restrict writes to a branch to the holder of a lock.", command_fence, NULL, true},
    {"sync", "Bring the server of this connection up to date.", command_sync, NULL, true},
    {"whoami", "Show the identities of this client.", command_whoami, NULL, true},
    {"shell", "Run commands on one session, by hand or from a script.", command_shell, NULL, false},
};
#define COMMAND_COUNT (sizeof COMMANDS / sizeof COMMANDS[0])

const struct command_row *command_at(size_t index)
{
    return index < COMMAND_COUNT ? &COMMANDS[index] : NULL;
}

const struct command_row *command_find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(COMMANDS[i].name, name) == 0) {
            return &COMMANDS[i];
        }
    }
    return NULL;
}

const char *command_name_at(size_t index, const void *ctx)
{
    return index < COMMAND_COUNT ? COMMANDS[index].name : NULL;
}
