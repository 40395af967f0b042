/*
 * The client port: sockets on one side, connections on the other. At the end of each turn of the
 * loop the output of every connection that has some goes out in one system call.
 */
#ifndef SERVER_PORT_H
#define SERVER_PORT_H

#include "net/listener.h"
#include "server/service.h"

struct port;

/* Binds. Errors and *ret_detail as listener_open. */
int port_open(uv_loop_t *loop, struct service *service, const struct net_address *address,
              struct port **ret, int *ret_detail) CONCLAVE_MUST_USE;

/* Begins to accept. Errors as listener_start. */
int port_start(struct port *p, int backlog, int *ret_detail) CONCLAVE_MUST_USE;

void port_address(const struct port *p, struct net_address *ret);

/* The end of a turn: sends, resumes, pauses and closes what is due; frees p when port_close has
 * come to its end. */
void port_turn(struct port *p);

/* Accepts nobody and reads nothing any more; replies still go out. */
void port_stop(struct port *p);

/* Ends every connection, after its output (within linger_ms) or at once (0), then frees p and calls
 * cb. Takes NULL without a call. port_turn must go on being called until then. */
void port_close(struct port *p, unsigned linger_ms, void (*cb)(void *ctx), void *ctx);

/* Calls fn for each living connection, oldest first, until it returns false. fn must not end any. */
void port_each(const struct port *p, bool (*fn)(void *ctx, struct connection *c), void *ctx);

struct port_stats {
    size_t connections;
    uint64_t accepted;
    uint64_t refused; /* over a limit, or out of descriptors */
};
void port_stats(const struct port *p, struct port_stats *ret);

#endif
