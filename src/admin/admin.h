/*
 * Answers for operators and their tools: four-letter words on the client port, ZooKeeper's AdminServer routes, metrics
 * for Prometheus and probes over HTTP. It reads the server on the server's loop thread, and changes only counters,
 * except for the command restore.
 *
 * Limits: the lists of an answer have at most VIEW_CONNECTIONS_MAX connections and VIEW_WATCHES_MAX watches
 * (server_view.h) in about answer_bytes; the answer counts the omitted ones. So no request stalls the clients. HTTP has
 * its own limits (http_server.h). Only what changes something, and backups, need a login: listen on an address that only
 * operators reach, or require client certificates (HTTPS).
 */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include "daemon/admin_options.h"
#include "daemon/server.h"

struct admin;
struct config_reload;

/*
 * Binds the ports and begins to answer: "not serving" until admin_attach. Borrows the strings of options. 0, or
 * CONCLAVE_ERESOLVE, CONCLAVE_EBUSY, CONCLAVE_EDISCONNECTED (a port is not available), CONCLAVE_ENOMEM with *ret_text
 * (free it). After an error run the loop until all handles are closed.
 */
int admin_open(struct uv_loop_s *loop, const struct admin_options *options, struct admin **ret,
               char **ret_text) CONCLAVE_MUST_USE;

/* Sets the server to read; its four-letter words come here. NULL: none; call it so before you free the server. */
void admin_attach(struct admin *a, struct server *s);

/* What /commands/reload and admin_reload read again; borrowed. The options of admin_open are those of r->running. */
void admin_set_reload(struct admin *a, struct config_reload *r);

/* Reads the configuration and the files that it names again, and logs what came of it. by: who asks. */
void admin_reload(struct admin *a, const char *by);

/* Numeric address of the HTTP port; false: there is none. */
bool admin_address(const struct admin *a, struct net_address *ret);

/* Ends all HTTP connections, frees a and calls cb from the loop. NULL does nothing. */
void admin_close(struct admin *a, void (*cb)(void *ctx), void *ctx);

#endif
