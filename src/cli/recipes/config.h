/* Common parts of `conclave config`: config.c (arguments, get, put, acknowledgements), config_watch.c. */
#ifndef CLI_RECIPES_CONFIG_H
#define CLI_RECIPES_CONFIG_H

#include "cli/common/options.h"

#include <conclave/config.h>

struct config_options {
    struct common_options common;
    bool tree;
    const char *cache;
    const char *file;
    const char *data_file;
    const char *ack;
    const char *ack_path;
    const char *group;
    int64_t version;
    int64_t at_least;
    int64_t debounce_ms;
    int64_t connect_timeout_ms;
    bool create;
};

extern const struct command_usage CONFIG_USAGE;

/* get (once) and watch. The exit code; errors were printed. */
int config_watch(const struct config_options *options, const char *path, bool once,
                 char *const *argv);

#endif
