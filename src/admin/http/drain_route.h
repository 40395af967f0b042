/*
 * /members/drain, about the server that is asked: GET tells how far a drain is (docs/ensemble.md), POST begins one, with the
 * argument `within` in milliseconds, and POST with undo=1 takes it back. POST only for admitted identities (http_login.h).
 * A drain is refused when the others have no quorum without this server.
 */
#ifndef ADMIN_HTTP_DRAIN_ROUTE_H
#define ADMIN_HTTP_DRAIN_ROUTE_H

#include "admin/answers/server_view.h"
#include "admin/http/http_login.h"

struct drain_route {
    struct view *view;           /* borrowed */
    struct admission *admission; /* likewise */
};

/* Whether the request is for this route; if so answers it. */
bool drain_route_answer(struct drain_route *t, const struct http_request *request,
                        struct http_response *response);

#endif
