/*
 * POST /commands/reload, also under another admin.commandURL: reads the configuration and the files that it names again
 * (daemon/config_reload.h), for admitted identities (http_login.h). With the argument set=KEY=VALUE only this key changes,
 * until the next reload. The answer has "server", "keys" and "files"; when the configuration is refused (409), only "error".
 */
#ifndef ADMIN_RELOAD_COMMAND_H
#define ADMIN_RELOAD_COMMAND_H

#include "admin/answers/server_view.h"
#include "admin/http/http_login.h"
#include "base/json.h"

struct config_reload;
struct port_certificates;

struct reload_command {
    struct view *view;                 /* borrowed */
    struct admission *admission;       /* likewise */
    struct config_reload *config;      /* likewise; NULL: there is nothing to read again */
    struct admin_options *options;     /* borrowed: the room's own */
    struct port_certificates **secure; /* likewise: the certificates for HTTPS; NULL in it: none */
};

/* For site.command: ctx is a struct reload_command. Whether `name` is this command; if so answers the request. */
bool reload_command_answer(void *ctx, const char *name, const struct http_request *request,
                           struct http_response *response);

/* The same for SIGHUP. */
void reload_command_run(struct reload_command *t, const char *by);

#endif
