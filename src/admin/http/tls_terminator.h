/*
 * TLS before an HTTP port: accepts connections, puts their bytes through TLS by the house's own means, and hands what is
 * inside to the HTTP library over a pair of sockets. So certificates, versions and reloads are those of the client ports,
 * and one port can take both kinds: the first byte tells.
 *
 * Limits: PLACES_MAX connections, as on the HTTP port (connection_slots.h); a handshake ends within HTTP_HEAD_MS; in each direction
 * at most 64 KiB wait in here.
 */
#ifndef ADMIN_HTTP_TLS_TERMINATOR_H
#define ADMIN_HTTP_TLS_TERMINATOR_H

#include "admin/http/http_server.h"
#include "tls/context.h"

struct gate;

/*
 * Binds and begins to accept; TLS only, or with `unified` plain HTTP as well. What was accepted goes to http_adopt(h).
 * Errors as http_open.
 */
int gate_open(uv_loop_t *loop, const struct net_address *address, struct http *h,
              struct tls_context *context, bool unified, struct gate **ret,
              const char **ret_reason) CONCLAVE_MUST_USE;

/* For connections from now on. Shared. */
void gate_set_tls(struct gate *g, struct tls_context *context);

void gate_address(const struct gate *g, struct net_address *ret);

/* Ends all connections, frees g and calls cb from the loop. Takes NULL without a call. */
void gate_close(struct gate *g, void (*cb)(void *ctx), void *ctx);

#endif
