#include "admin/http/http_routes.h"

#include "admin/answers/ensemble_answers.h"
#include "admin/answers/prometheus.h"
#include "admin/answers/slow_answers.h"
#include "admin/http/adminserver_commands.h"
#include "admin/http/cross_site.h"
#include "daemon/server.h"

#define TEXT "text/plain; charset=utf-8"
#define JSON "application/json;charset=utf-8"

static void answer_root(struct view *v, struct http_response *response)
{
    response->content_type = "text/html; charset=utf-8";
    buf_append_str(&response->body, "<!doctype html>\n<title>Conclave</title>\n");
    const char *const links[] = {
        "/console",  v->options->command_url, "/metrics", "/livez", "/readyz", "/members",
        "/sessions", "/sessions/ended",       "/slow"};
    for (size_t i = v->options->console ? 0 : 1; i < sizeof links / sizeof links[0]; i++) {
        buf_printf(&response->body, "<a href=\"%s\">%s</a>\n<br/>\n", links[i], links[i]);
    }
}

static void answer_sessions(struct view *v, struct http_response *response)
{
    if (view_serving(v)) {
        ensemble_answer_sessions_text(v, &response->body);
        return;
    }
    response->status = 503;
    buf_append_str(&response->body, "not ready\n");
}

static void answer_slow(struct view *v, struct http_response *response)
{
    struct json j;
    if (v->server == NULL) {
        response->status = 503;
        buf_append_str(&response->body, "not ready\n");
        return;
    }
    json_init(&j);
    slow_answer(v, &j);
    response->content_type = JSON;
    buf_append_slice(&response->body, buf_slice(&j.out));
    buf_append_u8(&response->body, '\n');
    response->body.failed |= j.out.failed;
    json_finish(&j);
}

static void answer_ready(struct view *v, struct http_response *response)
{
    const char *why = v->server == NULL ? "starting" : server_why_not_ready(v->server);
    if (why == NULL) {
        const char *warning = server_warning(v->server);
        buf_append_str(&response->body, "ok\n");
        if (warning != NULL) {
            buf_printf(&response->body, "warning: %s\n", warning);
        }
        return;
    }
    response->status = 503;
    buf_printf(&response->body, "not ready: %s\n", why);
}

static void answer_read(struct view *v, const char *path, struct http_response *response)
{
    if (strcmp(path, "/") == 0) {
        answer_root(v, response);
    } else if (strcmp(path, "/metrics") == 0) {
        response->content_type = PROMETHEUS_CONTENT_TYPE;
        prometheus_write(v, &response->body);
    } else if (strcmp(path, "/livez") == 0) {
        buf_append_str(&response->body, "ok\n");
    } else if (strcmp(path, "/readyz") == 0) {
        answer_ready(v, response);
    } else if (strcmp(path, "/members") == 0) {
        ensemble_answer_text(v, &response->body);
    } else if (strcmp(path, "/sessions") == 0) {
        answer_sessions(v, response);
    } else if (strcmp(path, "/slow") == 0) {
        answer_slow(v, response);
    } else {
        response->status = 404;
        buf_append_str(&response->body, "there is nothing here\n");
    }
}

static bool is_reading(const struct http_request *request, struct http_response *response)
{
    if (strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0) {
        return true;
    }
    response->status = 405;
    response->allow = "GET, HEAD";
    buf_append_str(&response->body, "only GET and HEAD are served here\n");
    return false;
}

/* Whether the request's method may run this command; otherwise refuses it. */
static bool may_run(const struct view *v, const char *name, const struct http_request *request,
                    struct http_response *response)
{
    if (!commands_change(name)) {
        return is_reading(request, response);
    }
    if (strcmp(request->method, "POST") == 0 ||
        (v->options->change_by_get && strcmp(request->method, "GET") == 0)) {
        return true;
    }
    response->status = 405;
    response->allow = "POST";
    response->content_type = JSON;
    commands_fail(
        name, "This command changes state: use POST, or allow GET with admin.stateChangeByGet=yes",
        &response->body);
    return false;
}

/* Answers a request for a command; false: it is not one. */
static bool answer_command(const struct site *site, const struct http_request *request,
                           struct http_response *response)
{
    struct view *v = site->view;
    size_t len = strlen(v->options->command_url);
    if (strncmp(request->path, v->options->command_url, len) != 0) {
        return false;
    }
    const char *name = request->path + len;
    if (name[0] == '/' && backup_answer(site->backup, name + 1, request, response)) {
        return true;
    }
    if (name[0] == '/' && site->command != NULL &&
        site->command(site->command_ctx, name + 1, request, response)) {
        return true;
    }
    if (!may_run(v, name[0] == '/' ? name + 1 : name, request, response)) {
        return true;
    }
    if (name[0] == '\0' || strcmp(name, "/") == 0) {
        response->content_type = "text/html; charset=utf-8";
        commands_list(v, &response->body);
        return true;
    }
    if (name[0] != '/') {
        return false;
    }
    response->content_type = JSON;
    commands_run(v, name + 1, http_argument(request, "traceMask"), &response->body);
    return true;
}

/* Probes are always answered: load balancers send any host name, and these answers reveal nothing. */
static bool is_forged(const struct view *v, const struct http_request *request,
                      struct http_response *response)
{
    bool probe = strcmp(request->path, "/livez") == 0 || strcmp(request->path, "/readyz") == 0;
    const char *why = probe ? NULL : forgery_reason(v->options, request);
    if (why == NULL) {
        return false;
    }
    response->status = 403;
    buf_printf(&response->body, "%s\n", why);
    return true;
}

void routes_answer(void *ctx, const struct http_request *request, struct http_response *response)
{
    struct site *site = ctx;
    response->content_type = TEXT;
    if (is_forged(site->view, request, response)) {
        return;
    }
    if (test_route_answer(site->test, request, response)) {
        return;
    }
    if (!answer_command(site, request, response) &&
        !transfer_answer(&site->transfer, request, response) &&
        !drain_route_answer(&site->drain, request, response) &&
        !(site->route != NULL && site->route(site->route_ctx, request, response)) &&
        !session_route_answer(&site->sessions, request, response) &&
        !console_guest_answer(&site->console, request, response) && is_reading(request, response) &&
        !backup_route_answer(site->backups, request, response) &&
        !tokens_answer(site->tokens, request, response) &&
        !console_answer(&site->console, request, response)) {
        answer_read(site->view, request->path, response);
    }
}

void routes_answer_metrics(void *ctx, const struct http_request *request,
                           struct http_response *response)
{
    const struct site *site = ctx;
    response->content_type = TEXT;
    if (is_reading(request, response)) {
        bool metrics = strcmp(request->path, "/metrics") == 0;
        answer_read(site->view, metrics ? request->path : "", response);
    }
}
