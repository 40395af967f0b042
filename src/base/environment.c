#define _GNU_SOURCE /* environ, explicit_bzero */
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

static struct secret {
    const char *name;
    char *value; /* hidden; NULL: not set, or still in the environment */
} secrets[] = {
    {"CONCLAVE_AUTH", NULL},
    {"CONCLAVE_TLS_PASSWORD", NULL},
    {"CONCLAVE_SASL_PASSWORD", NULL},
    {"CONCLAVE_REDIS_PASSWORD", NULL},
};

enum { SECRETS = sizeof secrets / sizeof secrets[0] };

void environment_hide_secrets(void)
{
    const char *keep = getenv("CONCLAVE_KEEP_CREDENTIALS");
    if (keep != NULL && strcmp(keep, "1") == 0) {
        return;
    }
    for (size_t i = 0; i < SECRETS; i++) {
        char *value = getenv(secrets[i].name);
        secrets[i].value = value != NULL ? strdup(value) : NULL;
        if (secrets[i].value != NULL) {
            explicit_bzero(value, strlen(value));
            (void)unsetenv(secrets[i].name);
        }
    }
}

const char *environment_secret(const char *name)
{
    for (size_t i = 0; i < SECRETS; i++) {
        if (strcmp(secrets[i].name, name) == 0 && secrets[i].value != NULL) {
            return secrets[i].value;
        }
    }
    return getenv(name);
}
