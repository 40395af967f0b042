#include "cli/ops/admin_ports.h"

#include "cli/common/connection.h"
#include "cli/common/server_query.h"
#include "cli/ops/admin_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct admin_port *ports_add(struct admin_ports *ports, const char *address, size_t len,
                                    int64_t server)
{
    if (ports->count == ADMIN_PORTS_MAX) {
        return NULL;
    }
    struct admin_port *p = &ports->items[ports->count++];
    *p = (struct admin_port){.server = server};
    snprintf(p->address, sizeof p->address, "%.*s", (int)len, address);
    return p;
}

static bool host_is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

/* A server names the address that it listens on; when that is every one, it is asked at the one by which it was reached. */
static void ports_add_server(struct admin_ports *ports, const struct ensemble_view_server *s)
{
    struct server_query client;
    struct server_query admin;
    struct admin_port *p = ports_add(ports, s->admin, strlen(s->admin),
                                     s->id != 0 ? (int64_t)ensemble_view_number(s->id) : -1);
    if (p == NULL) {
        return;
    }
    if (!s->answered) {
        (void)text_fail(&p->why, 0, "%s: %s", s->address, s->state);
    } else if (s->admin[0] == '\0' || !server_query_address(&admin, s->admin) ||
               !server_query_address(&client, s->address)) {
        (void)text_fail(&p->why, 0, "%s: it reports no HTTP port; name it with --admin HOST:PORT",
                        s->address);
    } else if (strcmp(admin.host, "0.0.0.0") == 0 || strcmp(admin.host, "::") == 0) {
        bool v6 = strchr(client.host, ':') != NULL;
        snprintf(p->address, sizeof p->address, v6 ? "[%.240s]:%u" : "%.240s:%u", client.host,
                 (unsigned)admin.port);
    } else if (host_is_loopback(admin.host) && !host_is_loopback(client.host)) {
        (void)text_fail(&p->why, 0,
                        "%s: its HTTP port serves only its own machine (%s): run this command "
                        "there, or set admin.serverAddress",
                        s->address, s->admin);
    }
}

int admin_ports_find(const char *command, const struct common_options *options, const char *list,
                     struct admin_ports *ret)
{
    struct ensemble_view view;
    ret->count = 0;
    if (list != NULL) {
        for (const char *at = list; *at != '\0'; at += *at == ',') {
            size_t len = strcspn(at, ",");
            (void)ports_add(ret, at, len, -1);
            at += len;
        }
        return 0;
    }
    int code = ensemble_view_gather(command, options, options->timeout_ms, &view);
    for (size_t i = 0; code == 0 && i < view.count; i++) {
        ports_add_server(ret, &view.servers[i]);
    }
    ensemble_view_finish(&view);
    return code;
}

void admin_ports_finish(struct admin_ports *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->items[i].why);
    }
    p->count = 0;
}

static void ports_take(struct admin_port *p, struct server_query *ask, admin_ports_fn fn, void *ctx)
{
    unsigned status = 0;
    struct buf body;
    buf_init(&body, 0);
    if (ask->error != 0) {
        (void)text_fail(&p->why, 0, "%s: %s", p->address, ask->why);
    } else if (!admin_request_read(&ask->answer, &status, &body)) {
        (void)text_fail(&p->why, 0, "%s: this is not the HTTP port of a server", p->address);
    } else {
        fn(ctx, p, status, &body);
    }
    buf_finish(&body);
}

int admin_ports_ask(const char *command, const struct common_options *options,
                    struct admin_ports *ports, const char *method, const char *target,
                    const char *authorization, admin_ports_fn fn, void *ctx)
{
    struct server_query asks[ADMIN_PORTS_MAX];
    struct buf questions[ADMIN_PORTS_MAX];
    size_t n = 0;
    int code = 0;
    for (size_t i = 0; i < ports->count; i++) {
        struct admin_port *p = &ports->items[i];
        asks[n] = (struct server_query){.index = i};
        if (p->why != NULL) {
            continue;
        }
        if (!server_query_address(&asks[n], p->address)) {
            (void)text_fail(&p->why, 0, "\"%s\" is not HOST:PORT", p->address);
            continue;
        }
        admin_request_write(&questions[n], method, target, p->address, authorization);
        code = buf_ok(&questions[n]) ? code : fail(command, NULL, CONCLAVE_ENOMEM);
        asks[n].question = buf_slice(&questions[n]);
        n++;
    }
    if (code == 0 && n > 0) {
        code = server_query_all(command, options, options->timeout_ms, asks, n);
    }
    for (size_t i = 0; i < n; i++) {
        if (code == 0) {
            ports_take(&ports->items[asks[i].index], &asks[i], fn, ctx);
        }
        buf_finish(&asks[i].answer);
        buf_finish(&questions[i]);
    }
    return code;
}
