/* The report of a server for tests, read from its JSON. */
#ifndef TESTING_TEST_REPORT_H
#define TESTING_TEST_REPORT_H

#include <conclave/test_server.h>

#include <jansson.h>

/* 0, CONCLAVE_ECORRUPT or CONCLAVE_ENOMEM. Takes over json in any case. */
int test_report_read(json_t *json_take, struct conclave_test_report **ret) CONCLAVE_MUST_USE;

#endif
