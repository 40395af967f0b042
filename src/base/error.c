/* Texts of the error list; the list itself is the table in the header. */
#include <conclave/error.h>

#include <stddef.h>

struct error_row {
    int code;
    bool retry;
    const char *name;
    const char *text;
};

static const struct error_row error_rows[] = {
#define ERROR_ROW(name, code, retry, text) {code, retry, #name, text},
    CONCLAVE_ERROR_MAP(ERROR_ROW)
#undef ERROR_ROW
};

static const struct error_row *error_find(int code)
{
    for (size_t i = 0; i < sizeof error_rows / sizeof error_rows[0]; i++) {
        if (error_rows[i].code == code) {
            return &error_rows[i];
        }
    }
    return NULL;
}

const char *conclave_strerror(int code)
{
    const struct error_row *row = error_find(code);
    return row != NULL ? row->text : "unknown error";
}

const char *conclave_errname(int code)
{
    const struct error_row *row = error_find(code);
    return row != NULL ? row->name : "UNKNOWN";
}

int conclave_version(void)
{
    return CONCLAVE_VERSION;
}

bool conclave_error_retryable(int code)
{
    const struct error_row *row = error_find(code);
    return row != NULL && row->retry;
}
