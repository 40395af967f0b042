#include "admin/http/token_route.h"

#include "admin/answers/four_letter_text.h"
#include "base/hex.h"
#include "base/json.h"
#include "cluster/replica.h"
#include "daemon/server.h"
#include "front/service.h"
#include "replication/replication.h"
#include "tree/path.h"
#include "wire/java_number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A request that waits for its proof. */
struct token_question {
    struct list link; /* in tokens.waiting, oldest first */
    struct confirmation confirmation;
    struct tokens *tokens;
    struct http_exchange *exchange; /* NULL: the request just came, and may be answered at once */
    struct http_response *response; /* used while exchange is NULL */
    int64_t deadline_ms;
    int64_t token;
    char path[];
};

struct tokens {
    uv_timer_t timer; /* runs while a request waits */
    struct view *view;
    struct list waiting;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

static int64_t tokens_now_ms(const struct tokens *t)
{
    return (int64_t)uv_now(t->timer.loop);
}

/* Answers */

static void put_json(struct http_response *response, struct json *json)
{
    response->content_type = "application/json;charset=utf-8";
    buf_append_slice(&response->body, buf_slice(&json->out));
    response->body.failed |= json->out.failed;
    json_finish(json);
}

static void tokens_refuse(struct http_response *response, unsigned status, const char *why)
{
    struct json json;
    json_init_pretty(&json);
    json_object_begin(&json);
    json_member_string(&json, "error", why);
    json_object_end(&json);
    response->status = status;
    put_json(response, &json);
}

/* The answer names the ensemble, because tokens of different ensembles cannot be compared. */
static void put_ensemble(struct json *json, struct server *s)
{
    const struct replication *log = replica_log(server_node(s));
    uint8_t cluster[FORMAT_CLUSTER_SIZE];
    char text[2 * sizeof cluster + 1];
    if (log == NULL) {
        json_member_null(json, "ensemble"); /* the folder is being opened again */
        return;
    }
    replication_cluster(log, cluster);
    hex_encode(cluster, sizeof cluster, text);
    json_member_string(json, "ensemble", text);
}

/* The applied state is proved to be the newest: answers. */
static void question_answer(struct token_question *q, struct http_response *response)
{
    struct server *server = q->tokens->view->server;
    struct service *s = server_service(server);
    struct state_holder holder;
    struct json json;
    bool held = state_holder(s->state, slice_str(q->path), &holder);
    bool current = held && !holder.shared && holder.czxid == q->token;
    s->metrics->conclave_token_checks_total++;
    s->metrics->conclave_token_checks_stale_total += !current;
    json_init_pretty(&json);
    json_object_begin(&json);
    json_member_string(&json, "path", q->path);
    json_member_int(&json, "token", q->token);
    json_member_bool(&json, "current", current);
    if (held && !holder.shared) {
        json_member_int(&json, "newest", holder.czxid);
    } else {
        json_member_null(&json, "newest");
    }
    put_ensemble(&json, server);
    json_object_end(&json);
    response->status = current ? 200 : 409;
    put_json(response, &json);
}

static void question_end(struct token_question *q, struct http_response *response_take)
{
    struct tokens *t = q->tokens;
    http_answer(q->exchange, response_take);
    list_remove(&q->link);
    list_remove(&q->confirmation.link);
    free(q);
    if (list_empty(&t->waiting)) {
        (void)uv_timer_stop(&t->timer);
    }
}

static void question_fail(struct token_question *q, const char *why)
{
    struct http_response response;
    http_response_init(&response);
    tokens_refuse(&response, 503, why);
    question_end(q, &response);
}

static void question_on_confirmed(void *ctx)
{
    struct token_question *q = ctx;
    struct http_response response;
    if (q->exchange == NULL) {
        question_answer(q, q->response);
        q->response = NULL;
        return;
    }
    http_response_init(&response);
    question_answer(q, &response);
    question_end(q, &response);
}

static struct token_question *tokens_oldest(const struct tokens *t)
{
    /* The analyzer does not see list_remove. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    return list_empty(&t->waiting) ? NULL
                                   : CONTAINER_OF(t->waiting.next, struct token_question, link);
}

static void tokens_on_timer(uv_timer_t *timer)
{
    struct tokens *t = timer->data;
    struct token_question *q;
    while ((q = tokens_oldest(t)) != NULL && q->deadline_ms <= tokens_now_ms(t)) {
        question_fail(q, "no quorum answered in time");
    }
}

/* Questions */

static struct token_question *question_make(struct tokens *t, const char *path, int64_t token)
{
    size_t len = strlen(path) + 1;
    struct token_question *q = calloc(1, sizeof *q + len);
    if (q == NULL) {
        return NULL;
    }
    memcpy(q->path, path, len);
    q->tokens = t;
    q->token = token;
    q->deadline_ms = tokens_now_ms(t) + TOKEN_WAIT_MS;
    list_init(&q->link);
    return q;
}

static void question_ask(struct tokens *t, const char *path, int64_t token,
                         const struct http_request *request, struct http_response *response)
{
    enum { LOOK_MS = 50 };
    struct token_question *q = question_make(t, path, token);
    if (q == NULL) {
        tokens_refuse(response, 500, "out of memory");
        return;
    }
    q->response = response;
    confirmation_ask(server_service(t->view->server), &q->confirmation, question_on_confirmed, q);
    if (q->response == NULL) {
        free(q);
        return;
    }
    q->exchange = request->exchange;
    response->later = true;
    list_push_back(&t->waiting, &q->link);
    if (!uv_is_active((uv_handle_t *)&t->timer) &&
        uv_timer_start(&t->timer, tokens_on_timer, LOOK_MS, LOOK_MS) != 0) {
        abort(); /* fails only for a handle that is closing */
    }
}

bool tokens_answer(struct tokens *t, const struct http_request *request,
                   struct http_response *response)
{
    if (strcmp(request->path, "/fence") != 0 || t->view->server == NULL) {
        return false;
    }
    if ((server_service(t->view->server)->command_options & COMMAND_FENCING) == 0) {
        tokens_refuse(response, 404, "fencing is off on this server: set fencing.enabled=yes");
        return true;
    }
    const char *path = http_argument(request, "path");
    const char *text = http_argument(request, "token");
    int64_t token;
    if (path == NULL || !path_valid(slice_str(path)) || text == NULL ||
        !java_number_parse(slice_str(text), &token)) {
        tokens_refuse(response, 400, "use /fence?path=PATH&token=N");
    } else if (!view_serving(t->view)) {
        tokens_refuse(response, 503, TEXT_NOT_SERVING);
    } else {
        question_ask(t, path, token, request, response);
    }
    return true;
}

/* Begin and end */

struct tokens *tokens_create(uv_loop_t *loop, struct view *v)
{
    struct tokens *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    t->view = v;
    list_init(&t->waiting);
    if (uv_timer_init(loop, &t->timer) != 0) {
        abort(); /* cannot fail */
    }
    t->timer.data = t;
    return t;
}

void tokens_cancel(struct tokens *t)
{
    struct token_question *q;
    while ((q = tokens_oldest(t)) != NULL) {
        question_fail(q, TEXT_NOT_SERVING);
    }
}

static void tokens_on_closed(uv_handle_t *handle)
{
    struct tokens *t = handle->data;
    if (t->closed != NULL) {
        t->closed(t->closed_ctx);
    }
    free(t);
}

void tokens_close(struct tokens *t, void (*cb)(void *ctx), void *ctx)
{
    if (t == NULL) {
        return;
    }
    tokens_cancel(t);
    t->closed = cb;
    t->closed_ctx = ctx;
    uv_close((uv_handle_t *)&t->timer, tokens_on_closed);
}
