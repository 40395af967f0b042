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

/* "digest:anna from 127.0.0.1", without the hash of a digest. */
void session_name_operator(struct wire_vector list, const char *peer, char ret[SESSION_NAME_MAX]);

/* Ends the session in the argument id for an administrator with these ids. 0, or a status and why. */
unsigned session_route_kill(const struct view *v, const struct http_request *request,
                            struct wire_vector ids, const char **ret_why);

/* Answers a request for one of these routes; false: it is none. */
bool session_route_answer(struct session_route *t, const struct http_request *request,
                          struct http_response *response);

#endif
