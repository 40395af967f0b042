/*
 * POST /members/transfer, with the argument `to`, the next leader; without it the most up-to-date voter. Only for
 * admitted identities (http_login.h). Any member accepts it: a follower asks the leader. The answer says only that the
 * hand-over has begun: check afterwards which member leads.
 */
#ifndef ADMIN_HTTP_TRANSFER_ROUTE_H
#define ADMIN_HTTP_TRANSFER_ROUTE_H

#include "admin/answers/server_view.h"
#include "admin/http/http_login.h"

struct transfer {
    struct view *view;           /* borrowed */
    struct admission *admission; /* likewise */
};

/* Begins the hand-over to the member in the argument `to`. 0, or a status and why. */
unsigned transfer_begin(const struct view *v, const struct http_request *request,
                        const char **ret_why);

/* Whether the request is for this route; if so answers it. */
bool transfer_answer(struct transfer *t, const struct http_request *request,
                     struct http_response *response);

#endif
