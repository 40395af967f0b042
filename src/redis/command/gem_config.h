/*
 * Reads a configuration file of the Ruby gem redis_failover, in YAML, as options of `conclave redis-failover`. Pure.
 *
 * Keys with and without the colon of Ruby's symbols; `-` and `_` are the same. Aliases and merges (`<<`) are followed, not
 * copied. Bounds: GEM_CONFIG_SIZE_MAX bytes, GEM_CONFIG_DEPTH_MAX levels, GEM_CONFIG_OPTIONS options, and a
 * number of brackets.
 */
#ifndef REDIS_COMMAND_GEM_CONFIG_H
#define REDIS_COMMAND_GEM_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

enum {
    GEM_CONFIG_SIZE_MAX = 65536,
    GEM_CONFIG_DEPTH_MAX = 8,
    GEM_CONFIG_OPTIONS = 64,
    GEM_CONFIG_WHY = 256
};

struct gem_config {
    char *options[GEM_CONFIG_OPTIONS]; /* "--name=value" or "--name" */
    size_t count;
    char *password; /* of the Redis servers; NULL: none */
};

/* environment: the key whose values count; NULL: those of the top. known: whether there is an option of this name, for
 * keys that the gem does not have. False: *why says what is wrong and begins with the line, *ret is empty. */
bool gem_config_read(const void *text, size_t len, const char *environment,
                     bool (*known)(const char *name, bool *ret_flag), struct gem_config *ret,
                     char why[GEM_CONFIG_WHY]);

void gem_config_finish(struct gem_config *config);

#endif
