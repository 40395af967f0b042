#include "front/traces/trace_options.h"

#include <stdio.h>
#include <string.h>

enum { OTLP_PORT = 4318 };

/* A path goes into the first line of a request, so it must not end that line or a word of it. */
static bool path_is_usable(const char *path)
{
    for (const char *p = path; *p != '\0'; p++) {
        if (*p <= ' ' || *p > '~') {
            return false;
        }
    }
    return strlen(path) < TRACE_PATH_MAX;
}

int trace_options_set(struct trace_options *o, const char *url, const char **ret_why)
{
    static const char SCHEME[] = "http://";
    if (url[0] == '\0') {
        o->on = false;
        return 0;
    }
    if (strncmp(url, SCHEME, sizeof SCHEME - 1) != 0) {
        *ret_why =
            "it does not begin with http://; run a collector on this machine, which may use TLS "
            "from there";
        return CONCLAVE_EINVAL;
    }
    const char *authority = url + sizeof SCHEME - 1;
    size_t len = strcspn(authority, "/");
    const char *path = authority[len] != '\0' ? authority + len : "/v1/traces";
    char text[NET_TEXT_MAX];
    if (len == 0 || (size_t)snprintf(text, sizeof text, "%.*s", (int)len, authority) != len) {
        *ret_why = "the host is missing or too long";
        return CONCLAVE_EINVAL;
    }
    const char *colon = strrchr(text, ':');
    bool port = colon != NULL && strchr(colon, ']') == NULL;
    if (!port && len + 6 < sizeof text) {
        (void)snprintf(text + len, sizeof text - len, ":%d", OTLP_PORT);
    }
    if (net_address_parse(text, &o->to) != 0 || o->to.host[0] == '\0' || o->to.port == 0) {
        *ret_why = "it is not http://HOST:PORT/PATH";
        return CONCLAVE_EINVAL;
    }
    if (!path_is_usable(path)) {
        *ret_why = "the path has bytes other than printable ASCII, or too many";
        return CONCLAVE_EINVAL;
    }
    (void)snprintf(o->path, sizeof o->path, "%s", path);
    o->on = true;
    return 0;
}
