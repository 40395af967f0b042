/*
 * GET /fence?path=PATH&token=N: whether N is still the newest token of the lock or election at PATH, for resources that
 * remember no token. 200: yes, 409: no; both only after a quorum has proved, since the request came, that this server's
 * state is the newest. 503: no proof came within TOKEN_WAIT_MS. 400: malformed. Without fencing.enabled the route does
 * not exist.
 *
 * Limits: as many waiting requests as the port has connections. If nothing is bound to the path, all its children are
 * searched.
 */
#ifndef ADMIN_HTTP_TOKEN_ROUTE_H
#define ADMIN_HTTP_TOKEN_ROUTE_H

#include <uv.h>

#include "admin/answers/server_view.h"
#include "admin/http/http_exchange.h"

enum { TOKEN_WAIT_MS = 5000 };

struct tokens;

/* NULL: out of memory. Borrows v. */
struct tokens *tokens_create(uv_loop_t *loop, struct view *v);

/* Whether the request is for this route; if so answers it, perhaps later. */
bool tokens_answer(struct tokens *t, const struct http_request *request,
                   struct http_response *response);

/* Cancels waiting requests: they are answered. */
void tokens_cancel(struct tokens *t);

/* Cancels, frees t and calls cb from the loop. NULL does nothing. */
void tokens_close(struct tokens *t, void (*cb)(void *ctx), void *ctx);

#endif
