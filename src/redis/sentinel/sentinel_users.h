/*
 * The users of Sentinel's protocol: a file of lines "NAME PASSWORD". Comparing takes the same time for all passwords of
 * one length.
 *
 * Limits: SENTINEL_USERS_MAX users, names of SENTINEL_USER_MAX bytes, passwords of SENTINEL_PASSWORD_MAX bytes. What a
 * client sends beyond them is refused without a comparison.
 */
#ifndef REDIS_SENTINEL_SENTINEL_USERS_H
#define REDIS_SENTINEL_SENTINEL_USERS_H

#include "base/slice.h"

#include <conclave/error.h>

enum {
    SENTINEL_USERS_MAX = 64,
    SENTINEL_USER_MAX = 128,
    SENTINEL_PASSWORD_MAX = 512,
    SENTINEL_WHY_MAX = 512,
};

struct sentinel_users;

/* Reads a file: empty lines and lines that begin with "#" do not count. 0; CONCLAVE_EIO, CONCLAVE_EINVAL with one line in why,
 * which contains no secret; CONCLAVE_ENOMEM. */
int sentinel_users_open(const char *file, struct sentinel_users **ret,
                        char why[SENTINEL_WHY_MAX]) CONCLAVE_MUST_USE;
/* Wipes the passwords. NULL is allowed. */
void sentinel_users_close(struct sentinel_users *users);

bool sentinel_users_permit(const struct sentinel_users *users, struct slice name,
                           struct slice password);

#endif
