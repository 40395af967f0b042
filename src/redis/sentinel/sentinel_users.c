#include "redis/sentinel/sentinel_users.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 1024 };

struct sentinel_users {
    size_t count;
    struct sentinel_user {
        char line[LINE_MAX_BYTES]; /* name, NUL, password, NUL */
        const char *password;      /* in it */
    } list[SENTINEL_USERS_MAX];
};

/* NULL, or why the line cannot be used. */
static const char *user_add(struct sentinel_users *users, const char *line)
{
    size_t len = strcspn(line, "\r\n");
    size_t name = strcspn(line, " \t\r\n");
    size_t gap = name + strspn(line + name, " \t");
    if (len == 0 || line[0] == '#') {
        return NULL;
    }
    if ((line[len] == '\0' && len == LINE_MAX_BYTES - 1) || name > SENTINEL_USER_MAX ||
        (gap < len && len - gap > SENTINEL_PASSWORD_MAX)) {
        return "is too long";
    }
    if (name == 0 || gap == name || gap >= len) {
        return "is not \"NAME PASSWORD\"";
    }
    if (users->count == SENTINEL_USERS_MAX) {
        return "is one user too many";
    }
    struct sentinel_user *user = &users->list[users->count++];
    memcpy(user->line, line, len);
    user->line[name] = '\0';
    user->line[len] = '\0';
    user->password = user->line + gap;
    return NULL;
}

int sentinel_users_open(const char *file, struct sentinel_users **ret, char why[SENTINEL_WHY_MAX])
{
    char line[LINE_MAX_BYTES];
    struct sentinel_users *users = calloc(1, sizeof *users);
    FILE *f = fopen(file, "re");
    const char *bad = NULL;
    unsigned number = 0;
    int rc = 0;
    if (users == NULL) {
        snprintf(why, SENTINEL_WHY_MAX, "out of memory");
        rc = CONCLAVE_ENOMEM;
    }
    while (rc == 0 && f != NULL && bad == NULL && fgets(line, sizeof line, f) != NULL) {
        number++;
        bad = user_add(users, line);
    }
    if (rc == 0 && (f == NULL || ferror(f) != 0)) {
        snprintf(why, SENTINEL_WHY_MAX, "cannot read the users in %.300s: %s", file,
                 strerror(errno));
        rc = CONCLAVE_EIO;
    } else if (rc == 0 && (bad != NULL || users->count == 0)) {
        snprintf(why, SENTINEL_WHY_MAX, "%.300s: line %u %s", file, number,
                 bad != NULL ? bad : "is the last, and there is no user");
        rc = CONCLAVE_EINVAL;
    }
    explicit_bzero(line, sizeof line);
    if (f != NULL) {
        fclose(f);
    }
    if (rc != 0) {
        sentinel_users_close(users);
        return rc;
    }
    *ret = users;
    return 0;
}

void sentinel_users_close(struct sentinel_users *users)
{
    if (users != NULL) {
        explicit_bzero(users, sizeof *users);
        free(users);
    }
}

/* The time depends only on the length of what the client sent. */
static bool same(const char *secret, struct slice given)
{
    size_t len = strlen(secret);
    unsigned differs = len != given.len;
    for (size_t i = 0; i < given.len; i++) {
        differs |= (unsigned)(given.data[i] ^ (uint8_t)secret[i < len ? i : 0]);
    }
    return differs == 0;
}

bool sentinel_users_permit(const struct sentinel_users *users, struct slice name,
                           struct slice password)
{
    bool permitted = false;
    if (name.len > SENTINEL_USER_MAX || password.len > SENTINEL_PASSWORD_MAX) {
        return false;
    }
    for (size_t i = 0; i < users->count; i++) {
        const struct sentinel_user *user = &users->list[i];
        permitted |= same(user->password, password) & same(user->line, name);
    }
    return permitted;
}
