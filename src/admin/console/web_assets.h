/* The files of web/, which tools/embed-files puts into the program at build time. */
#ifndef ADMIN_CONSOLE_WEB_ASSETS_H
#define ADMIN_CONSOLE_WEB_ASSETS_H

#include "base/slice.h"

struct web_asset {
    const char *name; /* "index.html" */
    const char *type; /* its Content-Type */
    const char *etag; /* with quotes: a digest of the bytes */
    const uint8_t *bytes;
    size_t len;
};

/* Ends with a row whose name is NULL. */
extern const struct web_asset web_assets[];

#endif
