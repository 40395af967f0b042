/*
 * The users who may authenticate by digest, from a file: a line per user, NAME:HASH, the hash as
 * tls/scrypt.h writes it. Blank lines and lines that begin with # do not count.
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
    bool proved; /* somebody had the right password; `proof` tells it from others cheaply */
    uint8_t proof[32];
};

struct users {
    struct user *rows;
    size_t count;
};

/* Reads the text of a file. 0; CONCLAVE_EINVAL with the line, from 1, and a fixed text; or
 * CONCLAVE_ENOMEM. After an error there is nothing to finish. */
int users_parse(struct slice text, struct users *ret, unsigned *ret_line,
                const char **ret_why) CONCLAVE_MUST_USE;
void users_finish(struct users *u);

/* NULL when there is no such user. */
struct user *users_find(const struct users *u, struct slice name);

/* Whether a name is valid in the file and in an ACL. */
bool users_name_is_good(struct slice name);

#endif
