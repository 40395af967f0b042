/*
 * An HTTP port on the server's loop: every answer is made on the loop's thread, from the server's own state. Streams of
 * the net room carry the bytes, with TLS as on the client ports: the same certificates, versions and reloads. One port
 * can take plain HTTP as well; the first byte decides. http_exchange.h reads the requests and writes the answers.
 *
 * Limits: SLOTS_MAX connections; a newer connection takes the slot of the least useful one (connection_slots.h). A new
 * connection has HTTP_HEAD_MS for its TLS handshake and again HTTP_HEAD_MS for the head of its first request. A
 * connection that completes no request for HTTP_REQUEST_MS is closed, even if bytes still come; so is a connection on
 * which no byte moves for idle_ms. In one turn of the loop each connection gets one answer and at most HTTP_PIECES
 * pieces of it.
 */
#ifndef ADMIN_HTTP_HTTP_SERVER_H
#define ADMIN_HTTP_HTTP_SERVER_H

#include "admin/http/http_exchange.h"
#include "net/address.h"
#include "tls/context.h"

#include <uv.h>

enum {
    HTTP_HEAD_MS = 5000,
    HTTP_REQUEST_MS = 20000,
    HTTP_PIECES = 4,
};

struct http;

struct http_options {
    struct net_address listen; /* host "" is every interface */
    int32_t idle_ms;
    struct tls_context *tls; /* NULL: plain HTTP only; shared */
    bool plain_too;          /* with tls */
    http_fn fn;              /* answers all requests */
    void *ctx;
};

/*
 * Binds and begins to answer. 0, or CONCLAVE_ERESOLVE, CONCLAVE_EBUSY (port in use), CONCLAVE_EDISCONNECTED (cannot
 * listen), CONCLAVE_ENOMEM with the reason in *ret_reason (fixed text). After an error nothing is left to close.
 */
int http_open(uv_loop_t *loop, const struct http_options *options, struct http **ret,
              const char **ret_reason) CONCLAVE_MUST_USE;

/* Sets the TLS context for new connections; shared. Only for a port that was opened with TLS. */
void http_set_tls(struct http *h, struct tls_context *context);

/* The bound address, numeric. */
void http_address(const struct http *h, struct net_address *ret);

/* Ends all connections (none may wait for http_answer), frees h and calls cb from the loop. NULL does nothing. */
void http_close(struct http *h, void (*cb)(void *ctx), void *ctx);

#endif
