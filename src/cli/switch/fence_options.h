/* The options by which a command is told how to fence: rows of its table, and the methods that come of
 * them, in the order in which they were given. */
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

/* Rows; field(name): offset of a member of struct fence_options. */
#define FENCE_ROWS(field)                                                                          \
    {"fence-cmd",                                                                                  \
     0,                                                                                            \
     OPTION_ADD,                                                                                   \
     field(given),                                                                                 \
     "CMD",                                                                                        \
     "Fence by CMD, run here: 0 confirms the other dead. It is run by /bin/sh. This and"           \
     " the next two may be given several times; they are tried in their order until one"           \
     " confirms.",                                                                                 \
     NULL},                                                                                        \
        {"fence-ssh",  0,     OPTION_ADD,                                                          \
         field(given), "CMD", "Fence by CMD, run by ssh on the other's host.",                     \
         NULL},                                                                                    \
        {"fence-http", 0,     OPTION_ADD,                                                          \
         field(given), "URL", "Fence by a POST to URL: 200 or 204 confirms.",                      \
         NULL},                                                                                    \
        {"fence-ssh-option",                                                                       \
         0,                                                                                        \
         OPTION_ADD,                                                                               \
         field(ssh),                                                                               \
         "NAME=VALUE",                                                                             \
         "An option of ssh, such as User=ops. May be given several times.",                        \
         NULL},                                                                                    \
        {"fence-host",                                                                             \
         0,                                                                                        \
         OPTION_ADD,                                                                               \
         field(host),                                                                              \
         "HOST",                                                                                   \
         "A host that may be fenced. May be given several times. Another host, which "             \
         "somebody may have written into a node, is fenced by no method. Default: all.",           \
         NULL},                                                                                    \
    {                                                                                              \
        "fence-timeout", 0, OPTION_DURATION, field(timeout_ms), "DURATION",                        \
            "Kill a method that takes longer; default 30s. Its process group is killed,"           \
            " and the next method is tried.",                                                      \
            NULL                                                                                   \
    }

/* Makes the methods. OPTIONS_GO_ON, or CLI_EXIT_USAGE after it was told what is wrong. */
int fence_options_finish(const struct command_usage *usage, struct fence_options *options);

#endif
