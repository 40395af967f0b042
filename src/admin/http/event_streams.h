/*
 * Server-sent events: connections that stay open and get an event when the console's overview changes. An event is the
 * whole overview, so a client that reads slowly misses states in between, nothing else, and no queue can grow.
 *
 * Limits: EVENT_STREAMS_MAX streams, EVENT_STREAMS_PER_ADDRESS of one address (an IPv6 network of 64 bits counts as one);
 * one unsent event of at most EVENT_MAX bytes in memory for each. An event at most every EVENT_PAUSE_MS, except when
 * the leader changes. A client that reads nothing is closed with the port's other idle connections (http_server.h).
 */
#ifndef ADMIN_HTTP_EVENT_STREAMS_H
#define ADMIN_HTTP_EVENT_STREAMS_H

#include "admin/console/console.h"
#include "admin/http/http_exchange.h"

#include <uv.h>

enum {
    EVENT_STREAMS_MAX = 24,
    EVENT_STREAMS_PER_ADDRESS = 8,
    EVENT_MAX = 256 * 1024,
    EVENT_LOOK_MS = 200,   /* between two looks for another leader, while there are streams */
    EVENT_REST_MS = 1000,  /* without streams: between two looks, for the samples */
    EVENT_PAUSE_MS = 1000, /* between two events */
    EVENT_BEAT_MS = 5000,  /* a comment, so that both sides notice a broken connection */
};

struct event_streams;

/* active: looks at the server from now on; otherwise nobody will add a stream. Borrows console. NULL: out of memory. */
struct event_streams *event_streams_create(uv_loop_t *loop, struct console *console, bool active);

/* Makes a stream the answer of the request, or refuses: 503 if there are too many. */
void event_streams_add(struct event_streams *e, const struct http_request *request,
                       struct http_response *response);

/* The number of open streams. */
size_t event_streams_count(const struct event_streams *e);

/* Stops looking. When all exchanges that have a stream are destroyed, frees e and calls cb from the loop. NULL does
 * nothing. */
void event_streams_close(struct event_streams *e, void (*cb)(void *ctx), void *ctx);

#endif
