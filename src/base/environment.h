/* The environment of this process for a program that it starts. */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

/* The environment with `more` ("NAME=value", NULL-ended; NULL: none) in place of what it has under these
 * names. One block for free; its strings are borrowed from both. NULL without memory. */
char **environment_with(const char *const *more);

/* Takes the credentials in Conclave's own variables (CONCLAVE_AUTH, the passwords) out of the environment: no program that
 * is started afterwards inherits them, and /proc no longer shows them. Does nothing when CONCLAVE_KEEP_CREDENTIALS is 1.
 * Call it before there are threads. */
void environment_hide_secrets(void);

/* The value of such a variable, hidden or not; NULL when it was not set. */
const char *environment_secret(const char *name);

#endif
