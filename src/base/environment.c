#define _GNU_SOURCE /* environ */
#include "base/environment.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool replaced(const char *variable, const char *const *more, size_t added)
{
    for (size_t i = 0; i < added; i++) {
        if (strncmp(variable, more[i], strcspn(more[i], "=") + 1) == 0) {
            return true;
        }
    }
    return false;
}

char **environment_with(const char *const *more)
{
    size_t count = 0;
    size_t added = 0;
    size_t n = 0;
    while (environ != NULL && environ[count] != NULL) {
        count++;
    }
    while (more != NULL && more[added] != NULL) {
        added++;
    }
    char **all = calloc(count + added + 1, sizeof *all);
    if (all == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < added; i++) {
        all[n++] = (char *)(uintptr_t)more[i];
    }
    for (size_t i = 0; i < count; i++) {
        if (!replaced(environ[i], more, added)) {
            all[n++] = environ[i];
        }
    }
    return all;
}
