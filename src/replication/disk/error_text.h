/* An error code with its text: what happened, where, and what to do. If memory runs out, the code stays. */
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

/* The text, or that of the code if memory was out. */
const char *error_text_of(const struct error_text *p, int code);

void error_text_finish(struct error_text *p);

/* Gives the text to the caller, who frees it. NULL only if memory is out. */
char *error_text_take(struct error_text *p, int code);

/* A formatted path; NULL: out of memory. Free it. */
char *path_make(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
