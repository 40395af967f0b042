/* Common parts of `conclave redis-failover`: redis_failover.c reads the arguments, _file.c a file of
 * them, _run.c is a manager, _status.c
 * and _watch.c show the znodes, _ask.c asks the leading manager (failover, pause, resume, forget). */
#ifndef REDIS_COMMAND_REDIS_FAILOVER_H
#define REDIS_COMMAND_REDIS_FAILOVER_H

#include "base/json.h"
#include "cli/common/connection.h"
#include "cli/switch/fence_options.h"
#include "redis/records/records.h"

enum { REDIS_CLI_ROOT_MAX = 256 };

struct redis_cli {
    struct common_options common;
    const char *cluster;
    const char *target; /* of forget and of --to; NULL */
    char root[REDIS_CLI_ROOT_MAX];
    const char *znode_path;
    const char *chroot;
    char *server; /* --server with the chroot behind it; NULL: none was given */
    const char *config_file;
    const char *environment;    /* in that file; NULL */
    const char *redis_password; /* of that file; NULL: none */

    /* run */
    const char *nodes;
    const char *id;
    struct redis_config config; /* its servers are read from nodes */
    bool dry_run;
    bool gem_layout;
    const char *gem_path;
    const char *redis_user;
    const char *redis_password_file;
    bool redis_tls;
    const char *redis_ca;
    const char *redis_cert;
    const char *redis_key;
    bool redis_any_name;
    struct fence_options fence;
    int64_t sentinel_port; /* 0: off */
    const char *sentinel_address;
    const char *sentinel_announce;
    const char *sentinel_users;
    const char *sentinel_cert;
    const char *sentinel_key;
    const char *sentinel_ca;
    int64_t sentinel_stale_ms;
    bool sentinel_failover;

    /* status */
    int64_t events;

    /* failover and the other requests */
    bool force;
    bool wait;
};

extern const struct command_usage REDIS_USAGE;

/* An event as the end of a line: name, the server where the text does not begin with it, text. */
void redis_cli_print_event(const struct redis_event *event);

/* A record as a member of an object; null for NULL. */
void redis_cli_json_record(struct json *j, const char *key, const struct record_table *table,
                           const void *record);

/* Puts the options of the file that --config names before those of the command line, which count more: *ret_argv. 0, or
 * the exit code. Their memory is never freed: the options point into it. */
int redis_cli_file(int argc, char **argv, struct redis_cli *cli, char ***ret_argv, int *ret_argc);

/* Each runs to its end and gives the exit code. */
int redis_cli_run(const struct redis_cli *cli);
int redis_cli_status(const struct redis_cli *cli);
int redis_cli_watch(const struct redis_cli *cli);
int redis_cli_ask(const struct redis_cli *cli, enum redis_request_kind kind);

#endif
