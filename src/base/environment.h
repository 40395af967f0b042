/* The environment of this process for a program that it starts. */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

/* The environment with `more` ("NAME=value", NULL-ended; NULL: none) in place of what it has under these
 * names. One block for free; its strings are borrowed from both. NULL without memory. */
char **environment_with(const char *const *more);

#endif
