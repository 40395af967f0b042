#include "admin/http/drain_route.h"

#include "admin/answers/four_letter_text.h"
#include "admin/http/adminserver_commands.h"
#include "base/json.h"
#include "base/log.h"
#include "cluster/ensemble_status.h"
#include "cluster/replica.h"
#include "daemon/drain.h"
#include "daemon/server.h"
#include "front/service.h"

#include <errno.h>
#include <stdlib.h>

static const char NAME[] = "drain";

/* Whether the other members have a quorum without this server, as far as its links tell. */
static bool others_suffice(struct server *server)
{
    struct replication_member_stats m;
    size_t voters = 0;
    size_t linked = 0;
    for (size_t i = 0; quorum_member(server_node(server), i, &m); i++) {
        voters += m.role == MEMBER_VOTER;
        linked += m.role == MEMBER_VOTER && !m.self && m.linked;
    }
    return linked > voters / 2;
}

static bool read_within(const struct http_request *request, int64_t *ret)
{
    const char *text = http_argument(request, "within");
    char *end = NULL;
    *ret = DRAIN_WITHIN_MS;
    if (text == NULL) {
        return true;
    }
    errno = 0;
    *ret = (int64_t)strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *ret >= 0 && *ret <= DRAIN_WITHIN_MAX_MS;
}

/* 0, or a status and why. */
static unsigned drain_change(struct drain_route *t, const struct http_request *request,
                             const char **ret_why)
{
    struct server *server = t->view->server;
    struct service *s = server_service(server);
    bool undo = http_argument(request, "undo") != NULL;
    int64_t within = 0;
    unsigned status =
        admission_check(t->admission, s, request, clock_monotonic_ms(s->clock), ret_why);
    if (status == 0 && !read_within(request, &within)) {
        *ret_why = "The argument within is a number of milliseconds, up to one hour";
        status = 400;
    } else if (status == 0 && !undo && !others_suffice(server)) {
        *ret_why = "The other servers have no quorum without this one: start them first";
        status = 409;
    }
    log_advise(status == 0 ? LOG_NOTICE : LOG_WARN, "admin", NAME,
               status == 0 ? NULL : "correct what the reason names, then ask again",
               "result=%s peer=%s undo=%d reason=\"%s\"", status == 0 ? "done" : "refused",
               request->peer, undo, status == 0 ? "" : *ret_why);
    if (status == 0 && undo) {
        server_undrain(server);
    } else if (status == 0) {
        server_drain(server, within);
    }
    return status;
}

static void drain_tell(struct server *server, struct buf *out)
{
    struct json j;
    size_t clients = map_count(&server_service(server)->by_session);
    bool drained = server_is_drained(server);
    bool leads = replica_leads_others(server_node(server));
    bool suffice = others_suffice(server);
    json_init(&j);
    json_object_begin(&j);
    json_member_uint(&j, "id", (uint64_t)server_id(server));
    json_member_bool(&j, "draining", drained);
    json_member_uint(&j, "clients", clients);
    json_member_bool(&j, "leads", leads);
    json_member_bool(&j, "others_have_quorum", suffice);
    json_member_bool(&j, "safe_to_stop", drained && clients == 0 && !leads && suffice);
    json_object_end(&j);
    buf_append_slice(out, buf_slice(&j.out));
    buf_append_u8(out, '\n');
    out->failed |= j.out.failed;
    json_finish(&j);
}

bool drain_route_answer(struct drain_route *t, const struct http_request *request,
                        struct http_response *response)
{
    const char *why = NULL;
    bool post = strcmp(request->method, "POST") == 0;
    if (strcmp(request->path, "/members/drain") != 0) {
        return false;
    }
    if (!post && strcmp(request->method, "GET") != 0) {
        response->status = 405;
        response->allow = "GET, POST";
        buf_append_str(&response->body, "this command needs another method\n");
        return true;
    }
    response->content_type = "application/json;charset=utf-8";
    if (t->view->server == NULL || (post && !view_serving(t->view))) {
        response->status = 503;
        why = TEXT_NOT_SERVING;
    } else if (post) {
        unsigned status = drain_change(t, request, &why);
        response->status = status != 0 ? status : 200;
    }
    if (why != NULL) {
        commands_fail(NAME, why, &response->body);
    } else {
        drain_tell(t->view->server, &response->body);
    }
    return true;
}
