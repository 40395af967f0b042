/*
 * The client ports: plain, TLS, or both on one port. Sockets on one side, connections on the other. At the end of each
 * turn of the loop, the output of each connection leaves with one system call. No byte of a TLS client reaches its
 * connection before its certificate has been verified.
 */
#ifndef FRONT_CLIENT_PORT_H
#define FRONT_CLIENT_PORT_H

#include "front/client_door.h"
#include "net/listener.h"

struct client_port;
struct connection;
struct service;
struct tls_context;

/* Creates it without doors. NULL: out of memory. */
struct client_port *client_port_create(uv_loop_t *loop, struct service *service);

/* Binds a door. Errors and *ret_detail as listener_open. */
int client_port_listen(struct client_port *p, enum client_door door,
                       const struct net_address *address, int *ret_detail) CONCLAVE_MUST_USE;

/* Sets TLS for new connections: on the secure door, and with `unified` on the other door for clients that begin with a
 * TLS hello. The context is shared. */
void client_port_set_tls(struct client_port *p, struct tls_context *context, bool unified);

/* The service's limit of connections has changed. */
void client_port_limit(struct client_port *p);

/* Begins to accept on all doors. Errors as listener_start. */
int client_port_start(struct client_port *p, int backlog, int *ret_detail) CONCLAVE_MUST_USE;

/* False: there is no such door. */
bool client_port_address(const struct client_port *p, enum client_door door,
                         struct net_address *ret);

/* The end of a turn: sends, resumes, pauses and closes what is due. Frees p when client_port_close is complete. */
void client_port_turn(struct client_port *p);

/* Stops accepting and reading; replies still go out. */
void client_port_stop(struct client_port *p);

/* Ends every connection, after its output (within linger_ms) or at once (0), then frees p and calls cb. NULL does
 * nothing. Keep calling client_port_turn until then. */
void client_port_close(struct client_port *p, unsigned linger_ms, void (*cb)(void *ctx), void *ctx);

/* While it is closing: discards unsent output. */
void client_port_cut(struct client_port *p);

/* Calls fn for each open connection, oldest first, until it returns false. fn must not end a connection. */
void client_port_each(const struct client_port *p, bool (*fn)(void *ctx, struct connection *c),
                      void *ctx);

struct client_port_stats {
    size_t connections;
    uint64_t accepted;
    size_t connections_max; /* allowed by maxCnxns and the limit of open files */
    size_t tls_handshakes;  /* in progress */
    uint64_t refused;       /* by a limit, or no descriptors left */
};
void client_port_stats(const struct client_port *p, struct client_port_stats *ret);

#endif
