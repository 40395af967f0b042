/*
 * Makes an outgoing TCP connection: a thread of libuv looks the name up, then its addresses are tried one after the
 * other. There is no time limit: the owner cancels.
 */
#ifndef NET_CONNECTOR_H
#define NET_CONNECTOR_H

#include "net/stream.h"

struct connector;

/* The end: a connection with error 0, which the callback owns (stream_start, or stream_close); or NULL with a libuv
 * code: UV_ECONNREFUSED if all addresses refuse, otherwise another one's error. The connector is freed after this
 * call. */
typedef void (*connector_fn)(void *ctx, struct stream *stream, int error);

/* Begins with the host's address number `first`, modulo their number. cb comes from the loop, never from inside this
 * call. 0 or CONCLAVE_ENOMEM. */
int connector_start(uv_loop_t *loop, const struct net_address *to, unsigned first,
                    struct stream_buffer *read_buffer, connector_fn cb, void *ctx,
                    struct connector **ret) CONCLAVE_MUST_USE;

/* Cancels it: cb is not called, and c must not be used any more. NULL does nothing. */
void connector_cancel(struct connector *c);

#endif
