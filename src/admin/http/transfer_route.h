/*
 * POST /members/transfer, with the argument `to`, the member that shall lead; without it the most up-to-date voter.
 * For admitted identities only (http_login.h). Any member takes it: who does not lead tells the leader. The answer says
 * that the hand-over was begun, not that it is done: see who leads.
 */
#ifndef ADMIN_HTTP_TRANSFER_ROUTE_H
#define ADMIN_HTTP_TRANSFER_ROUTE_H

#include "admin/answers/server_view.h"
#include "admin/http/http_login.h"

struct transfer {
    struct view *view;           /* borrowed */
    struct admission *admission; /* likewise */
};

/* Whether a request is for it; answers it. */
bool transfer_answer(struct transfer *t, const struct http_request *request,
                     struct http_response *response);

#endif
