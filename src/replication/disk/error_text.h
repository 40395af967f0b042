/* An error with the sentence that goes with it: what, where, and what to do. Memory may run out;
 * the code stays. */
#ifndef REPLICATION_DISK_ERROR_TEXT_H
#define REPLICATION_DISK_ERROR_TEXT_H

#include <conclave/error.h>

struct error_text {
    char *text; /* heap block or NULL */
};

/* Replaces the text; returns code. */
int error_text_set(struct error_text *p, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a failed file call: "<what> <path>: <text of the errno>"; returns the code of the
 * errno. */
int error_text_file(struct error_text *p, int negative_errno, const char *what, const char *path);

/* The text, or that of the code when memory was out. */
const char *error_text_of(const struct error_text *p, int code);

void error_text_finish(struct error_text *p);

/* Gives the text away; never NULL except when memory is out. Free it. */
char *error_text_take(struct error_text *p, int code);

/* A path, formatted; NULL when memory is out. Free it. */
char *path_make(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
