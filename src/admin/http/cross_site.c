#include "admin/http/cross_site.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* The host of "host:port", without port and brackets. */
static struct slice header_host(const char *text)
{
    const char *end = strchr(text, ']');
    if (text[0] == '[' && end != NULL) {
        return slice_make(text + 1, (size_t)(end - text - 1));
    }
    return slice_make(text, strcspn(text, ":"));
}

static bool is_numeric(struct slice host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (host.len >= sizeof text) {
        return false;
    }
    memcpy(text, host.data, host.len);
    text[host.len] = '\0';
    return inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1;
}

static bool is_host_name(struct slice host, const char *name, size_t len)
{
    return host.len == len && strncasecmp((const char *)host.data, name, len) == 0;
}

/* Whether a list of names, separated by commas, contains this one. */
static bool is_listed(const char *list, struct slice host)
{
    for (const char *at = list; at != NULL && *at != '\0';) {
        at += strspn(at, ", \t");
        size_t len = strcspn(at, ", \t");
        if ((len == 1 && at[0] == '*') || (len > 0 && is_host_name(host, at, len))) {
            return true;
        }
        at += len;
    }
    return false;
}

static bool is_our_host(const struct admin_options *o, const char *text)
{
    struct slice host = header_host(text);
    return is_numeric(host) || is_host_name(host, "localhost", strlen("localhost")) ||
           is_host_name(host, o->listen.host, strlen(o->listen.host)) ||
           is_listed(o->allowed_hosts, host);
}

/* Whether an Origin names the same host and port as Host. */
static bool is_same_origin(const char *origin, const char *host)
{
    const char *at = strstr(origin, "://");
    return at != NULL && host != NULL && strcasecmp(at + strlen("://"), host) == 0;
}

const char *forgery_reason(const struct admin_options *options, const struct http_request *request)
{
    /* A client that sends no Host or an empty one is not a browser. */
    if (request->host != NULL && request->host[0] != '\0' && !is_our_host(options, request->host)) {
        return "The header Host names a host that this port does not know: use its address, or add "
               "the name to admin.allowedHosts";
    }
    if (request->fetch_site != NULL && strcasecmp(request->fetch_site, "cross-site") == 0) {
        return "A page of another site made this request (Sec-Fetch-Site: cross-site): open the "
               "address itself";
    }
    if (request->origin != NULL && !is_same_origin(request->origin, request->host)) {
        return "A page of another site made this request (Origin): open the address itself";
    }
    return NULL;
}
