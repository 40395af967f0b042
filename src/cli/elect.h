/* What the files of `conclave elect` share: elect.c reads the arguments, elect_run.c leads,
 * elect_list.c looks on. */
#ifndef CLI_ELECT_H
#define CLI_ELECT_H

#include "cli/connection.h"
#include "cli/options.h"

enum elect_ack_on { ELECT_ACK_EXEC, ELECT_ACK_FD };

#define ELECT_ID_MAX 256

struct elect_options {
    struct common_options common; /* timeout_ms: to be elected in, CONCLAVE_FOREVER by default */
    const char *path;
    char *const *command; /* NULL: hold the leadership without a command */
    bool list;
    bool watch;
    bool forever;
    bool guardian;
    const char *id;   /* never NULL after elect.c */
    const char *data; /* may be NULL */
    int64_t connect_timeout_ms;
    int64_t takeover_delay_ms;
    int64_t grace_ms; /* -1: as long as the session allows */
    int kill_signal;
    int ack_on;        /* enum elect_ack_on */
    int naming;        /* enum conclave_naming */
    int64_t status_fd; /* -1: none */
};

extern const struct command_usage ELECT_USAGE;

/* Each runs to its end and gives the exit code. */
int elect_run(const struct elect_options *options);
int elect_list(const struct elect_options *options);
int elect_watch(const struct elect_options *options);

#endif
