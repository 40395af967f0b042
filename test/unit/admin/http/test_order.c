/* The orders of tests: which requests are some, what they say, and why others are refused. */
#include "admin/http/test_order.h"

#include "front/faults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct {
    struct test_order order;
    const char *why;
    char op[32];
    bool asked;
} read_last;

static void on_request(void *ctx, const struct http_request *request,
                       struct http_response *response)
{
    read_last.asked = true;
    read_last.why = test_order_read(request, &read_last.order);
    if (read_last.why == NULL && read_last.order.op != NULL) {
        snprintf(read_last.op, sizeof read_last.op, "%s", read_last.order.op);
    }
}

/* Reads the order in this target; why it is none. */
static const char *read_order(const char *target)
{
    struct http_answerer answerer = {.fn = on_request};
    struct http_holder holder = {.peer = "127.0.0.1"};
    struct http_exchange *x = http_exchange_create(&answerer, &holder);
    char text[512];
    memset(&read_last, 0, sizeof read_last);
    snprintf(text, sizeof text, "POST %s HTTP/1.1\r\nHost: localhost\r\n\r\n", target);
    assert_non_null(x);
    assert_int_equal(http_exchange_take(x, slice_str(text)), strlen(text));
    assert_true(read_last.asked);
    http_exchange_destroy(x);
    return read_last.why;
}

static void test_which(void **state)
{
    assert_true(test_order_is_one("/test/x") && test_order_is_one("/test/"));
    assert_false(test_order_is_one("/test") || test_order_is_one("/tests/x"));
}

static void test_good(void **state)
{
    const struct test_order *o = &read_last.order;
    assert_null(read_order("/test/expire?session=0x1F"));
    assert_true(o->action == TEST_EXPIRE && o->session_id == 31);
    assert_string_equal(o->name, "expire");
    assert_null(read_order("/test/expire?session=0xffffffffffffffff"));
    assert_true(o->session_id == -1);
    assert_null(read_order("/test/drop?session=0x1&when=now"));
    assert_true(o->action == TEST_DROP && o->when == TEST_NOW && o->op == NULL);
    assert_null(read_order("/test/drop?when=after&op=create"));
    assert_true(o->when == TEST_AFTER && o->session_id == FAULTS_ALL);
    assert_string_equal(read_last.op, "create");
    assert_null(read_order("/test/drop?when=before&op=write"));
    assert_true(o->when == TEST_BEFORE);
    assert_null(read_order("/test/delay?ms=0"));
    assert_true(o->action == TEST_DELAY && o->ms == 0);
    assert_null(read_order("/test/pause"));
    assert_true(o->action == TEST_PAUSE && o->ms == FAULTS_FOREVER && o->session_id == FAULTS_ALL);
    assert_null(read_order("/test/pause?ms=86400000&session=0x2"));
    assert_true(o->ms == FAULTS_MS_MAX && o->session_id == 2);
    assert_null(read_order("/test/advance?ms=5"));
    assert_true(o->action == TEST_ADVANCE && o->ms == 5);
    static const char *const plain[] = {"resume", "refuse", "accept", "freeze", "unfreeze",
                                        "clear",  "reset",  "mark",   "report"};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        char target[64];
        snprintf(target, sizeof target, "/test/%s?unknown=1", plain[i]);
        assert_null(read_order(target));
        assert_string_equal(o->name, plain[i]);
    }
}

static void test_bad(void **state)
{
    static const char *const cases[][2] = {
        {"/test/", "no such order"},
        {"/test/expires", "no such order"},
        {"/test/expire/x", "no such order"},
        {"/test/expire", "session is missing"},
        {"/test/expire?session=", "not the id"},
        {"/test/expire?session=1", "not the id"},
        {"/test/expire?session=0x", "not the id"},
        {"/test/expire?session=0x0", "not the id"},
        {"/test/expire?session=0x1g", "not the id"},
        {"/test/expire?session=0x10000000000000000", "not the id"},
        {"/test/delay", "ms is missing"},
        {"/test/delay?ms=", "not a number"},
        {"/test/delay?ms=-1", "not a number"},
        {"/test/delay?ms=+1", "not a number"},
        {"/test/delay?ms=1s", "not a number"},
        {"/test/delay?ms=86400001", "not a number"},
        {"/test/pause?ms=99999999999999999999", "not a number"},
        {"/test/drop", "when"},
        {"/test/drop?when=", "when"},
        {"/test/drop?when=now", "session"},
        {"/test/drop?when=after&op=", "op"},
        {"/test/drop?when=after&op=nothing", "op"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *why = read_order(cases[i][0]);
        if (why == NULL || strstr(why, cases[i][1]) == NULL) {
            fail_msg("%s: %s", cases[i][0], why != NULL ? why : "no error");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which),
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
