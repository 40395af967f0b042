/*
 * The users who may authenticate by digest, from a file with a line per user, NAME:HASH; the hash is in the format of
 * tls/scrypt.h. Blank lines and lines that begin with # are ignored.
 */
#ifndef FRONT_LOGIN_USER_FILE_H
#define FRONT_LOGIN_USER_FILE_H

#include "base/buf.h"

#include <conclave/error.h>

#include <stdbool.h>

enum { USERS_NAME_MAX = 128 };

struct user {
    char *name;
    char *hash;
    bool proved; /* a client sent the correct password; `proof` recognises it quickly */
    uint8_t proof[32];
};

struct user_file {
    struct user *rows;
    size_t count;
};

/* Parses the text of a file. 0; CONCLAVE_EINVAL with the line, from 1, and a fixed text; or CONCLAVE_ENOMEM. After an
 * error there is nothing to finish. */
int user_file_parse(struct slice text, struct user_file *ret, unsigned *ret_line,
                    const char **ret_why) CONCLAVE_MUST_USE;
void user_file_finish(struct user_file *u);

/* NULL: no such user. */
struct user *user_file_find(const struct user_file *u, struct slice name);

/* Whether a name is valid in the file and in an ACL. */
bool user_file_name_is_good(struct slice name);

#endif
