#include "admin/http/session_route.h"

#include "admin/answers/four_letter_text.h"
#include "admin/answers/session_answers.h"
#include "admin/http/adminserver_commands.h"
#include "base/log.h"
#include "daemon/server.h"
#include "front/service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char NAME[] = "kill";

static bool read_id(const struct http_request *request, int64_t *ret)
{
    const char *text = http_argument(request, "id");
    char *end = NULL;
    if (text == NULL) {
        return false;
    }
    errno = 0;
    unsigned long long id = strtoull(text, &end, 16); /* takes 0x, too */
    *ret = (int64_t)id;
    return errno == 0 && end != text && *end == '\0' && id != 0;
}

static void refuse(struct http_response *response, unsigned status, const char *why)
{
    response->status = status;
    buf_printf(&response->body, "%s\n", why);
}

static void answer_json(const struct view *v, bool ended, int64_t id,
                        struct http_response *response)
{
    struct json j;
    json_init(&j);
    if (ended) {
        session_answer_ended(v, &j);
    } else {
        session_answer_why(v, id, &j);
    }
    response->content_type = "application/json;charset=utf-8";
    buf_append_slice(&response->body, buf_slice(&j.out));
    buf_append_u8(&response->body, '\n');
    response->body.failed |= j.out.failed;
    json_finish(&j);
}

static void answer_read(const struct session_route *t, bool ended,
                        const struct http_request *request, struct http_response *response)
{
    int64_t id = 0;
    if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0) {
        response->allow = "GET, HEAD";
        refuse(response, 405, "only GET and HEAD are served here");
    } else if (!ended && !read_id(request, &id)) {
        refuse(response, 400, "use /sessions/why?id=0xID");
    } else if (t->view->server == NULL) {
        refuse(response, 503, TEXT_NOT_SERVING);
    } else {
        answer_json(t->view, ended, id, response);
    }
}

void session_name_operator(struct wire_vector list, const char *peer, char ret[SESSION_NAME_MAX])
{
    struct wire_id id;
    (void)snprintf(ret, SESSION_NAME_MAX, "superuser from %s", peer);
    while (wire_next_id(&list, &id)) {
        if (slice_equal_str(id.scheme, "super") || slice_equal_str(id.scheme, "ip")) {
            continue;
        }
        const uint8_t *colon = slice_equal_str(id.scheme, "digest") && id.id.len > 0
                                   ? memchr(id.id.data, ':', id.id.len)
                                   : NULL;
        size_t len = colon != NULL ? (size_t)(colon - id.id.data) : id.id.len;
        (void)snprintf(ret, SESSION_NAME_MAX, "%.*s:%.*s from %s", (int)id.scheme.len,
                       (const char *)id.scheme.data, len < 40 ? (int)len : 40,
                       (const char *)id.id.data, peer);
        return;
    }
}

unsigned session_route_kill(const struct view *v, const struct http_request *request,
                            struct wire_vector ids, const char **ret_why)
{
    char by[SESSION_NAME_MAX];
    int64_t id = 0;
    session_name_operator(ids, request->peer, by);
    int rc = read_id(request, &id) ? service_kill_session(server_service(v->server), id, ids, by)
                                   : CONCLAVE_EINVAL;
    log_always("admin", "kill-session", "session=0x%llx result=%s by=\"%s\"",
               (unsigned long long)id, rc == 0 ? "begun" : conclave_errname(rc), by);
    if (rc == CONCLAVE_EINVAL) {
        *ret_why = "The argument id is the id of a session: 0xID";
        return 400;
    }
    if (rc == CONCLAVE_NO_NODE) {
        *ret_why = "This server knows no such session";
        return 404;
    }
    *ret_why = rc != 0 ? "The log accepts no writes, or memory is out" : NULL;
    return rc != 0 ? 503 : 0;
}

/* 0, or a status and why. */
static unsigned kill_session(struct session_route *t, const struct http_request *request,
                             const char **ret_why)
{
    struct service *s = server_service(t->view->server);
    struct client_ids who;
    unsigned status =
        admission_identify(t->admission, s, request, clock_monotonic_ms(s->clock), &who, ret_why);
    if (status != 0) {
        log_cause(LOG_WARN, "admin", "kill-session", request->peer, *ret_why, TEXT_REFUSED_ADVICE,
                  "result=refused peer=%s reason=\"%s\"", request->peer, *ret_why);
        return status;
    }
    status = session_route_kill(t->view, request, client_ids_list(&who), ret_why);
    client_ids_finish(&who);
    return status;
}

static void answer_kill(struct session_route *t, const struct http_request *request,
                        struct http_response *response)
{
    const char *why = NULL;
    if (strcmp(request->method, "POST") != 0) {
        response->allow = "POST";
        refuse(response, 405, "this command needs another method");
        return;
    }
    response->content_type = "application/json;charset=utf-8";
    if (!view_serving(t->view)) {
        response->status = 503;
        why = TEXT_NOT_SERVING;
    } else {
        unsigned status = kill_session(t, request, &why);
        response->status = status != 0 ? status : 200;
    }
    commands_fail(NAME, why, &response->body);
}

bool session_route_answer(struct session_route *t, const struct http_request *request,
                          struct http_response *response)
{
    if (strcmp(request->path, "/sessions/kill") == 0) {
        answer_kill(t, request, response);
        return true;
    }
    bool ended = strcmp(request->path, "/sessions/ended") == 0;
    if (!ended && strcmp(request->path, "/sessions/why") != 0) {
        return false;
    }
    answer_read(t, ended, request, response);
    return true;
}
