/* What a follower asks of the managers: a fail-over, and their reports about the replicas. */
#include "base/clock.h"
#include "client/core/sized.h"
#include "recipes/engine/blocking_requests.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/persistent_node.h"
#include "recipes/follow/follow_master.h"
#include "recipes/follow/master_view.h"
#include "recipes/follow/replica_view.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 30, GRACE_MS = 500, TIMEOUT_MAX_MS = 86400000, MANAGERS_MAX = 64 };

/* --- a fail-over */

/* One request to the managers. */
struct follow_request {
    struct blocking ask;
    char *request; /* path, once it is there; NULL */
    char *result;
};

static bool never(void *ctx)
{
    return false;
}

/* Lets time pass; without threads, callbacks run meanwhile. */
static int follow_pause(struct conclave_client *client, int64_t ms)
{
    client_lock(client);
    int error = client_wait(client, never, NULL, client_deadline_ns(client, ms));
    client_unlock(client);
    return error == CONCLAVE_ETIMEDOUT ? 0 : error;
}

/* The request as JSON, to be freed with free. NULL: out of memory. */
static char *request_text(const struct conclave_redis_failover_options *o)
{
    int64_t expires_ms = clock_wall_ms(clock_system()) + o->timeout_ms;
    char *by = default_id();
    json_t *json = by == NULL ? NULL
                              : json_pack("{s:s, s:s?, s:b, s:I, s:s, s:I}", "kind", "failover",
                                          "target", o->target, "force", (int)o->force, "timeout_ms",
                                          (json_int_t)o->timeout_ms, "by", by, "expires_ms",
                                          (json_int_t)expires_ms);
    char *text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT);
    json_decref(json);
    free(by);
    return text;
}

/* Creates the request, once. */
static int request_put(struct follow_request *q, const struct conclave_redis *redis,
                       const struct conclave_redis_failover_options *o)
{
    struct conclave_reply *reply = NULL;
    char *path = follow_path(redis, "requests/req-");
    char *text = request_text(o);
    int error = CONCLAVE_ENOMEM;
    if (path != NULL && text != NULL) {
        struct conclave_op op =
            conclave_op_create(path, text, strlen(text), CONCLAVE_PERSISTENT_SEQUENTIAL);
        error = blocking_once(&q->ask, op, &reply);
    }
    if (error == 0) {
        const char *name = strrchr(reply->path, '/');
        char *below = text_concat("results", name);
        assert(name != NULL);
        q->request = text_concat(reply->path, "");
        q->result = below == NULL ? NULL : follow_path(redis, below);
        error = q->request == NULL || q->result == NULL ? CONCLAVE_ENOMEM : 0;
        free(below);
        if (error != 0) { /* or the managers would carry out what the caller asks for again */
            (void)!blocking_ask(&q->ask, CONCLAVE_OP_DELETE, reply->path, NULL);
        }
    }
    conclave_reply_free(reply);
    free(path);
    free(text);
    return error;
}

static const char *text_or_empty(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text == NULL ? "" : text;
}

static int result_read(const void *data, size_t len, struct conclave_redis_failover_result **ret)
{
    json_t *json;
    int error = redis_json_read(data, len, 0, &json);
    const json_t *lost = json_object_get(json, "lost_bytes");
    if (!json_is_boolean(json_object_get(json, "ok"))) {
        json_decref(json);
        return error == CONCLAVE_ENOMEM ? error : CONCLAVE_ECORRUPT;
    }
    const char *text = text_or_empty(json, "text");
    const char *master = text_or_empty(json, "master");
    struct conclave_redis_failover_result *result =
        malloc(sizeof *result + strlen(text) + strlen(master) + 2);
    if (result != NULL) {
        char *at = (char *)(result + 1);
        *result = (struct conclave_redis_failover_result){
            .ok = json_is_true(json_object_get(json, "ok")),
            .epoch = json_integer_value(json_object_get(json, "epoch")),
            .lost_bytes = json_is_integer(lost) ? json_integer_value(lost) : -1};
        result->text = block_add(&at, text, strlen(text));
        result->master = block_add(&at, master, strlen(master));
        *ret = result;
    }
    json_decref(json);
    return result == NULL ? CONCLAVE_ENOMEM : 0;
}

/* Reads the result. CONCLAVE_NO_NODE: there is none yet. */
static int result_look(struct follow_request *q, struct conclave_redis_failover_result **ret)
{
    struct conclave_reply *reply = NULL;
    int error = blocking_ask(&q->ask, CONCLAVE_OP_GET, q->result, &reply);
    if (error == 0) {
        error = result_read(reply->data, reply->data_len, ret);
    }
    conclave_reply_free(reply);
    return error;
}

