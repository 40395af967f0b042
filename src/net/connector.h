/*
 * An outgoing TCP connection being made: a name is looked up in a thread of libuv's, its addresses
 * are tried one after another. Sets no time limit: the owner cancels.
 */
#ifndef NET_CONNECTOR_H
#define NET_CONNECTOR_H

#include "net/stream.h"

struct connector;

/* The end: a connection, owned by the callee (stream_start, or stream_close), with error 0; or NULL
 * with a libuv code: UV_ECONNREFUSED if all addresses refuse, else what another one says. The
 * connector is gone with this call. */
typedef void (*connector_fn)(void *ctx, struct stream *stream, int error);

/* Begins with the address number `first` of those that the host has, counted round. cb comes from
 * the loop, never from inside this call. 0 or CONCLAVE_ENOMEM. */
int connector_start(uv_loop_t *loop, const struct net_address *to, unsigned first,
                    struct stream_buffer *read_buffer, connector_fn cb, void *ctx,
                    struct connector **ret) CONCLAVE_MUST_USE;

/* Gives it up: cb is not called; c may not be used any more. Takes NULL. */
void connector_cancel(struct connector *c);

#endif
