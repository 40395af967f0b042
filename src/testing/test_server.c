/* The handle: a child process and one order at a time. Its child has ended when the handle is gone. */
#include <conclave/test_server.h>

#include "client/core/sized.h"
#include "testing/order_call.h"
#include "testing/server_child.h"
#include "testing/test_report.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READY_MS = 30000,
    DAY_MS = 86400000,
    TARGET_MAX = 256,
};

struct conclave_test_server {
    struct server_child child;
    pthread_mutex_t mutex; /* one order at a time; guards problem */
    char problem[ORDER_PROBLEM_MAX];
};

int conclave_test_server_open(const struct conclave_test_server_options *given,
                              struct conclave_test_server **ret, char **ret_problem)
{
    struct conclave_test_server_options options = CONCLAVE_TEST_SERVER_OPTIONS_INIT;
    char *problem = NULL;
    int rc = given != NULL ? sized_read(&options, given) : 0;
    struct conclave_test_server *s = rc == 0 ? calloc(1, sizeof *s) : NULL;
    const char *program = options.program != NULL ? options.program : getenv("CONCLAVE");
    if (rc != 0 || options.timeout_ms < 0) {
        rc = CONCLAVE_EINVAL;
        problem = strdup("the options are wrong: begin with CONCLAVE_TEST_SERVER_OPTIONS_INIT, and "
                         "set no negative time");
    } else if (s == NULL || pthread_mutex_init(&s->mutex, NULL) != 0) {
        free(s);
        s = NULL;
        rc = CONCLAVE_ENOMEM;
    } else {
        rc = server_child_start(
            &s->child, program != NULL && program[0] != '\0' ? program : "conclave",
            options.arguments, options.timeout_ms != 0 ? options.timeout_ms : READY_MS, &problem);
        if (rc != 0) {
            pthread_mutex_destroy(&s->mutex);
        }
    }
    if (rc == 0) {
        *ret = s;
        return 0;
    }
    free(s);
    if (ret_problem != NULL) {
        *ret_problem = problem;
    } else {
        free(problem);
    }
    return rc;
}

int conclave_test_server_close(struct conclave_test_server *server)
{
    if (server == NULL) {
        return 0;
    }
    assert(server->child.pid > 0);
    int rc = server_child_end(&server->child);
    assert(server->child.pid == 0 && server->child.input < 0);
    pthread_mutex_destroy(&server->mutex);
    free(server);
    return rc;
}

const char *conclave_test_server_hosts(const struct conclave_test_server *server)
{
    return server->child.hosts;
}

const char *conclave_test_server_admin(const struct conclave_test_server *server)
{
    return server->child.admin;
}

int64_t conclave_test_server_pid(const struct conclave_test_server *server)
{
    return server->child.pid;
}

const char *conclave_test_server_problem(const struct conclave_test_server *server)
{
    return server->problem;
}

/* Gives an order; its answer is in *ret_json (json_decref it), unless ret_json is NULL. */
static int give_order(struct conclave_test_server *server, const char *target, json_t **ret_json)
{
    json_t *json = NULL;
    pthread_mutex_lock(&server->mutex);
    server->problem[0] = '\0';
    int rc = order_call(server->child.admin, target, server->problem, &json);
    pthread_mutex_unlock(&server->mutex);
    assert((rc == 0) == (json != NULL));
    if (rc == 0 && ret_json != NULL) {
        *ret_json = json;
    } else {
        json_decref(json);
    }
    return rc;
}

static int refuse_argument(struct conclave_test_server *server, const char *why)
{
    pthread_mutex_lock(&server->mutex);
    snprintf(server->problem, sizeof server->problem, "%s", why);
    pthread_mutex_unlock(&server->mutex);
    return CONCLAVE_EINVAL;
}

/* ms: CONCLAVE_TEST_FOREVER leaves the argument out. */
static int order_for(struct conclave_test_server *server, const char *name, int64_t session,
                     bool with_ms, int64_t ms)
{
    char target[TARGET_MAX];
    char who[64] = "";
    char time[64] = "";
    if (with_ms && (ms < 0 || ms > DAY_MS) && ms != CONCLAVE_TEST_FOREVER) {
        return refuse_argument(server, "ms is not from 0 to 86400000 (a day)");
    }
    if (session != CONCLAVE_TEST_ALL) {
        snprintf(who, sizeof who, "&session=0x%llx", (unsigned long long)session);
    }
    if (with_ms && ms != CONCLAVE_TEST_FOREVER) {
        snprintf(time, sizeof time, "&ms=%lld", (long long)ms);
    }
    snprintf(target, sizeof target, "/test/%s?order=1%s%s", name, who, time);
    return give_order(server, target, NULL);
}

