/* What the files of `conclave config` share: config.c (arguments, get, put, acknowledgements),
 * config_watch.c. */
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

/* One node as a line: path (of a tree) and data, or JSON with an event before it. */
void config_print_node(const struct config_options *options,
                       const struct conclave_config_state *state,
                       const struct conclave_config_node *node, const char *event);

/* get and watch. The exit code; errors were told. */
int config_get(const struct config_options *options, const char *path);
int config_watch(const struct config_options *options, const char *path, char *const *argv);

#endif
