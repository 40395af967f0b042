/*
 * One order to a server for tests: a POST over HTTP/1.0 to its admin port, and the JSON of the answer. Blocks, for at most
 * ORDER_TIMEOUT_S seconds per step. Limit: answers of ORDER_ANSWER_MAX bytes.
 */
#ifndef TESTING_ORDER_CALL_H
#define TESTING_ORDER_CALL_H

#include <conclave/error.h>

#include <jansson.h>

enum { ORDER_TIMEOUT_S = 40, ORDER_ANSWER_MAX = 1 << 20, ORDER_PROBLEM_MAX = 400 };

/* address: "127.0.0.1:PORT" or "[::1]:PORT"; target: "/test/expire?session=0x1". 0 and *ret (json_decref it), or an error
 * as in conclave/test_server.h with a text in problem. */
int order_call(const char *address, const char *target, char problem[ORDER_PROBLEM_MAX],
               json_t **ret) CONCLAVE_MUST_USE;

/* Reads an answer, which begins with the status line. Errors as order_call. */
int order_read_answer(const char *bytes, size_t len, char problem[ORDER_PROBLEM_MAX],
                      json_t **ret) CONCLAVE_MUST_USE;

#endif
