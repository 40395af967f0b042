#include "recipes/cache/path_patterns.h"

#include <string.h>

bool path_pattern_valid(const char *pattern)
{
    size_t len = pattern == NULL ? 0 : strlen(pattern);
    return len > 0 && pattern[0] != '/' && pattern[len - 1] != '/' && strstr(pattern, "//") == NULL;
}

/* Whether one name matches one part of a pattern; in both, neither slash nor NUL belongs to it. */
static bool name_matches(const char *pattern, size_t pattern_len, const char *name, size_t len)
{
    size_t p = 0;
    size_t n = 0;
    size_t star = pattern_len; /* the last "*" and the byte that it was tried up to */
    size_t retry = 0;
    while (n < len) {
        if (p < pattern_len && pattern[p] == '*') {
            star = p++;
            retry = n;
        } else if (p < pattern_len && (pattern[p] == '?' || pattern[p] == name[n])) {
            p++;
            n++;
        } else if (star < pattern_len) {
            p = star + 1;
            n = ++retry;
        } else {
            return false;
        }
    }
    while (p < pattern_len && pattern[p] == '*') {
        p++;
    }
    return p == pattern_len;
}

enum matching {
    MATCH_NONE,
    MATCH_ABOVE, /* the path's names match; the pattern has more */
    MATCH_FULL,  /* the pattern's names match; the path may have more */
};

static enum matching match(const char *pattern, const char *path)
{
    for (;;) {
        size_t pattern_len = strcspn(pattern, "/");
        size_t len = strcspn(path, "/");
        if (!name_matches(pattern, pattern_len, path, len)) {
            return MATCH_NONE;
        }
        pattern += pattern_len;
        path += len;
        if (*pattern == '\0') {
            return MATCH_FULL;
        }
        if (*path == '\0') {
            return MATCH_ABOVE;
        }
        pattern++;
        path++;
    }
}

bool path_patterns_take(const struct path_patterns *patterns, const char *path)
{
    bool taken = patterns->only_count == 0;
    if (path[0] == '\0') {
        return true;
    }
    for (size_t i = 0; i < patterns->without_count; i++) {
        if (match(patterns->without[i], path) == MATCH_FULL) {
            return false;
        }
    }
    for (size_t i = 0; i < patterns->only_count && !taken; i++) {
        taken = match(patterns->only[i], path) != MATCH_NONE;
    }
    return taken;
}

bool path_depth_within(const char *path, int depth)
{
    int names = path[0] == '\0' ? 0 : 1;
    for (; *path != '\0' && names <= depth; path++) {
        names += *path == '/' ? 1 : 0;
    }
    return names <= depth;
}
