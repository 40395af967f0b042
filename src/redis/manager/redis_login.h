/* Makes a struct redis_access from an operator's settings: the file of the password, certificates. */
#ifndef REDIS_MANAGER_REDIS_LOGIN_H
#define REDIS_MANAGER_REDIS_LOGIN_H

#include "redis/manager/redis_connection.h"

/* Strings are borrowed; NULL: none. */
struct redis_access_settings {
    const char *user;
    const char *password_file; /* its first line */
    const char *password;      /* used if there is no file */
    bool tls;                  /* each of the next three implies it */
    const char *ca_file;       /* NULL: the system's */
    const char *cert_file;
    const char *key_file;
    bool any_name; /* the certificate may be for another name */
};

/* 0, CONCLAVE_EINVAL (a user without a password; unusable files), CONCLAVE_EIO (the file of the password), with one line
 * in why, which contains no secret. Close it with redis_access_close. */
int redis_access_open(const struct redis_access_settings *settings, struct redis_access *ret,
                      char why[TLS_TEXT_MAX]) CONCLAVE_MUST_USE;
/* Wipes the password. */
void redis_access_close(struct redis_access *access);

#endif
