#include "admin/http/test_route.h"

#include "admin/answers/four_letter_text.h"
#include "admin/http/test_order.h"
#include "base/json.h"
#include "daemon/server.h"
#include "front/server_line.h"
#include "front/service.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 1 };

/* An order that is answered when what it began is complete. */
struct test_waiting {
    struct http_exchange *exchange; /* NULL: free */
    struct test_order order;
    uint64_t expired; /* advance: complete when so many sessions are counted */
    uint64_t ended;   /* sessions that end */
    int64_t deadline_ms;
};

struct test_route {
    uv_timer_t timer; /* runs while an order waits */
    struct view *view;
    struct test_waiting waiting[TEST_WAITING_MAX];
    size_t waiting_count;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* Answers */

static void answer_begin(struct json *j, const char *name, const char *why)
{
    json_init_pretty(j);
    json_object_begin(j);
    json_member_string_or_null(j, "command", name);
    json_member_string_or_null(j, "error", why);
}

static void answer_end(struct json *j, struct http_response *response)
{
    json_object_end(j);
    response->content_type = "application/json;charset=utf-8";
    buf_append_slice(&response->body, buf_slice(&j->out));
    buf_append_u8(&response->body, '\n');
    response->body.failed |= j->out.failed;
    json_finish(j);
}

static void test_route_refuse(struct http_response *response, unsigned status, const char *name,
                              const char *why)
{
    struct json j;
    answer_begin(&j, name, why);
    response->status = status;
    answer_end(&j, response);
}

/* 0 is success. */
static void answer_outcome(struct http_response *response, const struct test_order *order, int rc)
{
    switch (rc) {
    case 0:
        test_route_refuse(response, 200, order->name, NULL);
        break;
    case CONCLAVE_NO_NODE:
        test_route_refuse(response, 404, order->name,
                          order->action == TEST_DROP && order->when == TEST_NOW
                              ? "no client of this session is connected: see report"
                              : "there is no such session: see report");
        break;
    case CONCLAVE_EBUSY:
        test_route_refuse(response, 409, order->name,
                          "too many orders wait for their requests, or are in effect: use clear");
        break;
    default:
        test_route_refuse(response, 503, order->name,
                          "the log accepts no writes, or memory is out");
        break;
    }
}

/* The report */

struct test_report {
    struct json *json;
    struct service *service;
    size_t count;
    size_t more;
};

static void test_on_session(void *ctx, const struct state_session *session)
{
    struct test_report *r = ctx;
    struct json *j = r->json;
    if (++r->count > TEST_SESSIONS_MAX) {
        r->more++;
        return;
    }
    const struct connection *c = service_connection(r->service, session->id);
    json_object_begin(j);
    json_member_hex(j, "id", session->id);
    json_member_int(j, "timeout_ms", session->timeout_ms);
    json_member_bool(j, "connected", c != NULL);
    json_member_string_or_null(j, "peer", c != NULL ? c->peer : NULL);
    json_member_uint(j, "watches", c != NULL ? c->watcher.count : 0);
    json_object_end(j);
}

static void report_sessions(struct json *j, struct service *s, const struct faults_counts *counts)
{
    struct test_report r = {.json = j, .service = s};
    json_key(j, "sessions");
    json_object_begin(j);
    json_member_uint(j, "open", session_tracker_count(s->sessions));
    json_member_uint(j, "created", counts->created);
    json_member_uint(j, "expired", counts->expired);
    json_member_uint(j, "closed", counts->closed);
    json_key(j, "list");
    json_array_begin(j);
    state_session_each(s->state, test_on_session, &r);
    json_array_end(j);
    json_member_uint(j, "more", r.more);
    json_object_end(j);
}

static void report_requests(struct json *j, const struct faults_counts *counts)
{
    uint64_t total = 0;
    json_key(j, "requests");
    json_object_begin(j);
    for (size_t i = 0; faults_op_name(i) != NULL; i++) {
        total += counts->requests[i];
        if (counts->requests[i] > 0) {
            json_member_uint(j, faults_op_name(i), counts->requests[i]);
        }
    }
    json_member_uint(j, "total", total);
    json_object_end(j);
}

static size_t count_open(struct service *s, size_t *ret_watches)
{
    struct map_node *node = NULL;
    size_t open = 0;
    while ((node = map_next(&s->by_session, node)) != NULL) {
        *ret_watches += CONTAINER_OF(node, struct connection, by_id)->watcher.count;
        open++;
    }
    return open;
}

static void answer_report(struct service *s, struct http_response *response)
{
    const struct faults_counts *counts = faults_counts(s->faults);
    struct faults_state state;
    struct json j;
    size_t watches = 0;
    size_t open = count_open(s, &watches);
    faults_state(s, &state);
    answer_begin(&j, "report", NULL);
    json_member_int(&j, "since_ms", clock_monotonic_ms(s->clock) - counts->since_ms);
    json_key(&j, "connections");
    json_object_begin(&j);
    json_member_uint(&j, "open", open);
    json_member_uint(&j, "accepted", counts->connections);
    json_member_uint(&j, "refused", counts->refused);
    json_member_uint(&j, "dropped", counts->dropped);
    json_object_end(&j);
    report_sessions(&j, s, counts);
    report_requests(&j, counts);
    json_key(&j, "watches");
    json_object_begin(&j);
    json_member_uint(&j, "set", watches);
    json_member_uint(&j, "told", counts->told);
    json_object_end(&j);
    json_key(&j, "orders");
    json_object_begin(&j);
    json_member_uint(&j, "drops", state.drops);
    json_member_uint(&j, "holds", state.holds);
    json_member_bool(&j, "refusing", state.refusing);
    json_member_bool(&j, "frozen", state.frozen);
    json_object_end(&j);
    answer_end(&j, response);
}

/* Orders that wait */

static bool is_complete(const struct test_waiting *w, struct service *s)
{
    struct state_session session;
    switch (w->order.action) {
    case TEST_EXPIRE:
        return !state_session_find(s->state, w->order.session_id, &session);
    case TEST_ADVANCE:
        return faults_counts(s->faults)->expired >= w->expired;
    default:
        return s->pipeline.outstanding == 0 && session_tracker_count(s->sessions) == 0;
    }
}

static void put_waited(const struct test_waiting *w, struct service *s,
                       struct http_response *response)
{
    struct json j;
    bool left = w->order.action == TEST_RESET && !faults_is_empty(s);
    response->status = left ? 503 : 200;
    answer_begin(&j, w->order.name,
                 left ? "clients made nodes meanwhile: stop them, and reset again" : NULL);
    if (w->order.action == TEST_ADVANCE) {
        json_member_uint(&j, "expired", w->ended);
    }
    answer_end(&j, response);
}

static void waiting_end(struct test_route *t, struct test_waiting *w,
                        struct http_response *response)
{
    struct http_exchange *exchange = w->exchange;
    assert(exchange != NULL && t->waiting_count > 0);
    *w = (struct test_waiting){0};
    if (--t->waiting_count == 0) {
        (void)uv_timer_stop(&t->timer);
    }
    http_answer(exchange, response);
}

static void test_route_on_timer(uv_timer_t *timer)
{
    struct test_route *t = timer->data;
    struct service *s = server_service(t->view->server);
    for (size_t i = 0; i < TEST_WAITING_MAX; i++) {
        struct test_waiting *w = &t->waiting[i];
        if (w->exchange == NULL) {
            continue;
        }
        bool complete = is_complete(w, s);
        if (!complete && clock_monotonic_ms(s->clock) < w->deadline_ms) {
            continue;
        }
        struct http_response response;
        http_response_init(&response);
        if (complete) {
            put_waited(w, s, &response);
        } else {
            test_route_refuse(&response, 503, w->order.name, "it is not complete after 20 s");
        }
        waiting_end(t, w, &response);
    }
}

static void await(struct test_route *t, const struct test_waiting *begun,
                  const struct http_request *request, struct http_response *response)
{
    struct service *s = server_service(t->view->server);
    size_t at = 0;
    if (is_complete(begun, s)) {
        put_waited(begun, s, response);
        return;
    }
    while (at < TEST_WAITING_MAX && t->waiting[at].exchange != NULL) {
        at++;
    }
    if (at == TEST_WAITING_MAX) {
        test_route_refuse(response, 503, begun->order.name,
                          "begun, but too many orders wait to be complete");
        return;
    }
    t->waiting[at] = *begun;
    t->waiting[at].order.op = NULL; /* borrowed from the request */
    t->waiting[at].exchange = request->exchange;
    t->waiting[at].deadline_ms = clock_monotonic_ms(s->clock) + TEST_WAIT_MS;
    response->later = true;
    if (t->waiting_count++ == 0 &&
        uv_timer_start(&t->timer, test_route_on_timer, LOOK_MS, LOOK_MS) != 0) {
        abort(); /* fails only for a handle that is closing */
    }
}

/* Orders */

static int drop(struct service *s, const struct test_order *order)
{
    if (order->when == TEST_NOW) {
        return faults_cut(s, order->session_id);
    }
    return faults_drop(s, order->session_id,
                       order->when == TEST_BEFORE ? FAULT_DROP_BEFORE : FAULT_DROP_AFTER,
                       order->op);
}

/* Carries out an order that is complete at once. */
static int test_carry_out(struct service *s, const struct test_order *order)
{
    switch (order->action) {
    case TEST_DROP:
        return drop(s, order);
    case TEST_DELAY:
        return faults_delay(s, order->session_id, order->ms);
    case TEST_PAUSE:
        return faults_pause(s, order->session_id, order->ms);
    case TEST_RESUME:
        return faults_resume(s, order->session_id);
    case TEST_REFUSE:
    case TEST_ACCEPT:
        faults_refuse(s, order->action == TEST_REFUSE ? order->ms : 0);
        return 0;
    case TEST_FREEZE:
    case TEST_UNFREEZE:
        faults_freeze(s, order->action == TEST_FREEZE);
        return 0;
    case TEST_CLEAR:
        faults_clear(s);
        return 0;
    default:
        assert(order->action == TEST_MARK);
        faults_mark(s);
        return 0;
    }
}

static void obey(struct test_route *t, const struct test_order *order,
                 const struct http_request *request, struct http_response *response)
{
    struct service *s = server_service(t->view->server);
    struct test_waiting begun = {.order = *order};
    int rc = 0;
    switch (order->action) {
    case TEST_REPORT:
        answer_report(s, response);
        return;
    case TEST_EXPIRE:
        rc = faults_expire(s, order->session_id);
        break;
    case TEST_ADVANCE:
        begun.expired = faults_counts(s->faults)->expired;
        begun.ended = faults_advance(s, order->ms);
        begun.expired += begun.ended;
        break;
    case TEST_RESET:
        rc = faults_reset(s);
        break;
    default:
        answer_outcome(response, order, test_carry_out(s, order));
        return;
    }
    if (rc != 0) {
        answer_outcome(response, order, rc);
        return;
    }
    await(t, &begun, request, response);
}

bool test_route_answer(struct test_route *t, const struct http_request *request,
                       struct http_response *response)
{
    struct test_order order;
    if (!test_order_is_one(request->path)) {
        return false;
    }
    if (t == NULL) {
        test_route_refuse(response, 404, NULL,
                          "this is no server for tests: start one with conclave server --test");
        return true;
    }
    if (!server_host_is_loopback(request->peer)) {
        test_route_refuse(response, 403, NULL, "orders of tests are taken from this machine only");
        return true;
    }
    if (strcmp(request->method, "POST") != 0) {
        response->allow = "POST";
        test_route_refuse(response, 405, NULL, "orders of tests need POST");
        return true;
    }
    const char *why = test_order_read(request, &order);
    if (why != NULL) {
        test_route_refuse(response, 400, NULL, why);
    } else if (!view_serving(t->view) || server_service(t->view->server)->faults == NULL) {
        test_route_refuse(response, 503, order.name, TEXT_NOT_SERVING);
    } else {
        obey(t, &order, request, response);
    }
    return true;
}

/* Begin and end */

struct test_route *test_route_create(uv_loop_t *loop, struct view *v)
{
    struct test_route *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    t->view = v;
    if (uv_timer_init(loop, &t->timer) != 0) {
        abort(); /* cannot fail */
    }
    t->timer.data = t;
    return t;
}

void test_route_cancel(struct test_route *t)
{
    for (size_t i = 0; i < TEST_WAITING_MAX; i++) {
        struct test_waiting *w = &t->waiting[i];
        if (w->exchange != NULL) {
            struct http_response response;
            http_response_init(&response);
            test_route_refuse(&response, 503, w->order.name, TEXT_NOT_SERVING);
            waiting_end(t, w, &response);
        }
    }
}

static void test_route_on_closed(uv_handle_t *handle)
{
    struct test_route *t = handle->data;
    if (t->closed != NULL) {
        t->closed(t->closed_ctx);
    }
    free(t);
}

void test_route_close(struct test_route *t, void (*cb)(void *ctx), void *ctx)
{
    if (t == NULL) {
        return;
    }
    test_route_cancel(t);
    t->closed = cb;
    t->closed_ctx = ctx;
    uv_close((uv_handle_t *)&t->timer, test_route_on_closed);
}
