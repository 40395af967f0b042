/* Common parts of `conclave sessions`: sessions.c lists, session_why.c asks all servers about one, and ends it. */
#ifndef CLI_OPS_SESSIONS_H
#define CLI_OPS_SESSIONS_H

#include "cli/common/options.h"

struct sessions_options {
    struct common_options common;
    const char *admin;
};

extern const struct command_usage SESSIONS_USAGE;

/* Each returns the exit code, and prints its errors. */
int session_why(const struct sessions_options *options, const char *id);
int session_kill(const struct sessions_options *options, const char *id);

#endif
