/* What the files of `conclave elect` share: elect.c reads the arguments and leads (hold_command.h),
 * elect_list.c looks on. */
#ifndef CLI_RECIPES_ELECT_H
#define CLI_RECIPES_ELECT_H

#include "cli/run/hold_command.h"

struct elect_options {
    struct hold_options turn;
    bool list;
    bool watch;
    const char *data; /* may be NULL */
    int64_t takeover_delay_ms;
    int ack_on; /* 1: fd */
    int naming; /* enum conclave_naming */
};

extern const struct command_usage ELECT_USAGE;

/* Each runs to its end and gives the exit code. */
int elect_list(struct elect_options *options);
int elect_watch(struct elect_options *options);

#endif
