/*
 * An HTTP port on libmicrohttpd, run by our loop: its epoll descriptor is watched there, so that every answer is made on
 * the loop's thread, from the server's own state.
 *
 * Limits: HTTP_CONNECTIONS_MAX connections, more wait in the kernel; 16 KiB of request; a connection that has not
 * completed a request for HTTP_REQUEST_MS is cut, however slowly it goes on; one that says nothing is closed after idle_ms.
 * A request's body is not read.
 */
#ifndef ADMIN_HTTP_H
#define ADMIN_HTTP_H

#include "base/buf.h"
#include "net/address.h"

#include <uv.h>

enum {
    HTTP_CONNECTIONS_MAX = 24, /* of one port */
    HTTP_REQUEST_MS = 20000,
};

struct http;
struct MHD_Connection;

struct http_request {
    const char *method; /* "GET" */
    const char *path;   /* decoded, without query */
    struct MHD_Connection *connection;
};

struct http_response {
    unsigned status;          /* 200 */
    const char *content_type; /* fixed text */
    const char *allow;        /* fixed text of the Allow header, or NULL */
    struct buf body;
};

typedef void (*http_fn)(void *ctx, const struct http_request *request,
                        struct http_response *response);

/* The value of an argument of the query, or NULL. */
const char *http_argument(const struct http_request *request, const char *name);

/*
 * Binds and begins to answer by fn. 0, or CONCLAVE_ERESOLVE, CONCLAVE_EBUSY (port in use), CONCLAVE_EDISCONNECTED (cannot
 * listen), CONCLAVE_ENOMEM with the reason in *ret_reason (fixed text). After an error nothing is left to close.
 */
int http_open(uv_loop_t *loop, const struct net_address *address, int32_t idle_ms, http_fn fn,
              void *ctx, struct http **ret, const char **ret_reason) CONCLAVE_MUST_USE;

/* The address it is bound to, numeric. */
void http_address(const struct http *h, struct net_address *ret);

/* Ends all connections, frees h and calls cb from the loop. Takes NULL without a call. */
void http_close(struct http *h, void (*cb)(void *ctx), void *ctx);

#endif
