/*
 * The sessions for the web console, as JSON: those of the whole ensemble, and the local ones of this server. Clients,
 * watches and requests are known of connections to this server.
 *
 *   {"list": [{"id", "server": N or null, "local": bool, "timeout_ms", "idle_ms", "left_ms", "ephemerals",
 *              "client" or null, "since_ms", "requests", "watches"}], "found": N, "all": N}
 *
 * In the order of ids; the last three only if there is a client. idle_ms: since the last sign of life, left_ms: until
 * the session expires without another one; both are known to the leader, and of sessions whose client this server had last. found: sessions that match, all: sessions.
 *
 * Limits: SESSION_LIST_MAX rows of the first VIEW_CONNECTIONS_MAX sessions, which the text `find` selects; ephemeral nodes
 * are counted up to SESSION_EPHEMERALS_MAX.
 */
#ifndef ADMIN_CONSOLE_SESSION_LIST_H
#define ADMIN_CONSOLE_SESSION_LIST_H

#include "admin/answers/server_view.h"
#include "base/json.h"

struct service;

enum { SESSION_LIST_MAX = 500, SESSION_EPHEMERALS_MAX = 10000 };

/* Writes the object as a value. find: a part of the id ("0x1f") or of the client's address; NULL: any. */
void session_list_write(struct service *s, const char *find, struct json *j);

#endif
