#include "admin/http/transfer_route.h"

#include "admin/answers/four_letter_text.h"
#include "admin/http/adminserver_commands.h"
#include "base/log.h"
#include "cluster/ensemble_status.h"
#include "cluster/replica.h"
#include "daemon/server.h"

#include <errno.h>
#include <stdlib.h>

static const char NAME[] = "transfer";

/* 0 and *ret (0: any voter); or a status and why. */
static unsigned read_target(const struct view *v, const char *argument, uint64_t *ret,
                            const char **ret_why)
{
    struct replication_member_stats m;
    char *end = NULL;
    *ret = 0;
    if (argument == NULL) {
        return 0;
    }
    errno = 0;
    unsigned long long number = strtoull(argument, &end, 10);
    if (errno != 0 || end == argument || *end != '\0' || number > STATE_MEMBER_NUMBER_MAX) {
        *ret_why = "The argument to is the id of a member";
        return 400;
    }
    for (size_t i = 0; quorum_member(server_node(v->server), i, &m); i++) {
        if (m.id == (uint64_t)member_id((int64_t)number) && m.role == MEMBER_VOTER) {
            *ret = m.id;
            return 0;
        }
    }
    *ret_why = "There is no such voter";
    return 404;
}

unsigned transfer_begin(const struct view *v, const struct http_request *request,
                        const char **ret_why)
{
    uint64_t to;
    unsigned status = read_target(v, http_argument(request, "to"), &to, ret_why);
    if (status != 0) {
        log_cause(LOG_WARN, "admin", NAME, request->peer, *ret_why, TEXT_REFUSED_ADVICE,
                  "result=refused peer=%s reason=\"%s\"", request->peer, *ret_why);
        return status;
    }
    int rc = ensemble_transfer(replica_ensemble(server_node(v->server)), to);
    log_always("admin", NAME, "result=%s peer=%s to=%llu", rc == 0 ? "begun" : conclave_errname(rc),
               request->peer, (unsigned long long)to);
    if (rc != 0) {
        *ret_why = rc == CONCLAVE_EINVAL ? "This member already leads, or is not a voter"
                                         : "No voter can take over now, or there is no leader";
        return 409;
    }
    return 0;
}

static unsigned transfer_check(struct transfer *t, const struct http_request *request,
                               const char **ret_why)
{
    struct service *s = server_service(t->view->server);
    unsigned status =
        admission_check(t->admission, s, request, clock_monotonic_ms(s->clock), ret_why);
    if (status != 0) {
        log_cause(LOG_WARN, "admin", NAME, request->peer, *ret_why, TEXT_REFUSED_ADVICE,
                  "result=refused peer=%s reason=\"%s\"", request->peer, *ret_why);
        return status;
    }
    return transfer_begin(t->view, request, ret_why);
}

bool transfer_answer(struct transfer *t, const struct http_request *request,
                     struct http_response *response)
{
    const char *why = NULL;
    if (strcmp(request->path, "/members/transfer") != 0) {
        return false;
    }
    if (strcmp(request->method, "POST") != 0) {
        response->status = 405;
        response->allow = "POST";
        buf_append_str(&response->body, "this command needs another method\n");
        return true;
    }
    response->content_type = "application/json;charset=utf-8";
    if (!view_serving(t->view)) {
        response->status = 503;
        why = TEXT_NOT_SERVING;
    } else {
        unsigned status = transfer_check(t, request, &why);
        response->status = status != 0 ? status : 200;
    }
    commands_fail(NAME, why, &response->body);
    return true;
}
