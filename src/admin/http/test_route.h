/*
 * POST /test/NAME?ARGUMENT=VALUE: a test gives orders to a server for tests (test_order.h, front/faults.h) and asks what
 * happened. Only with --test, and only from this machine: otherwise 404 and 403.
 *
 * Answers are JSON: {"command": NAME, "error": null or what is wrong and what to do, ...}. expire, advance and reset are
 * answered when the sessions have ended and the nodes are gone; all others are carried out before the answer.
 * Limits: TEST_WAITING_MAX orders that wait, each for TEST_WAIT_MS at most; TEST_SESSIONS_MAX sessions in a report.
 */
#ifndef ADMIN_HTTP_TEST_ROUTE_H
#define ADMIN_HTTP_TEST_ROUTE_H

#include "admin/answers/server_view.h"
#include "admin/http/http_exchange.h"

#include <uv.h>

enum {
    TEST_WAITING_MAX = 16,
    TEST_WAIT_MS = 20000,
    TEST_SESSIONS_MAX = 1000,
};

struct test_route;

/* NULL: out of memory. */
struct test_route *test_route_create(uv_loop_t *loop, struct view *v);

/* Answers all orders that wait; the server goes. */
void test_route_cancel(struct test_route *t);

/* Frees t and calls cb from the loop. NULL does nothing. */
void test_route_close(struct test_route *t, void (*cb)(void *ctx), void *ctx);

/* Answers a request for /test/...; false: it is none. t NULL: this is no server for tests. */
bool test_route_answer(struct test_route *t, const struct http_request *request,
                       struct http_response *response);

#endif
