/*
 * The routes of the HTTP port. They only read (GET and HEAD), except the commands that change state, restore, reload,
 * transfer, drain and kill, which need POST. Requests that a page of another site makes are refused (cross_site.h).
 *
 *   /            links to the rest
 *   /commands    ZooKeeper's AdminServer (or the path in admin.commandURL)
 *   /commands/reload    POST: reads the configuration again (admin/reload_command.h)
 *   /metrics     Prometheus
 *   /livez       200 while the event loop is running
 *   /members     as the word memb (ensemble_answers.h)
 *   /members/transfer   POST: hands the lead over (transfer_route.h)
 *   /members/drain      POST: empties this server before a restart; GET: how far (drain_route.h)
 *   /mirror/...  the mirror of an Apache ZooKeeper (mirror_route.h)
 *   /sessions    as the word sess
 *   /sessions/why, /sessions/ended, /sessions/kill   session_route.h
 *   /test/...    POST, of a server for tests: orders of a test (test_route.h)
 *   /fence       whether a token is the newest (token_route.h)
 *   /console     the web console (console_route.h)
 *   /backup      a backup, for administrators (backup_route.h)
 *   /readyz      200 while the server serves clients and answers writes, otherwise 503 and the reason
 */
#ifndef ADMIN_HTTP_HTTP_ROUTES_H
#define ADMIN_HTTP_HTTP_ROUTES_H

#include "admin/answers/server_view.h"
#include "admin/http/backup_route.h"
#include "admin/http/console_route.h"
#include "admin/http/drain_route.h"
#include "admin/http/session_route.h"
#include "admin/http/snapshot_route.h"
#include "admin/http/test_route.h"
#include "admin/http/token_route.h"
#include "admin/http/transfer_route.h"

struct site {
    struct view *view;
    struct admission admission;
    struct backup *backup;
    struct backup_route *backups;
    struct transfer transfer;
    struct drain_route drain;
    /* Further commands, of the room above: answers the request if `name` is one of them. NULL: there are none. */
    bool (*command)(void *ctx, const char *name, const struct http_request *request,
                    struct http_response *response);
    void *command_ctx;
    /* A further route of the room above, in the same way. NULL: there is none. */
    bool (*route)(void *ctx, const struct http_request *request, struct http_response *response);
    void *route_ctx;
    struct session_route sessions;
    struct test_route *test; /* NULL: it is no server for tests */
    struct tokens *tokens;
    struct console_site console;
};

/* ctx is a struct site. The separate metrics port has only /metrics. */
void routes_answer(void *ctx, const struct http_request *request, struct http_response *response);
void routes_answer_metrics(void *ctx, const struct http_request *request,
                           struct http_response *response);

#endif
