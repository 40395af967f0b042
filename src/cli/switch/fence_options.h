/* The options that name fencing methods, for the commands that fence: rows of their tables, and the
 * methods that follow from them, in the order of the command line. */
#ifndef CLI_SWITCH_FENCE_OPTIONS_H
#define CLI_SWITCH_FENCE_OPTIONS_H

#include "cli/common/options.h"
#include "fencing/fence_methods.h"

struct fence_options {
    struct option_list given; /* --fence-cmd, --fence-ssh, --fence-http */
    struct option_list ssh;   /* --fence-ssh-option */
    struct option_list host;  /* --fence-host */
    int64_t timeout_ms;

    /* Made by fence_options_finish. */
    const char *ssh_options[OPTION_LIST_MAX + 1];
    const char *hosts[OPTION_LIST_MAX + 1];
    struct fence_method methods[OPTION_LIST_MAX];
    size_t count;
};
#define FENCE_OPTIONS_INIT                                                                         \
    {                                                                                              \
        .timeout_ms = 30000                                                                        \
    }

/* For OPTION_GROUP at a struct fence_options. */
extern const struct option_row FENCE_ROWS[];

/* Makes the methods. OPTIONS_GO_ON, or CLI_EXIT_USAGE after the error was printed. */
int fence_options_finish(const struct command_usage *usage, struct fence_options *options);

#endif
