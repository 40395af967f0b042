/* An error with the sentence that goes with it: what, where, and what to do. Memory may run out;
 * the code stays. */
#ifndef REPLICATION_DISK_ERROR_TEXT_H
#define REPLICATION_DISK_ERROR_TEXT_H

#include <conclave/error.h>

struct problem {
    char *text; /* heap block or NULL */
};

/* Replaces the text; returns code. */
int problem_set(struct problem *p, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a failed file call: "<what> <path>: <text of the errno>"; returns the code of the
 * errno. */
int problem_file(struct problem *p, int negative_errno, const char *what, const char *path);

/* The text, or that of the code when memory was out. */
const char *problem_text(const struct problem *p, int code);

void problem_finish(struct problem *p);

/* Gives the text away; never NULL except when memory is out. Free it. */
char *problem_take(struct problem *p, int code);

/* A path, formatted; NULL when memory is out. Free it. */
char *path_make(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
