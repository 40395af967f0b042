#include "admin/reload_command.h"

#include "admin/answers/four_letter_text.h"
#include "admin/http/adminserver_commands.h"
#include "base/log.h"
#include "daemon/config_reload.h"
#include "daemon/server.h"
#include "front/login/port_certificates.h"
#include "front/service.h"

#include <assert.h>
#include <stdlib.h>

static const char NAME[] = "reload";

/* Writes "keys" and "files" into an open object. */
static int reload_all(struct reload_command *t, const char *set, const char *by, struct json *j,
                      char **ret_error)
{
    assert(t->options == t->view->options);
    json_key(j, "keys");
    json_array_begin(j);
    int rc = config_reload_keys(t->config, set, by, j, ret_error);
    json_array_end(j);
    if (rc != 0) {
        return rc;
    }
    *t->options = t->config->running->admin.options;
    json_key(j, "files");
    json_array_begin(j);
    if (set == NULL) {
        config_reload_files(t->config, j);
    }
    if (set == NULL && *t->secure != NULL) {
        char *why = NULL;
        rc = port_certificates_reload(*t->secure, &why);
        config_reload_file(j, "certificates for HTTPS", rc, why);
        free(why);
    }
    json_array_end(j);
    return 0;
}

void reload_command_run(struct reload_command *t, const char *by)
{
    struct json j;
    char *error = NULL;
    struct service *s = t->view->server != NULL ? server_service(t->view->server) : NULL;
    if (t->config == NULL) {
        return;
    }
    json_init(&j);
    json_object_begin(&j);
    int rc = reload_all(t, NULL, by, &j, &error);
    if (s != NULL && s->audit != NULL) {
        audit_log_server(s->audit, "configReload", rc == 0 ? "success" : "failure");
    }
    json_finish(&j);
    free(error);
}

static void reload_refuse(struct http_response *response, unsigned status, const char *why)
{
    response->status = status;
    commands_fail(NAME, why, &response->body);
}

static void reload_answer(struct reload_command *t, const struct http_request *request,
                          const struct client_ids *ids, struct http_response *response)
{
    struct json j;
    char *error = NULL;
    struct service *s = server_service(t->view->server);
    const char *set = http_argument(request, "set");
    commands_begin(&j);
    json_member_int(&j, "server", member_number(server_id(t->view->server)));
    int rc = reload_all(t, set, request->peer, &j, &error);
    if (s->audit != NULL) {
        audit_log_login(s->audit, "configReload", 0, client_ids_list(ids), request->peer, rc == 0);
    }
    if (rc == 0) {
        response->status = 200;
        commands_end(&j, NAME, SLICE_NULL, &response->body);
    } else {
        json_finish(&j);
        reload_refuse(response, 409, error != NULL ? error : conclave_strerror(rc));
    }
    free(error);
}

bool reload_command_answer(void *ctx, const char *name, const struct http_request *request,
                           struct http_response *response)
{
    struct reload_command *t = ctx;
    struct client_ids ids;
    const char *why = NULL;
    if (strcmp(name, NAME) != 0) {
        return false;
    }
    response->content_type = "application/json;charset=utf-8";
    if (strcmp(request->method, "POST") != 0) {
        response->allow = "POST";
        reload_refuse(response, 405, "This command changes state: use POST");
        return true;
    }
    if (!view_serving(t->view)) {
        reload_refuse(response, 503, TEXT_NOT_SERVING);
        return true;
    }
    if (t->config == NULL) {
        reload_refuse(response, 409, "This server has no configuration to read again");
        return true;
    }
    struct service *s = server_service(t->view->server);
    unsigned status =
        admission_identify(t->admission, s, request, clock_monotonic_ms(s->clock), &ids, &why);
    if (status == 0) {
        reload_answer(t, request, &ids, response);
        client_ids_finish(&ids);
        return true;
    }
    log_cause(LOG_WARN, "admin", NAME, request->peer, why, TEXT_REFUSED_ADVICE,
              "result=refused peer=%s reason=\"%s\"", request->peer, why);
    reload_refuse(response, status, why);
    return true;
}