/* Deletes the request, unless it was answered in the meantime: then this is the result. */
static int request_withdraw(struct follow_request *q, struct conclave_redis_failover_result **ret)
{
    struct conclave_reply *reply = NULL;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, q->request, -1);
    q->ask = blocking_begin(q->ask.client, GRACE_MS);
    int error = blocking_request(&q->ask, op, &reply);
    bool answered = error == CONCLAVE_NO_NODE && !q->ask.repeated;
    conclave_reply_free(reply);
    return answered && result_look(q, ret) == 0 ? 0 : CONCLAVE_ETIMEDOUT;
}

static int request_wait(struct follow_request *q, struct conclave_redis_failover_result **ret)
{
    for (;;) {
        int error = result_look(q, ret);
        if (error == CONCLAVE_NO_NODE && !blocking_is_late(&q->ask)) {
            error = follow_pause(q->ask.client, LOOK_MS);
            if (error == 0) {
                continue;
            }
        }
        if (error != 0 && request_withdraw(q, ret) == 0) {
            return 0;
        }
        return error == CONCLAVE_NO_NODE ? CONCLAVE_ETIMEDOUT : error;
    }
}

static int manager_check(const struct conclave_redis *redis)
{
    int error = recipes_may_block(follow_recipes(redis));
    if (error == 0 && !follow_is_native(redis)) {
        error = CONCLAVE_EINVAL;
    }
    return error;
}

static bool failover_valid(const struct conclave_redis_failover_options *o)
{
    char host[REDIS_VIEW_HOST_MAX + 1];
    int port;
    return o->timeout_ms > 0 && o->timeout_ms <= TIMEOUT_MAX_MS &&
           (o->target == NULL || redis_view_address(o->target, host, &port));
}

int conclave_redis_failover(struct conclave_redis *redis,
                            const struct conclave_redis_failover_options *options,
                            struct conclave_redis_failover_result **ret)
{
    struct conclave_redis_failover_options own = CONCLAVE_REDIS_FAILOVER_OPTIONS_INIT;
    struct follow_request q = {.request = NULL};
    int error = manager_check(redis);
    error = error == 0 ? sized_read(&own, options) : error;
    if (error == 0 && !failover_valid(&own)) {
        error = CONCLAVE_EINVAL;
    }
    if (error != 0) {
        return error;
    }
    q.ask = blocking_begin(follow_recipes(redis)->client, own.timeout_ms + GRACE_MS);
    error = request_put(&q, redis, &own);
    error = error == 0 ? request_wait(&q, ret) : error;
    free(q.request);
    free(q.result);
    return error;
}

void conclave_redis_failover_result_free(struct conclave_redis_failover_result *result)
{
    free(result);
}

/* --- reports */

/* Reads one report; a manager that has just left has none. */
static int report_ask(struct blocking *ask, const char *path, struct replica_report *ret)
{
    struct conclave_reply *reply = NULL;
    int error = blocking_ask(ask, CONCLAVE_OP_GET, path, &reply);
    if (error == 0) {
        size_t len;
        const void *data = member_payload(reply->data, reply->data_len, &len);
        error = replica_report_read(data, len, reply->stat.mtime_ms, ret);
    }
    conclave_reply_free(reply);
    return error == CONCLAVE_NO_NODE ? 0 : error;
}

static int reports_ask(struct blocking *ask, const char *folder,
                       struct replica_report reports[MANAGERS_MAX], size_t *ret_count)
{
    struct conclave_reply *reply = NULL;
    int error = blocking_ask(ask, CONCLAVE_OP_GET_CHILDREN, folder, &reply);
    size_t count = error == 0 ? reply->children_count : 0;
    *ret_count = 0;
    for (size_t i = 0; error == 0 && i < count && i < MANAGERS_MAX; i++) {
        char *path = path_join(folder, reply->children[i]);
        reports[*ret_count] = (struct replica_report){.json = NULL};
        error = path == NULL ? CONCLAVE_ENOMEM : report_ask(ask, path, &reports[*ret_count]);
        *ret_count += 1;
        free(path);
    }
    conclave_reply_free(reply);
    return error == CONCLAVE_NO_NODE ? 0 : error;
}

int conclave_redis_list_replicas(struct conclave_redis *redis, int64_t timeout_ms,
                                 struct conclave_redis_replicas **ret)
{
    struct replica_report reports[MANAGERS_MAX];
    struct conclave_redis_view *view = NULL;
    size_t count = 0;
    int error = manager_check(redis);
    if (error != 0) {
        return error;
    }
    struct blocking ask = blocking_begin(follow_recipes(redis)->client, timeout_ms);
    char *folder = follow_path(redis, "managers");
    error =
        folder == NULL ? CONCLAVE_ENOMEM : conclave_redis_wait_change(redis, 0, timeout_ms, &view);
    error = error == 0 ? reports_ask(&ask, folder, reports, &count) : error;
    error = error == 0 ? replica_view_make(view, reports, count, ret) : error;
    for (size_t i = 0; i < count; i++) {
        replica_report_finish(&reports[i]);
    }
    conclave_redis_view_free(view);
    free(folder);
    return error;
}
