#define _GNU_SOURCE /* asprintf */
#include "admin/admin.h"

#include "admin/acts/console_acts.h"
#include "admin/four_letter_words.h"
#include "admin/http/http_routes.h"
#include "admin/http/http_server.h"
#include "admin/http/snapshot_route.h"
#include "admin/mirror_route.h"
#include "admin/reload_command.h"
#include "front/login/port_certificates.h"
#include "front/service.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRACE_MASK = 306 }; /* initial value in Apache ZooKeeper */

struct admin {
    struct admin_options options;
    struct view view;
    struct site site;
    struct console_acts *acts;
    struct mirror_route mirror;
    struct reload_command reload;
    struct http *http;
    struct port_certificates *secure; /* the certificates for HTTPS */
    struct tls_context *context;      /* the newest TLS context */
    struct http *metrics;
    unsigned open_parts;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

static int admin_open_port(uv_loop_t *loop, struct admin *a, const struct http_options *options,
                           const char *advice, struct http **ret, char **ret_text)
{
    char text[NET_TEXT_MAX];
    const char *reason = NULL;
    int rc = http_open(loop, options, ret, &reason);
    if (rc == 0) {
        a->open_parts++;
    } else if (asprintf(ret_text, "%s: %s: %s", net_address_format(&options->listen, text), reason,
                        advice) < 0) {
        *ret_text = NULL;
    }
    return rc;
}

static void admin_on_certificates(void *ctx, struct tls_context *context)
{
    struct admin *a = ctx;
    tls_context_release(a->context);
    a->context = tls_context_share(context);
    a->view.https_until_s = tls_context_until_s(context);
    if (a->http != NULL) {
        http_set_tls(a->http, context);
    }
}

/* Opens the port for commands, with TLS if configured. */
static int admin_open_http(uv_loop_t *loop, struct admin *a, char **ret_text)
{
    const struct admin_options *o = &a->options;
    if (o->https) {
        int rc = port_certificates_open(loop, &o->tls, o->tls_reload, admin_on_certificates, a,
                                        &a->secure, ret_text);
        if (rc != 0) {
            return rc;
        }
        a->open_parts++;
    }
    const struct http_options options = {.listen = o->listen,
                                         .idle_ms = o->idle_ms,
                                         .tls = a->context,
                                         .plain_too = o->plain_too,
                                         .fn = routes_answer,
                                         .ctx = &a->site};
    return admin_open_port(loop, a, &options,
                           "choose another with --admin HOST:PORT, or --admin off", &a->http,
                           ret_text);
}

static int admin_open_metrics(uv_loop_t *loop, struct admin *a, char **ret_text)
{
    const struct http_options options = {.listen = a->options.metrics_listen,
                                         .idle_ms = a->options.idle_ms,
                                         .fn = routes_answer_metrics,
                                         .ctx = &a->site};
    return admin_open_port(loop, a, &options, "choose another with metricsProvider.httpPort",
                           &a->metrics, ret_text);
}

int admin_open(uv_loop_t *loop, const struct admin_options *options, struct admin **ret,
               char **ret_text)
{
    struct admin *a = calloc(1, sizeof *a);
    int rc = 0;
    *ret_text = NULL;
    if (a == NULL) {
        return CONCLAVE_ENOMEM;
    }
    a->options = *options;
    a->view = (struct view){.options = &a->options, .trace_mask = TRACE_MASK};
    a->site.view = &a->view;
    a->site.transfer = (struct transfer){.view = &a->view, .admission = &a->site.admission};
    a->site.drain = (struct drain_route){.view = &a->view, .admission = &a->site.admission};
    a->mirror = (struct mirror_route){.view = &a->view, .admission = &a->site.admission};
    a->site.route = mirror_route_answer;
    a->site.route_ctx = &a->mirror;
    a->reload = (struct reload_command){.view = &a->view,
                                        .admission = &a->site.admission,
                                        .options = &a->options,
                                        .secure = &a->secure};
    a->site.command = reload_command_answer;
    a->site.command_ctx = &a->reload;
    a->site.sessions = (struct session_route){.view = &a->view, .admission = &a->site.admission};
    admission_init(&a->site.admission);
    a->site.backup = backup_create(loop, &a->view, &a->site.admission);
    a->site.backups = backup_route_create(loop, &a->view, &a->site.admission);
    a->site.tokens = tokens_create(loop, &a->view);
    a->site.test = options->test ? test_route_create(loop, &a->view) : NULL;
    a->acts = console_acts_create(loop, &a->view, &a->site.admission);
    bool with_console =
        console_site_init(&a->site.console, loop, &a->view, console_acts_guests(a->acts));
    a->open_parts = (a->site.backup != NULL) + (a->site.backups != NULL) +
                    (a->site.tokens != NULL) + (a->site.test != NULL) + (a->acts != NULL) +
                    with_console;
    if (a->open_parts == 0) {
        free(a);
        return CONCLAVE_ENOMEM;
    }
    if (a->open_parts < (options->test ? 6u : 5u)) {
        admin_close(a, NULL, NULL);
        return CONCLAVE_ENOMEM;
    }
    if (options->http) {
        rc = admin_open_http(loop, a, ret_text);
    }
    if (rc == 0 && options->metrics) {
        rc = admin_open_metrics(loop, a, ret_text);
    }
    if (rc != 0) {
        admin_close(a, NULL, NULL);
        return rc;
    }
    a->view.has_http = admin_address(a, &a->view.http);
    *ret = a;
    return 0;
}

static int admin_on_word(void *ctx, struct slice bytes, struct buf *out)
{
    struct admin *a = ctx;
    return four_letter_answer(&a->view, bytes, out);
}

void admin_attach(struct admin *a, struct server *s)
{
    if (a->view.server != NULL) {
        backup_cancel(a->site.backup);
        backup_route_cancel(a->site.backups);
        tokens_cancel(a->site.tokens);
        if (a->site.test != NULL) {
            test_route_cancel(a->site.test);
        }
        console_acts_cancel(a->acts);
        mirror_route_cancel(&a->mirror);
        server_service(a->view.server)->words = (struct service_words){0};
    }
    console_attach(&a->site.console.console, s);
    a->view.server = s;
    if (s != NULL) {
        server_service(s)->words = (struct service_words){admin_on_word, a};
    }
}

void admin_set_reload(struct admin *a, struct config_reload *r)
{
    assert(a->reload.config == NULL && a->view.server != NULL);
    a->reload.config = r;
}

void admin_reload(struct admin *a, const char *by)
{
    reload_command_run(&a->reload, by);
}

bool admin_address(const struct admin *a, struct net_address *ret)
{
    if (a->http == NULL) {
        return false;
    }
    http_address(a->http, ret);
    return true;
}

static void admin_gone(struct admin *a)
{
    assert(a->view.server == NULL);
    if (a->closed != NULL) {
        a->closed(a->closed_ctx);
    }
    tls_context_release(a->context);
    admission_finish(&a->site.admission);
    console_site_finish(&a->site.console);
    free(a);
}

static void admin_on_part_closed(void *ctx)
{
    struct admin *a = ctx;
    assert(a->open_parts > 0);
    if (--a->open_parts == 0) {
        admin_gone(a);
    }
}

void admin_close(struct admin *a, void (*cb)(void *ctx), void *ctx)
{
    if (a == NULL) {
        return;
    }
    admin_attach(a, NULL);
    a->closed = cb;
    a->closed_ctx = ctx;
    backup_close(a->site.backup, admin_on_part_closed, a);
    backup_route_close(a->site.backups, admin_on_part_closed, a);
    tokens_close(a->site.tokens, admin_on_part_closed, a);
    test_route_close(a->site.test, admin_on_part_closed, a);
    console_acts_close(a->acts, admin_on_part_closed, a);
    console_site_close(&a->site.console, admin_on_part_closed, a);
    port_certificates_close(a->secure, admin_on_part_closed, a);
    http_close(a->http, admin_on_part_closed, a);
    http_close(a->metrics, admin_on_part_closed, a);
}
