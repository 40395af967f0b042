/*
 * The orders that tests give to a server for tests, POST /test/NAME?ARGUMENT=VALUE, as a table, and the reading of their
 * arguments:
 *
 *   session   the id of a session, hexadecimal as everywhere: 0x10a...; where it may be missing: every session
 *   ms        milliseconds, 0 to FAULTS_MS_MAX; where it may be missing: until another order
 *   when      now, before or after
 *   op        a request, as for faults_drop; missing: any
 *
 * An argument that an order does not take is ignored, as everywhere on this port.
 */
#ifndef ADMIN_HTTP_TEST_ORDER_H
#define ADMIN_HTTP_TEST_ORDER_H

#include "admin/http/http_exchange.h"

#include <stdbool.h>
#include <stdint.h>

enum test_action {
    TEST_EXPIRE,
    TEST_DROP,
    TEST_DELAY,
    TEST_PAUSE,
    TEST_RESUME,
    TEST_REFUSE,
    TEST_ACCEPT,
    TEST_ADVANCE,
    TEST_FREEZE,
    TEST_UNFREEZE,
    TEST_CLEAR,
    TEST_RESET,
    TEST_MARK,
    TEST_REPORT,
};

enum test_when { TEST_NOW, TEST_BEFORE, TEST_AFTER };

struct test_order {
    enum test_action action;
    const char *name;   /* fixed text */
    int64_t session_id; /* FAULTS_ALL: every session */
    int64_t ms;         /* FAULTS_FOREVER: until another order */
    enum test_when when;
    const char *op; /* borrowed from the request; NULL: any */
};

/* Whether the path begins with /test/. */
bool test_order_is_one(const char *path);

/* Reads an order. NULL, or why it is none: a fixed text. */
const char *test_order_read(const struct http_request *request, struct test_order *ret);

#endif
