/*
 * TLS on the link to a server, between the socket and the core. Everything here runs under the client's lock and never
 * blocks; the handshake has the deadline of connecting.
 */
#ifndef CLIENT_LINK_TLS_H
#define CLIENT_LINK_TLS_H

#include "client/handle.h"

/* Reads the files of options->tls (NULL: no TLS). 0, CONCLAVE_EINVAL (malformed options), CONCLAVE_ETLS (the
 * files are not usable; its error is filled, or options->error if there is none) or CONCLAVE_ENOMEM. */
int link_tls_open(struct conclave_client *client,
                  const struct conclave_client_options *options) CONCLAVE_MUST_USE;
void link_tls_close(struct conclave_client *client);

/* The socket is connected to `host`, a name of the server list: makes the hello, with files
 * that are read again if they have changed. 0 or CONCLAVE_ENOMEM. */
int link_tls_begin(struct conclave_client *client, const char *host) CONCLAVE_MUST_USE;

/* The socket is gone. */
void link_tls_end(struct conclave_client *client);

/* Takes bytes from the socket; calls loop_connected when the handshake is complete. 0, or the error that ends the
 * link. */
int link_tls_received(struct conclave_client *client, struct slice bytes,
                      int64_t now_ns) CONCLAVE_MUST_USE;

/* Encrypts some of the core's output, if nothing else waits to be sent. 0 or CONCLAVE_ETLS. */
int link_tls_fill(struct conclave_client *client) CONCLAVE_MUST_USE;

/* The reason of a failure on this link, or NULL. */
const char *link_tls_problem(const struct conclave_client *client);

#endif
