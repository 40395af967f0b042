/*
 * GET /fence?path=PATH&token=N: whether N is still the newest token of the lock or election at PATH, for a resource that
 * keeps none of its own. 200: it is, 409: it is not; both only after a quorum has proved, since the question came, that
 * what this server knows is the newest there is. 503: no proof came in TOKEN_WAIT_MS. 400: no such question. Without
 * fencing.enabled there is nothing here.
 *
 * Limits: as many questions at a time as the port has connections. Of a path that nothing is bound to all children are
 * looked at.
 */
#ifndef ADMIN_HTTP_TOKEN_ROUTE_H
#define ADMIN_HTTP_TOKEN_ROUTE_H

#include <uv.h>

#include "admin/answers/server_view.h"
#include "admin/http/http_exchange.h"

enum { TOKEN_WAIT_MS = 5000 };

struct tokens;

/* NULL when memory is out. Borrows v. */
struct tokens *tokens_create(uv_loop_t *loop, struct view *v);

/* Whether a request is for it; answers it, perhaps later. */
bool tokens_answer(struct tokens *t, const struct http_request *request,
                   struct http_response *response);

/* Gives up what waits: it is answered. */
void tokens_cancel(struct tokens *t);

/* Cancels, frees t and calls cb from the loop. Takes NULL without a call. */
void tokens_close(struct tokens *t, void (*cb)(void *ctx), void *ctx);

#endif
