#include "front/login/user_file.h"

#include "tls/scrypt.h"

#include <stdlib.h>

void user_file_finish(struct user_file *u)
{
    for (size_t i = 0; i < u->count; i++) {
        free(u->rows[i].name);
        free(u->rows[i].hash);
    }
    free(u->rows);
    *u = (struct user_file){0};
}

struct user *user_file_find(const struct user_file *u, struct slice name)
{
    for (size_t i = 0; i < u->count; i++) {
        if (slice_equal_str(name, u->rows[i].name)) {
            return &u->rows[i];
        }
    }
    return NULL;
}

bool user_file_name_is_good(struct slice name)
{
    bool good = name.len > 0 && name.len <= USERS_NAME_MAX && name.data[0] != '#';
    for (size_t i = 0; good && i < name.len; i++) {
        good = name.data[i] > ' ' && name.data[i] != ':' && name.data[i] != 0x7f;
    }
    return good;
}

static int users_add(struct user_file *u, struct slice name, const char *hash)
{
    struct user *rows = realloc(u->rows, (u->count + 1) * sizeof *rows);
    if (rows == NULL) {
        return CONCLAVE_ENOMEM;
    }
    u->rows = rows;
    rows[u->count] =
        (struct user){.name = strndup((const char *)name.data, name.len), .hash = strdup(hash)};
    u->count++;
    return rows[u->count - 1].name != NULL && rows[u->count - 1].hash != NULL ? 0 : CONCLAVE_ENOMEM;
}

static int users_take_line(struct user_file *u, struct slice line, const char **ret_why)
{
    char hash[SCRYPT_TEXT_MAX];
    while (line.len > 0 && (line.data[line.len - 1] == '\r' || line.data[line.len - 1] == ' ')) {
        line.len--;
    }
    if (line.len == 0 || line.data[0] == '#') {
        return 0;
    }
    const uint8_t *colon = memchr(line.data, ':', line.len);
    struct slice name = slice_make(line.data, colon != NULL ? (size_t)(colon - line.data) : 0);
    size_t len = line.len - name.len - 1;
    if (colon == NULL || !user_file_name_is_good(name) || len >= sizeof hash ||
        memchr(colon + 1, '\0', len) != NULL) {
        *ret_why = "expected NAME:HASH: make the line with conclave users add";
        return CONCLAVE_EINVAL;
    }
    memcpy(hash, colon + 1, len);
    hash[len] = '\0';
    if (!scrypt_is_hash(hash)) {
        *ret_why = "the hash is not a scrypt hash: make the line with conclave users add";
        return CONCLAVE_EINVAL;
    }
    if (user_file_find(u, name) != NULL) {
        *ret_why = "the user has two lines: remove one of them";
        return CONCLAVE_EINVAL;
    }
    return users_add(u, name, hash);
}

int user_file_parse(struct slice text, struct user_file *ret, unsigned *ret_line,
                    const char **ret_why)
{
    struct user_file u = {0};
    size_t at = 0;
    int rc = 0;
    *ret_line = 0;
    *ret_why = "";
    while (rc == 0 && at < text.len) {
        const uint8_t *start = text.data + at;
        const uint8_t *end = memchr(start, '\n', text.len - at);
        size_t len = end != NULL ? (size_t)(end - start) : text.len - at;
        at += len + 1;
        ++*ret_line;
        rc = users_take_line(&u, slice_make(start, len), ret_why);
    }
    if (rc != 0) {
        user_file_finish(&u);
        return rc;
    }
    *ret = u;
    return 0;
}
