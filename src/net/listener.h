/*
 * A listening TCP socket. Binding and accepting are two steps, so that a port in use is known before the slow part of a
 * start, and no client gets in before its end. If file descriptors run out, the newest connection is dropped, never the
 * listener (libuv keeps a descriptor in reserve for that).
 */
#ifndef NET_LISTENER_H
#define NET_LISTENER_H

#include "net/stream.h"

struct listener;

struct listener_callbacks {
    /* A new connection. The callback owns the stream: stream_start, or stream_close. */
    void (*accepted)(void *ctx, struct stream *stream);

    /* A connection could not be accepted: a libuv error code. */
    void (*refused)(void *ctx, int error);

    void *ctx;
};

/*
 * Binds host:port; port 0: a free one; host "": every interface, IPv6 and IPv4 (only IPv4 where there is no IPv6). 0,
 * CONCLAVE_ERESOLVE, or CONCLAVE_EBUSY (port in use), CONCLAVE_EIO, CONCLAVE_ENOMEM with the libuv code in *ret_detail.
 */
int listener_open(uv_loop_t *loop, const struct net_address *address, struct listener **ret,
                  int *ret_detail) CONCLAVE_MUST_USE;

/* Begins to accept. Errors as listener_open. */
int listener_start(struct listener *l, int backlog, const struct listener_callbacks *callbacks,
                   int *ret_detail) CONCLAVE_MUST_USE;

/* The bound address, numeric. */
void listener_address(const struct listener *l, struct net_address *ret);

/* Stops accepting; frees l when the loop has closed it, then calls cb (may be NULL). NULL does nothing. */
void listener_close(struct listener *l, void (*cb)(void *ctx), void *ctx);

#endif
