/*
 * The client ports, plain, TLS or both on one: sockets on one side, connections on the other. At the
 * end of each turn of the loop the output of every connection that has some goes out in one system
 * call. No byte of a TLS client reaches its connection before its certificate has been verified.
 */
#ifndef FRONT_CLIENT_PORT_H
#define FRONT_CLIENT_PORT_H

#include "front/service.h"
#include "net/listener.h"

struct client_port;

/* The doors that clients come in by. */
enum client_door {
    PORT_CLIENT, /* plain, or for both kinds */
    PORT_SECURE, /* TLS only */
    PORT_DOORS,
};

/* Without doors yet. NULL when memory is out. */
struct client_port *client_port_create(uv_loop_t *loop, struct service *service);

/* Binds a door. Errors and *ret_detail as listener_open. */
int client_port_listen(struct client_port *p, enum client_door door,
                       const struct net_address *address, int *ret_detail) CONCLAVE_MUST_USE;

/* TLS for connections accepted from now on, on the secure door and, with `unified`, on the other
 * one for those who begin with a TLS hello. The context is shared. */
void client_port_set_tls(struct client_port *p, struct tls_context *context, bool unified);

/* Begins to accept at all doors. Errors as listener_start. */
int client_port_start(struct client_port *p, int backlog, int *ret_detail) CONCLAVE_MUST_USE;

/* False when there is no such door. */
bool client_port_address(const struct client_port *p, enum client_door door,
                         struct net_address *ret);

/* The end of a turn: sends, resumes, pauses and closes what is due; frees p when client_port_close has
 * come to its end. */
void client_port_turn(struct client_port *p);

/* Accepts nobody and reads nothing any more; replies still go out. */
void client_port_stop(struct client_port *p);

/* Ends every connection, after its output (within linger_ms) or at once (0), then frees p and calls
 * cb. Takes NULL without a call. client_port_turn must go on being called until then. */
void client_port_close(struct client_port *p, unsigned linger_ms, void (*cb)(void *ctx), void *ctx);

/* While it is closing: gives up what was not sent yet. */
void client_port_cut(struct client_port *p);

/* Calls fn for each living connection, oldest first, until it returns false. fn must not end any. */
void client_port_each(const struct client_port *p, bool (*fn)(void *ctx, struct connection *c),
                      void *ctx);

struct client_port_stats {
    size_t connections;
    uint64_t accepted;
    size_t connections_max; /* what maxCnxns and the limit of open files allow */
    size_t tls_handshakes;  /* not done yet */
    uint64_t refused;       /* over a limit, or out of descriptors */
};
void client_port_stats(const struct client_port *p, struct client_port_stats *ret);

#endif
