/*
 * A listening TCP socket. Binding and accepting are two steps, so that a port in use is known
 * before the slow part of a start, and nobody is let in before its end. Running out of file
 * descriptors drops the newest connection, never the listener (libuv keeps a descriptor in reserve
 * for it).
 */
#ifndef NET_LISTENER_H
#define NET_LISTENER_H

#include "net/stream.h"

struct listener;

struct listener_callbacks {
    /* A new connection. The callee owns the stream: stream_start, or stream_close. */
    void (*accepted)(void *ctx, struct stream *stream);

    /* A connection could not be accepted: a libuv error code. */
    void (*refused)(void *ctx, int error);

    void *ctx;
};

/*
 * Binds host:port; port 0 takes a free one; host "" is every interface, IPv6 and IPv4 (IPv4 alone
 * where there is no IPv6). 0, CONCLAVE_ERESOLVE, or CONCLAVE_EBUSY (port in use), CONCLAVE_EIO,
 * CONCLAVE_ENOMEM with the libuv code in *ret_detail.
 */
int listener_open(uv_loop_t *loop, const struct net_address *address, struct listener **ret,
                  int *ret_detail) CONCLAVE_MUST_USE;

/* Begins to accept. Errors as listener_open. */
int listener_start(struct listener *l, int backlog, const struct listener_callbacks *callbacks,
                   int *ret_detail) CONCLAVE_MUST_USE;

/* The address it is bound to, numeric. */
void listener_address(const struct listener *l, struct net_address *ret);

/* Stops accepting; frees l when the loop has closed it, then calls cb (may be NULL). Takes NULL
 * without a call. */
void listener_close(struct listener *l, void (*cb)(void *ctx), void *ctx);

#endif
