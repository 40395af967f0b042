/*
 * What operators and their tools ask the server: four-letter words on the client port, ZooKeeper's AdminServer routes,
 * metrics for Prometheus and probes over HTTP. Reads the server on its own loop thread and changes nothing of it but
 * counters, save for the command restore.
 *
 * Limits: the lists of an answer have at most VIEW_CONNECTIONS_MAX connections and VIEW_WATCHES_MAX watches (server_view.h) in
 * about answer_bytes; the answer says how many were left out. So no question stalls the clients; HTTP has its own limits (http_server.h). No log-in but for
 * snapshot and restore: listen on an address that only operators reach, or ask for their certificates (HTTPS).
 */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include "admin/answers/admin_options.h"
#include "daemon/server.h"

struct admin;

/*
 * Binds the ports and begins to answer: "not serving" until admin_attach. Borrows the strings of options. 0, or
 * CONCLAVE_ERESOLVE, CONCLAVE_EBUSY, CONCLAVE_EDISCONNECTED (a port cannot be had), CONCLAVE_ENOMEM with *ret_text (free
 * it). After an error the loop must be run until it has closed all handles.
 */
int admin_open(struct uv_loop_s *loop, const struct admin_options *options, struct admin **ret,
               char **ret_text) CONCLAVE_MUST_USE;

/* The server that is asked from now on; its four-letter words come here. NULL: none any more; call it before the server
 * is gone. */
void admin_attach(struct admin *a, struct server *s);

/* Reads the certificate files again, for connections from now on. */
void admin_reload(struct admin *a);

/* Numeric address of the HTTP port; false when there is none. */
bool admin_address(const struct admin *a, struct net_address *ret);

/* Ends all HTTP connections, frees a and calls cb from the loop. Takes NULL without a call. */
void admin_close(struct admin *a, void (*cb)(void *ctx), void *ctx);

#endif
