/* Error texts and paths. If memory runs out, the text is lost, but never the code. */
#include "replication/disk/error_text.h"

#include "replication/disk/file_ops.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 1, 0))) static char *format_text(const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    char *text = len < 0 ? NULL : malloc((size_t)len + 1);
    if (text != NULL) {
        vsnprintf(text, (size_t)len + 1, fmt, again);
    }
    va_end(again);
    return text;
}

int error_text_set(struct error_text *p, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = format_text(fmt, args);
    va_end(args);
    free(p->text);
    p->text = text;
    return code;
}

int error_text_file(struct error_text *p, int negative_errno, const char *what, const char *path)
{
    char reason[128];
    if (strerror_r(-negative_errno, reason, sizeof reason) != 0) {
        snprintf(reason, sizeof reason, "error %d", -negative_errno);
    }
    return error_text_set(p, file_error(negative_errno), "%s %s: %s", what,
                          path != NULL ? path : "a file", reason);
}

const char *error_text_of(const struct error_text *p, int code)
{
    return p->text != NULL ? p->text : conclave_strerror(code);
}

void error_text_finish(struct error_text *p)
{
    free(p->text);
    p->text = NULL;
}

char *error_text_take(struct error_text *p, int code)
{
    char *text = p->text != NULL ? p->text : strdup(conclave_strerror(code));
    p->text = NULL;
    return text;
}

char *path_make(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = format_text(fmt, args);
    va_end(args);
    return text;
}
