#include "admin/acts/console_acts.h"

#include "admin/acts/node_acts.h"
#include "admin/acts/sign_in_check.h"
#include "admin/acts/sign_ins.h"
#include "admin/answers/four_letter_text.h"
#include "admin/http/session_route.h"
#include "admin/http/transfer_route.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/server.h"
#include "front/service.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACTS_PREFIX "/console/"

enum { ACT_LOOK_MS = 250 };

static const char ENDED[] = "You are not signed in, or your sign-in has ended: sign in again.";
static const char BUSY[] = "Many acts are in progress: try again.";
static const char UNKNOWN[] = "The server did not learn whether it was done: look before you do it "
                              "again.";

/* An act or a check of a password that is answered later. */
struct console_act {
    struct console_acts *acts;
    struct http_exchange *exchange; /* NULL: free */
    const struct node_act *node;    /* NULL: a sign-in */
    struct pending_owner owner;     /* of the write */
    struct sign_in_check check;     /* of the sign-in */
    bool secure;                    /* the sign-in came over TLS */
    char peer[VIEW_ADDRESS_MAX];
    int64_t deadline_ms;
};

struct console_acts {
    uv_timer_t timer; /* runs while an act waits */
    struct view *view;
    struct admission *admission;
    struct sign_ins sign_ins;
    struct console_act waiting[ACTS_MAX];
    size_t waiting_count;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

static struct service *acts_service(const struct console_acts *a)
{
    return server_service(a->view->server);
}

static int64_t acts_now_ms(const struct console_acts *a)
{
    return clock_monotonic_ms(acts_service(a)->clock);
}

static void act_refuse(struct http_response *response, unsigned status, const char *why)
{
    response->status = status;
    response->content_type = "text/plain; charset=utf-8";
    buf_printf(&response->body, "%s\n", why);
}

static void acts_audit(const struct console_acts *a, const char *operation, int64_t session_id,
                       struct wire_vector ids, const char *peer, struct slice path, bool success)
{
    struct audit_log *audit = acts_service(a)->audit;
    if (audit != NULL) {
        audit_log_act(audit, operation, session_id, ids, peer, path, success);
    }
}

static void acts_audit_of(const struct console_acts *a, const char *operation,
                          const struct sign_in *n, const struct http_request *request, bool success)
{
    acts_audit(a, operation, n->session_id, client_ids_list(&n->ids), request->peer,
               slice_str(http_argument(request, "path")), success);
}

/* Waiting */

static struct console_act *act_place(struct console_acts *a)
{
    for (size_t i = 0; i < ACTS_MAX; i++) {
        if (a->waiting[i].exchange == NULL) {
            return &a->waiting[i];
        }
    }
    return NULL;
}

static void act_end(struct console_act *act, struct http_response *response)
{
    struct console_acts *a = act->acts;
    struct http_exchange *exchange = act->exchange;
    assert(exchange != NULL && a->waiting_count > 0);
    service_disown(&act->owner);
    sign_in_check_finish(&act->check);
    *act = (struct console_act){0};
    if (--a->waiting_count == 0) {
        (void)uv_timer_stop(&a->timer);
    }
    console_protect(response);
    http_answer(exchange, response);
}

static void act_end_unknown(struct console_act *act, const char *why)
{
    struct http_response response;
    http_response_init(&response);
    act_refuse(&response, 503, why);
    act_end(act, &response);
}

static void acts_on_timer(uv_timer_t *timer)
{
    struct console_acts *a = timer->data;
    int64_t now_ms = acts_now_ms(a);
    for (size_t i = 0; i < ACTS_MAX; i++) {
        struct console_act *act = &a->waiting[i];
        if (act->exchange != NULL && now_ms >= act->deadline_ms) {
            act_end_unknown(act, UNKNOWN);
        }
    }
}

/* The request waits: act_end answers it. */
static void act_wait(struct console_act *act, const struct http_request *request,
                     struct http_response *response)
{
    struct console_acts *a = act->acts;
    act->exchange = request->exchange;
    act->deadline_ms = acts_now_ms(a) + ACT_WAIT_MS;
    response->later = true;
    if (a->waiting_count++ == 0 &&
        uv_timer_start(&a->timer, acts_on_timer, ACT_LOOK_MS, ACT_LOOK_MS) != 0) {
        abort(); /* fails only for a handle that is closing */
    }
}

/* Signing in */

static void write_who(const struct console_acts *a, const struct sign_in *n, struct json *j)
{
    const char *end = strstr(n->name, " from ");
    size_t len = end != NULL ? (size_t)(end - n->name) : strlen(n->name);
    json_member_text(j, "name", slice_make(n->name, len));
    json_member_bool(j, "operator", admission_admits(acts_service(a), client_ids_list(&n->ids)));
    json_member_bool(j, "checked", n->checked);
}

static void act_print(struct json *j, struct http_response *response)
{
    response->content_type = "application/json";
    buf_append_slice(&response->body, buf_slice(&j->out));
    response->body.failed |= j->out.failed;
    json_finish(j);
}

static void put_cookie(const struct console_acts *a, const char *value, bool secure, bool ends,
                       struct http_response *response)
{
    (void)snprintf(response->set_cookie, sizeof response->set_cookie,
                   "%s=%s; Path=/console; HttpOnly; SameSite=Strict%s%s", a->sign_ins.cookie_name,
                   value, ends ? "; Max-Age=0" : "", secure ? "; Secure" : "");
}

static void sign_in_refuse(const struct console_acts *a, const struct sign_in_check *c,
                           const char *peer, unsigned status, const char *why,
                           struct http_response *response)
{
    if (status == 401) {
        admission_failed(a->admission, peer, acts_now_ms(a));
    }
    log_cause(LOG_WARN, "admin", "sign-in", peer, why, TEXT_REFUSED_ADVICE,
              "result=refused peer=%s reason=\"%s\"", peer, why);
    acts_audit(a, "consoleSignIn", 0, client_ids_list(&c->ids), peer, SLICE_NULL, false);
    act_refuse(response, status, why);
}

/* The caller is known. */
static void sign_in_begin(struct console_acts *a, struct sign_in_check *c, const char *peer,
                          bool secure, struct http_response *response)
{
    struct service *s = acts_service(a);
    struct json j;
    bool admitted = admission_admits(s, client_ids_list(&c->ids));
    if (!service_authenticated(s, &c->ids)) {
        sign_in_refuse(a, c, peer, 403,
                       "This server wants identities of another scheme (enforce.auth.schemes).",
                       response);
        return;
    }
    if (!c->checked && !admitted) {
        admission_failed(a->admission, peer, acts_now_ms(a)); /* it may be a guess */
    }
    bool checked = c->checked || admitted;
    struct sign_in *n = sign_ins_add(&a->sign_ins, peer, &c->ids, acts_now_ms(a));
    if (n == NULL) {
        sign_in_refuse(a, c, peer, 503, "Too many people are signed in here: try again later.",
                       response);
        return;
    }
    n->checked = checked;
    n->session_id = service_next_session_id(s);
    session_name_operator(client_ids_list(&n->ids), peer, n->name);
    log_always("admin", "sign-in", "result=done by=\"%s\"", n->name);
    acts_audit(a, "consoleSignIn", n->session_id, client_ids_list(&n->ids), peer, SLICE_NULL, true);
    put_cookie(a, n->cookie, secure, false, response);
    json_init(&j);
    json_object_begin(&j);
    write_who(a, n, &j);
    json_member_string(&j, "key", n->key);
    json_object_end(&j);
    act_print(&j, response);
}

static void on_checked(struct sign_in_check *c, unsigned status, const char *why)
{
    struct console_act *act = CONTAINER_OF(c, struct console_act, check);
    struct http_response response;
    http_response_init(&response);
    if (status == 0) {
        sign_in_begin(act->acts, c, act->peer, act->secure, &response);
    } else {
        client_ids_finish(&c->ids); /* they are not the caller's */
        sign_in_refuse(act->acts, c, act->peer, status, why, &response);
    }
    act_end(act, &response);
}

static void answer_sign_in(struct console_acts *a, const struct http_request *request,
                           struct http_response *response)
{
    const char *why = NULL;
    struct console_act *act = act_place(a);
    if (act == NULL) {
        act_refuse(response, 503, BUSY);
        return;
    }
    struct sign_in *old =
        sign_ins_find(&a->sign_ins, request->cookie, request->peer, acts_now_ms(a));
    if (old != NULL) {
        sign_in_end(old); /* the new one takes its place in this browser */
    }
    *act =
        (struct console_act){.acts = a, .secure = request->secure, .check = {.done = on_checked}};
    (void)snprintf(act->peer, sizeof act->peer, "%s", request->peer);
    unsigned status = sign_in_check_begin(&act->check, a->admission, acts_service(a), request,
                                          http_argument(request, "scheme"), &why);
    if (status == SIGN_IN_LATER) {
        act_wait(act, request, response);
        return;
    }
    if (status == 0) {
        sign_in_begin(a, &act->check, request->peer, request->secure, response);
    } else {
        client_ids_finish(&act->check.ids);
        sign_in_refuse(a, &act->check, request->peer, status, why, response);
    }
    sign_in_check_finish(&act->check);
    *act = (struct console_act){0};
}

/* How this caller can sign in. */
static void write_schemes(const struct console_acts *a, const struct http_request *request,
                          struct json *j)
{
    const char *schemes[SIGN_IN_SCHEMES];
    size_t count = sign_in_schemes(acts_service(a), request, schemes);
    json_key(j, "schemes");
    json_array_begin(j);
    for (size_t i = 0; i < count; i++) {
        json_string(j, schemes[i]);
    }
    json_array_end(j);
}

static void answer_me(struct console_acts *a, const struct http_request *request,
                      struct http_response *response)
{
    struct json j;
    bool serves = view_serving(a->view);
    const struct sign_in *n =
        serves ? sign_ins_find(&a->sign_ins, request->cookie, request->peer, acts_now_ms(a)) : NULL;
    json_init(&j);
    json_object_begin(&j);
    json_member_bool(&j, "acts", a->view->options->console_acts);
    if (n != NULL && sign_in_proves(n, request->key)) {
        write_who(a, n, &j);
    } else {
        json_member_null(&j, "name");
    }
    if (serves && a->view->options->console_acts) {
        write_schemes(a, request, &j);
    }
    json_object_end(&j);
    act_print(&j, response);
}

/* Acts */

static void on_applied(struct pending_owner *owner, const struct effects *effects)
{
    struct console_act *act = CONTAINER_OF(owner, struct console_act, owner);
    struct http_response response;
    if (effects == NULL) {
        act_end_unknown(act, UNKNOWN);
        return;
    }
    http_response_init(&response);
    node_act_answer(act->node, effects->err, effects->fenced.refused, &response);
    act_end(act, &response);
}

/* Puts the write into the log, or refuses it. True: the answer follows. */
static bool node_act_begin(struct console_act *act, const struct sign_in *n,
                           const struct http_request *request, struct http_response *response)
{
    struct service *s = acts_service(act->acts);
    const char *why = NULL;
    struct buf body;
    buf_init(&body, 0);
    unsigned status = node_act_encode(act->node, s->state, request, &body, &why);
    if (status == 0 && body.len > s->limits.frame_max) {
        status = 413;
        why = "Not done: the data are longer than jute.maxbuffer allows.";
    }
    int rc = 0;
    if (status == 0) {
        const struct command command = {.session_id = n->session_id,
                                        .type = act->node->type,
                                        .ids = client_ids_list(&n->ids),
                                        .body = buf_slice(&body)};
        rc = service_write(s, &command, &act->owner);
    }
    buf_finish(&body);
    if (status != 0) {
        act_refuse(response, status, why);
    } else if (rc != 0) {
        node_act_answer(act->node, rc, false, response);
    }
    return status == 0 && rc == 0;
}

static void answer_node_act(struct console_acts *a, const struct node_act *node,
                            const struct sign_in *n, const struct http_request *request,
                            struct http_response *response)
{
    struct console_act *act = act_place(a);
    if (act == NULL) {
        acts_audit_of(a, node->audit, n, request, false);
        act_refuse(response, 503, BUSY);
        return;
    }
    if (node->has_data && slice_is_null(request->body)) {
        if (request->content_type == NULL ||
            strcmp(request->content_type, "application/octet-stream") != 0) {
            acts_audit_of(a, node->audit, n, request, false);
            act_refuse(response, 400, "The data must come as application/octet-stream.");
            return;
        }
        response->body_max = acts_service(a)->limits.frame_max;
        return;
    }
    *act = (struct console_act){.acts = a, .node = node, .owner = {.applied = on_applied}};
    (void)snprintf(act->peer, sizeof act->peer, "%s", request->peer);
    act->owner.host = act->peer;
    if (node_act_begin(act, n, request, response)) {
        act_wait(act, request, response);
        return;
    }
    *act = (struct console_act){0};
    acts_audit_of(a, node->audit, n, request, false);
}

/* kill and transfer: for administrators. */
static void answer_operator_act(struct console_acts *a, bool kill, const struct sign_in *n,
                                const struct http_request *request, struct http_response *response)
{
    const char *why = NULL;
    const char *operation = kill ? "killSession" : "transferLeadership";
    unsigned status = 0;
    if (!admission_admits(acts_service(a), client_ids_list(&n->ids))) {
        status = 403;
        why = "Not permitted: only administrators may do this. Sign in as the superuser, or with "
              "an identity that has all permissions (cdrwa) in the ACL of /.";
    } else if (kill) {
        status = session_route_kill(a->view, request, client_ids_list(&n->ids), &why);
    } else {
        status = transfer_begin(a->view, request, &why);
    }
    if (status != 0 || !kill) { /* the log's command has the line of a killed session */
        acts_audit_of(a, operation, n, request, status == 0);
    }
    if (status != 0) {
        act_refuse(response, status, why);
        return;
    }
    response->content_type = "application/json";
    buf_append_str(&response->body, "{}");
}

static void answer_sign_out(struct console_acts *a, struct sign_in *n,
                            const struct http_request *request, struct http_response *response)
{
    acts_audit_of(a, "consoleSignOut", n, request, true);
    log_always("admin", "sign-out", "by=\"%s\"", n->name);
    sign_in_end(n);
    put_cookie(a, "", request->secure, true, response);
    response->content_type = "application/json";
    buf_append_str(&response->body, "{}");
}

/* A request of a page that is signed in. name: "sign-out" or "act/..." */
static void answer_signed_in(struct console_acts *a, const char *name,
                             const struct http_request *request, struct http_response *response)
{
    int64_t now_ms = acts_now_ms(a);
    struct sign_in *n = sign_ins_find(&a->sign_ins, request->cookie, request->peer, now_ms);
    const char *act = strncmp(name, "act/", 4) == 0 ? name + 4 : NULL;
    const struct node_act *node = act != NULL ? node_act_find(act) : NULL;
    bool kill = act != NULL && strcmp(act, "kill") == 0;
    if (act != NULL && node == NULL && !kill && strcmp(act, "transfer") != 0) {
        act_refuse(response, 404, "There is no such act: set, create, delete, kill, transfer.");
        return;
    }
    if (n == NULL || !sign_in_proves(n, request->key)) {
        log_cause(LOG_WARN, "admin", "console-act", request->peer, name, TEXT_REFUSED_ADVICE,
                  "result=refused peer=%s reason=\"%s\"", request->peer, ENDED);
        if (n != NULL) {
            acts_audit_of(a, node != NULL ? node->audit : name, n, request, false);
        }
        act_refuse(response, 401, ENDED);
        return;
    }
    sign_in_use(n, now_ms);
    if (act == NULL) {
        answer_sign_out(a, n, request, response);
    } else if (node != NULL) {
        answer_node_act(a, node, n, request, response);
    } else {
        answer_operator_act(a, kill, n, request, response);
    }
}

static bool acts_answer(void *ctx, const struct http_request *request,
                        struct http_response *response)
{
    struct console_acts *a = ctx;
    assert(strncmp(request->path, ACTS_PREFIX, strlen(ACTS_PREFIX)) == 0);
    const char *name = request->path + strlen(ACTS_PREFIX);
    bool post = strcmp(request->method, "POST") == 0;
    bool sign_in = strcmp(name, "sign-in") == 0;
    if (strcmp(name, "me") == 0 && !post) {
        answer_me(a, request, response);
        return true;
    }
    if (!sign_in && strcmp(name, "sign-out") != 0 && strncmp(name, "act/", 4) != 0) {
        return false;
    }
    if (!post) {
        response->allow = "POST";
        act_refuse(response, 405, "This changes state: it needs POST.");
    } else if (!a->view->options->console_acts) {
        act_refuse(response, 403,
                   "This console only reads. Start the server with admin.console=on to let "
                   "operators sign in.");
    } else if (!view_serving(a->view)) {
        act_refuse(response, 503, TEXT_NOT_SERVING);
    } else if (sign_in) {
        answer_sign_in(a, request, response);
    } else {
        answer_signed_in(a, name, request, response);
    }
    return true;
}

static const struct client_ids *acts_reader(void *ctx, const struct http_request *request)
{
    struct console_acts *a = ctx;
    if (a->view->server == NULL || request->cookie == NULL || request->key == NULL) {
        return NULL;
    }
    const struct sign_in *n =
        sign_ins_find(&a->sign_ins, request->cookie, request->peer, acts_now_ms(a));
    return n != NULL && sign_in_proves(n, request->key) ? &n->ids : NULL;
}

/* Begin and end */

struct console_acts *console_acts_create(uv_loop_t *loop, struct view *v,
                                         struct admission *admission)
{
    struct console_acts *a = calloc(1, sizeof *a);
    if (a == NULL) {
        return NULL;
    }
    a->view = v;
    a->admission = admission;
    sign_ins_init(&a->sign_ins);
    if (uv_timer_init(loop, &a->timer) != 0) {
        abort(); /* cannot fail */
    }
    a->timer.data = a;
    return a;
}

struct console_guests console_acts_guests(struct console_acts *a)
{
    return a == NULL ? (struct console_guests){0}
                     : (struct console_guests){acts_answer, acts_reader, a};
}

void console_acts_cancel(struct console_acts *a)
{
    for (size_t i = 0; i < ACTS_MAX; i++) {
        if (a->waiting[i].exchange != NULL) {
            act_end_unknown(&a->waiting[i], UNKNOWN);
        }
    }
    sign_ins_clear(&a->sign_ins);
}

static void acts_on_closed(uv_handle_t *handle)
{
    struct console_acts *a = handle->data;
    if (a->closed != NULL) {
        a->closed(a->closed_ctx);
    }
    sign_ins_finish(&a->sign_ins);
    free(a);
}

void console_acts_close(struct console_acts *a, void (*cb)(void *ctx), void *ctx)
{
    if (a == NULL) {
        return;
    }
    console_acts_cancel(a);
    a->closed = cb;
    a->closed_ctx = ctx;
    uv_close((uv_handle_t *)&a->timer, acts_on_closed);
}
