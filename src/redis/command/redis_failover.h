/* What the files of `conclave redis-failover` share: redis_failover.c reads the arguments, _run.c is a manager, _look.c
 * shows (status, watch), _ask.c asks the leading manager (failover, pause, resume, forget). */
#ifndef REDIS_COMMAND_REDIS_FAILOVER_H
#define REDIS_COMMAND_REDIS_FAILOVER_H

#include "cli/common/connection.h"
#include "cli/switch/fence_options.h"

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

    /* run */
    const char *nodes;
    const char *id;
    int64_t managers;
    int64_t required_managers;
    int strategy;
    int preference;
    int unfenceable;
    int64_t period_ms;
    int64_t op_timeout_ms;
    int64_t max_failures;
    int64_t min_down_ms;
    int64_t max_lag_bytes;
    int64_t cooldown_ms;
    int64_t parallel_syncs;
    int64_t min_replicas;
    int64_t min_replicas_lag_s;
    bool allow_data_loss;
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

    /* status */
    int64_t events;

    /* failover and the other requests */
    bool force;
    bool wait;
};

extern const struct command_usage REDIS_USAGE;

/* An event as the end of a line: name, the server where the text does not begin with it, text. */
void redis_cli_print_event(const char *name, const char *node, const char *text);

/* Each runs to its end and gives the exit code. */
int redis_cli_run(struct redis_cli *cli);
int redis_cli_status(const struct redis_cli *cli);
int redis_cli_watch(const struct redis_cli *cli);
int redis_cli_failover(const struct redis_cli *cli);
int redis_cli_pause(const struct redis_cli *cli);
int redis_cli_resume(const struct redis_cli *cli);
int redis_cli_forget(const struct redis_cli *cli);

#endif
