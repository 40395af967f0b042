#include "admin/http/console_route.h"

#include "admin/answers/four_letter_text.h"
#include "admin/console/node_search.h"
#include "admin/console/session_list.h"
#include "admin/console/web_assets.h"
#include "daemon/server.h"
#include "front/service.h"
#include "wire/java_number.h"

#include <stdio.h>
#include <string.h>

#define CONSOLE "/console"

static const char PROTECTION[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n";

static void console_refuse(struct http_response *response, unsigned status, const char *why)
{
    response->status = status;
    response->content_type = "text/plain; charset=utf-8";
    buf_printf(&response->body, "%s\n", why);
}

/* Files */

static bool asset_is_known(const struct web_asset *asset, const char *if_none_match)
{
    return if_none_match != NULL && strstr(if_none_match, asset->etag) != NULL;
}

static bool answer_asset(const char *name, const struct http_request *request,
                         struct http_response *response)
{
    for (const struct web_asset *a = web_assets; a->name != NULL; a++) {
        if (strcmp(a->name, name) != 0) {
            continue;
        }
        response->content_type = a->type;
        response->cache = "no-cache"; /* keep it, and ask whether it is still the same */
        response->headers[0].name = "ETag";
        (void)snprintf(response->headers[0].value, sizeof response->headers[0].value, "%s",
                       a->etag);
        response->header_count = 1;
        if (asset_is_known(a, request->if_none_match)) {
            response->status = 304;
        } else {
            buf_append(&response->body, a->bytes, a->len);
        }
        return true;
    }
    return false;
}

/* Data */

/* A number of the query from 1 to max; max without one, 0 if it is malformed. */
static size_t argument_count(const struct http_request *request, const char *name, size_t max)
{
    const char *text = http_argument(request, name);
    int64_t value;
    if (text == NULL) {
        return max;
    }
    if (!java_number_parse(slice_str(text), &value) || value < 1) {
        return 0;
    }
    return (uint64_t)value < max ? (size_t)value : max;
}

/* Whether another page of a node may be made now. A page that took more than was left is paid by those after it. */
static bool node_may_look(struct console_site *c, const struct clock_source *clock)
{
    int64_t now_ms = clock_monotonic_ms(clock);
    int64_t passed_ms = now_ms - c->look_ms;
    c->look_ms = now_ms;
    if (passed_ms >= 60000) {
        c->look_left = CONSOLE_LOOK_MAX;
    } else if (passed_ms > 0) {
        int64_t left = c->look_left + passed_ms * (CONSOLE_LOOK_MAX / 1000);
        c->look_left = left < CONSOLE_LOOK_MAX ? left : CONSOLE_LOOK_MAX;
    }
    return c->look_left > 0;
}

static void refuse_busy(struct http_response *response)
{
    console_refuse(response, 503, "the consoles of this server look at many nodes now: wait");
    response->headers[0].name = "Retry-After";
    (void)snprintf(response->headers[0].value, sizeof response->headers[0].value, "1");
    response->header_count = 1;
}

/* Whether the caller may see nodes now, and with which rights; otherwise refuses it. */
static bool may_see_nodes(struct console_site *c, const struct http_request *request,
                          struct http_response *response, struct node_reader *ret)
{
    const struct service *s = server_service(c->view->server);
    const struct client_ids *guest =
        c->guests.reader != NULL ? c->guests.reader(c->guests.ctx, request) : NULL;
    if (s->auth_schemes != NULL && (guest == NULL || !service_authenticated(s, guest))) {
        console_refuse(response, 403,
                       "This server shows nodes only to clients that authenticate "
                       "(enforce.auth.enabled).");
        return false;
    }
    if (!node_may_look(c, s->clock)) {
        refuse_busy(response);
        return false;
    }
    ret->all_readable = s->skip_acl;
    ret->ids = guest != NULL ? client_ids_list(guest) : (struct wire_vector){slice_str(""), 0};
    return true;
}

static void refuse_nodes(struct http_response *response, int rc, const char *usage)
{
    if (rc == CONCLAVE_NO_NODE) {
        console_refuse(response, 404, "there is no such node");
    } else if (rc == CONCLAVE_BAD_ARGUMENTS) {
        console_refuse(response, 400, usage);
    } else if (rc != 0) {
        console_refuse(response, 500, "out of memory");
    }
}

static void answer_node(struct console_site *c, const struct http_request *request,
                        struct http_response *response)
{
    const struct service *s = server_service(c->view->server);
    const char *path = http_argument(request, "path");
    struct node_request wanted = {
        .path = slice_str(path),
        .watches = s->watches,
        .writers = &c->console.writers,
        .after = slice_str(http_argument(request, "after")),
        .from = slice_str(http_argument(request, "from")),
        .count = argument_count(request, "count", NODE_PAGE_MAX),
        .answer_bytes = (size_t)c->view->options->answer_bytes,
    };
    if (!may_see_nodes(c, request, response, &wanted.reader)) {
        return;
    }
    size_t work = 0;
    int rc = path == NULL || wanted.count == 0
                 ? CONCLAVE_BAD_ARGUMENTS
                 : node_page_write(s->state, &wanted, &work, &response->body);
    c->look_left -= (int64_t)work;
    refuse_nodes(response, rc,
                 "use /console/node?path=PATH&after=NAME&count=N, or from=TEXT for after");
}

static void answer_search(struct console_site *c, const struct http_request *request,
                          struct http_response *response)
{
    const char *root = http_argument(request, "path");
    const char *text = http_argument(request, "find");
    struct node_search_request wanted = {
        .root = slice_str(root != NULL ? root : "/"),
        .text = slice_str(text),
        .after = slice_str(http_argument(request, "after")),
        .count = argument_count(request, "count", NODE_SEARCH_FOUND_MAX),
        .answer_bytes = (size_t)c->view->options->answer_bytes,
    };
    if (!may_see_nodes(c, request, response, &wanted.reader)) {
        return;
    }
    size_t work = 0;
    int rc = text == NULL || wanted.count == 0
                 ? CONCLAVE_BAD_ARGUMENTS
                 : node_search_write(server_service(c->view->server)->state, &wanted, &work,
                                     &response->body);
    c->look_left -= (int64_t)work;
    refuse_nodes(response, rc,
                 "use /console/search?find=TEXT&path=PATH&after=PATH&count=N; the text has at "
                 "most 256 bytes");
}

static void answer_sessions_json(struct console_site *c, const struct http_request *request,
                                 struct http_response *response)
{
    struct json j;
    const char *find = http_argument(request, "find");
    json_init(&j);
    session_list_write(server_service(c->view->server), find, &j);
    buf_append_slice(&response->body, buf_slice(&j.out));
    response->body.failed |= j.out.failed;
    json_finish(&j);
}

static void answer_line(struct console_site *c, const struct http_request *request,
                        struct http_response *response)
{
    const char *path = http_argument(request, "path");
    if (path == NULL || path[0] != '/') {
        console_refuse(response, 400, "use /console/line?path=PATH");
        return;
    }
    console_write_line(&c->console, slice_str(path), &response->body);
}

static void answer_recipes(struct console_site *c, const struct http_request *request,
                           struct http_response *response)
{
    console_write_recipes(&c->console, &response->body);
}

/* Data about nodes and sessions, which need a serving server. */
static bool answer_state(struct console_site *c, const char *name,
                         const struct http_request *request, struct http_response *response)
{
    static const struct {
        const char *name;
        void (*answer)(struct console_site *c, const struct http_request *request,
                       struct http_response *response);
    } ANSWERS[] = {
        {"node", answer_node},       {"search", answer_search}, {"sessions", answer_sessions_json},
        {"recipes", answer_recipes}, {"line", answer_line},
    };
    for (size_t i = 0; i < sizeof ANSWERS / sizeof ANSWERS[0]; i++) {
        if (strcmp(name, ANSWERS[i].name) != 0) {
            continue;
        }
        if (view_serving(c->view)) {
            ANSWERS[i].answer(c, request, response);
        } else {
            console_refuse(response, 503, TEXT_NOT_SERVING);
        }
        return true;
    }
    return false;
}

static bool answer_data(struct console_site *c, const char *name,
                        const struct http_request *request, struct http_response *response)
{
    response->content_type = "application/json";
    if (strcmp(name, "overview") == 0) {
        (void)console_look(&c->console);
        console_write_overview(&c->console, &response->body);
    } else if (strcmp(name, "history") == 0) {
        console_write_history(&c->console, &response->body);
    } else {
        return answer_state(c, name, request, response);
    }
    return true;
}

void console_protect(struct http_response *response)
{
    response->more_fields = PROTECTION;
}

bool console_guest_answer(struct console_site *c, const struct http_request *request,
                          struct http_response *response)
{
    if (!c->view->options->console || c->guests.answer == NULL ||
        strncmp(request->path, CONSOLE "/", strlen(CONSOLE "/")) != 0) {
        return false;
    }
    console_protect(response);
    return c->guests.answer(c->guests.ctx, request, response);
}

bool console_answer(struct console_site *c, const struct http_request *request,
                    struct http_response *response)
{
    size_t len = strlen(CONSOLE);
    const char *name = request->path + len;
    if (!c->view->options->console || strncmp(request->path, CONSOLE, len) != 0 ||
        (name[0] != '\0' && name[0] != '/')) {
        return false;
    }
    name = name[0] == '\0' || name[1] == '\0' ? "index.html" : name + 1;
    console_protect(response);
    if (strcmp(name, "events") == 0 && strcmp(request->method, "GET") == 0) {
        event_streams_add(c->events, request, response);
    } else if (!answer_asset(name, request, response) && !answer_data(c, name, request, response)) {
        console_refuse(response, 404, "there is nothing here");
    }
    return true;
}

/* Begin and end */

bool console_site_init(struct console_site *c, uv_loop_t *loop, struct view *v,
                       struct console_guests guests)
{
    c->view = v;
    c->guests = guests;
    c->look_left = CONSOLE_LOOK_MAX;
    c->look_ms = 0;
    console_init(&c->console, v);
    c->events = event_streams_create(loop, &c->console, v->options->http && v->options->console);
    return c->events != NULL;
}

void console_site_close(struct console_site *c, void (*cb)(void *ctx), void *ctx)
{
    event_streams_close(c->events, cb, ctx);
}

void console_site_finish(struct console_site *c)
{
    console_finish(&c->console);
}
