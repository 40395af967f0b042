/* Patterns that select paths below a cache's node: "*" for any bytes of a name, "?" for one. Pure; any thread. */
#ifndef RECIPES_CACHE_PATH_PATTERNS_H
#define RECIPES_CACHE_PATH_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>

struct path_patterns {
    char **only; /* one block */
    size_t only_count;
    char **without; /* one block */
    size_t without_count;
};

/* Not empty, no slash at an end, no empty name. */
bool path_pattern_valid(const char *pattern);

/* Whether a cache is to have the node at this path, written without a first slash. "" always. */
bool path_patterns_take(const struct path_patterns *patterns, const char *path);

/* Whether a path without a first slash has at most so many names. */
bool path_depth_within(const char *path, int depth);

#endif