int conclave_test_server_expire(struct conclave_test_server *server, int64_t session)
{
    if (session == CONCLAVE_TEST_ALL) {
        return refuse_argument(server, "expire ends one session: give its id");
    }
    return order_for(server, "expire", session, false, 0);
}

int conclave_test_server_drop(struct conclave_test_server *server, int64_t session,
                              enum conclave_test_when when, const char *request)
{
    static const char *const names[] = {"drop?when=now", "drop?when=before", "drop?when=after"};
    char target[TARGET_MAX];
    if ((int)when < CONCLAVE_TEST_NOW || (int)when > CONCLAVE_TEST_AFTER) {
        return refuse_argument(server, "when is none of CONCLAVE_TEST_NOW, _BEFORE and _AFTER");
    }
    if (request != NULL &&
        (request[0] == '\0' || strlen(request) > 32 ||
         request[strspn(
             request, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")] != '\0')) {
        return refuse_argument(server, "request is no name of a request, such as create or write");
    }
    int len = snprintf(target, sizeof target, "/test/%s%s%s", names[when],
                       request != NULL ? "&op=" : "", request != NULL ? request : "");
    if (session != CONCLAVE_TEST_ALL) {
        snprintf(target + len, sizeof target - (size_t)len, "&session=0x%llx",
                 (unsigned long long)session);
    }
    return give_order(server, target, NULL);
}

/* Orders that need a time. */
static int order_with_time(struct conclave_test_server *server, const char *name, int64_t session,
                           int64_t ms)
{
    if (ms == CONCLAVE_TEST_FOREVER) {
        return refuse_argument(server, "ms is not from 0 to 86400000 (a day)");
    }
    return order_for(server, name, session, true, ms);
}

int conclave_test_server_delay(struct conclave_test_server *server, int64_t session, int64_t ms)
{
    return order_with_time(server, "delay", session, ms);
}

int conclave_test_server_pause(struct conclave_test_server *server, int64_t session, int64_t ms)
{
    return order_for(server, "pause", session, true, ms);
}

int conclave_test_server_resume(struct conclave_test_server *server, int64_t session)
{
    return order_for(server, "resume", session, false, 0);
}

int conclave_test_server_refuse(struct conclave_test_server *server, int64_t ms)
{
    return order_for(server, "refuse", CONCLAVE_TEST_ALL, true, ms);
}

int conclave_test_server_accept(struct conclave_test_server *server)
{
    return order_for(server, "accept", CONCLAVE_TEST_ALL, false, 0);
}

int conclave_test_server_advance(struct conclave_test_server *server, int64_t ms,
                                 uint64_t *ret_expired)
{
    char target[TARGET_MAX];
    json_t *json = NULL;
    if (ms < 0 || ms > DAY_MS) {
        return refuse_argument(server, "ms is not from 0 to 86400000 (a day)");
    }
    snprintf(target, sizeof target, "/test/advance?ms=%lld", (long long)ms);
    int rc = give_order(server, target, &json);
    if (rc == 0 && ret_expired != NULL) {
        json_int_t n = json_integer_value(json_object_get(json, "expired"));
        *ret_expired = n > 0 ? (uint64_t)n : 0;
    }
    json_decref(json);
    return rc;
}

int conclave_test_server_freeze(struct conclave_test_server *server, bool frozen)
{
    return order_for(server, frozen ? "freeze" : "unfreeze", CONCLAVE_TEST_ALL, false, 0);
}

int conclave_test_server_clear(struct conclave_test_server *server)
{
    return order_for(server, "clear", CONCLAVE_TEST_ALL, false, 0);
}

int conclave_test_server_reset(struct conclave_test_server *server)
{
    return order_for(server, "reset", CONCLAVE_TEST_ALL, false, 0);
}

int conclave_test_server_mark(struct conclave_test_server *server)
{
    return order_for(server, "mark", CONCLAVE_TEST_ALL, false, 0);
}

int conclave_test_server_report(struct conclave_test_server *server,
                                struct conclave_test_report **ret)
{
    json_t *json = NULL;
    int rc = give_order(server, "/test/report", &json);
    return rc == 0 ? test_report_read(json, ret) : rc;
}
