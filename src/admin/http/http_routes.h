/*
 * The routes of the HTTP port. They only read (GET and HEAD), except the commands that change state, restore and transfer,
 * which need POST. Requests that a page of another site makes are refused (cross_site.h).
 *
 *   /            links to the rest
 *   /commands    ZooKeeper's AdminServer (or where admin.commandURL says)
 *   /metrics     Prometheus
 *   /livez       200 while this process goes round its loop: only then can it answer
 *   /members     what the word memb says (ensemble_answers.h)
 *   /members/transfer   POST: hands the lead over (transfer_route.h)
 *   /sessions    what the word sess says
 *   /fence       whether a token is the newest (token_route.h)
 *   /readyz      200 while clients are served and writes are answered, otherwise 503 and why
 */
#ifndef ADMIN_HTTP_HTTP_ROUTES_H
#define ADMIN_HTTP_HTTP_ROUTES_H

#include "admin/answers/server_view.h"
#include "admin/http/snapshot_route.h"
#include "admin/http/token_route.h"
#include "admin/http/transfer_route.h"

struct site {
    struct view *view;
    struct admission admission;
    struct backup *backup;
    struct transfer transfer;
    struct tokens *tokens;
};

/* ctx is a struct site. The metrics' own port has /metrics only. */
void routes_answer(void *ctx, const struct http_request *request, struct http_response *response);
void routes_answer_metrics(void *ctx, const struct http_request *request,
                           struct http_response *response);

#endif
