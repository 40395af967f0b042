/* The environment of this process for a program that it starts. */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

/* The environment with `more` ("NAME=value", NULL-ended; NULL: none) instead of its own values of these names. Free the
 * one block; its strings are borrowed from both. NULL: out of memory. */
char **environment_with(const char *const *more);

/* Removes the credentials in Conclave's own variables (CONCLAVE_AUTH, the passwords) from the environment: programs
 * that are started later do not inherit them, and /proc no longer shows them. Does nothing if CONCLAVE_KEEP_CREDENTIALS
 * is 1. Call it before there are threads. */
void environment_hide_secrets(void);

/* The value of such a variable, hidden or not; NULL: it was not set. */
const char *environment_secret(const char *name);

#endif
