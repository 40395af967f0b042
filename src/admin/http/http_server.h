/*
 * An HTTP port on libmicrohttpd, run by our loop: its epoll descriptor is watched there, so that every answer is made on
 * the loop's thread, from the server's own state.
 *
 * Limits: PLACES_MAX connections, of which the least useful ones go for newer ones (connection_slots.h); 16 KiB of request; a new
 * connection has HTTP_HEAD_MS to complete the head of a request; one that has not completed a request for HTTP_REQUEST_MS is
 * cut, however slowly it goes on; one that says nothing is closed after idle_ms.
 * A request's body is read only when the answerer says so, up to what it says, and one at a time on a port.
 */
#ifndef ADMIN_HTTP_HTTP_SERVER_H
#define ADMIN_HTTP_HTTP_SERVER_H

#include "base/buf.h"
#include "net/address.h"

#include <uv.h>

enum {
    HTTP_HEAD_MS = 5000,
    HTTP_REQUEST_MS = 20000,
};

struct http;
struct http_exchange; /* one request and its answer */

struct http_request {
    const char *method;        /* "GET" */
    const char *path;          /* decoded, without query */
    const char *authorization; /* the header of that name, or NULL */
    const char *host;          /* likewise Host, */
    const char *origin;        /* Origin */
    const char *fetch_site;    /* and Sec-Fetch-Site */
    const char *peer;          /* numeric address of the client */
    struct slice subject;      /* of the client's verified certificate; empty: there is none */
    struct slice body;         /* null: not read, see body_max */
    struct http_exchange *exchange;
};

enum { HTTP_HEADERS_MAX = 2 };

struct http_response {
    unsigned status;          /* 200 */
    const char *content_type; /* fixed text */
    const char *allow;        /* fixed text of the Allow header, or NULL */
    struct buf body;
    int file; /* descriptor of what is sent instead of the body, taken over; -1: none */
    uint64_t file_len;
    struct {
        const char *name; /* fixed text */
        char value[32];
    } headers[HTTP_HEADERS_MAX];
    size_t header_count;
    size_t
        body_max; /* other than 0 while the request has no body: read one of at most so many bytes, then ask again */
    bool later; /* http_answer follows */
};

/* 200, text, no body. */
void http_response_init(struct http_response *r);
void http_response_finish(struct http_response *r);

typedef void (*http_fn)(void *ctx, const struct http_request *request,
                        struct http_response *response);

/* The answer of a request that was left for later. Takes over what is in response. Must come before http_close. */
void http_answer(struct http_exchange *x, struct http_response *response_take);

/* The value of an argument of the query, or NULL. */
const char *http_argument(const struct http_request *request, const char *name);

/*
 * Binds and begins to answer by fn; with address NULL it answers only what http_adopt gives it. 0, or CONCLAVE_ERESOLVE, CONCLAVE_EBUSY (port in use), CONCLAVE_EDISCONNECTED (cannot
 * listen), CONCLAVE_ENOMEM with the reason in *ret_reason (fixed text). After an error nothing is left to close.
 */
int http_open(uv_loop_t *loop, const struct net_address *address, int32_t idle_ms, http_fn fn,
              void *ctx, struct http **ret, const char **ret_reason) CONCLAVE_MUST_USE;

/* Takes over a socket that a client is at the other end of, whose address and certificate these are. 0, or
 * CONCLAVE_ENOMEM: the socket is closed. */
int http_adopt(struct http *h, int fd_take, const struct net_address *peer,
               struct slice subject) CONCLAVE_MUST_USE;

/* The address it is bound to, numeric. */
void http_address(const struct http *h, struct net_address *ret);

/* Ends all connections (none may wait for http_answer), frees h and calls cb from the loop. Takes NULL without a call. */
void http_close(struct http *h, void (*cb)(void *ctx), void *ctx);

#endif
