/*
 * The routes of single sessions:
 *
 *   GET /sessions/why?id=0xID     why it ended, as this server knows it (session_answers.h)
 *   GET /sessions/ended           the ended sessions that this server remembers
 *   POST /sessions/kill?id=0xID   ends a living session, for administrators (http_login.h)
 *
 * kill answers as soon as the command is on its way to the log: {"command": "kill", "error": null}. The status is 404 if
 * this server does not know the session.
 */
#ifndef ADMIN_HTTP_SESSION_ROUTE_H
#define ADMIN_HTTP_SESSION_ROUTE_H

#include "admin/answers/server_view.h"
#include "admin/http/http_login.h"

struct session_route {
    struct view *view;
    struct admission *admission;
};

/* Answers a request for one of these routes; false: it is none. */
bool session_route_answer(struct session_route *t, const struct http_request *request,
                          struct http_response *response);

#endif
