/* What a server for tests says: its ready line, the answers to orders, its report. */
#include "testing/order_call.h"
#include "testing/server_child.h"
#include "testing/test_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_ready_line(void **state)
{
    struct server_child c;
    char text[400] = "conclave: ready client=";
    assert_true(server_child_read_line(
        "conclave: ready client=127.0.0.1:1 admin=[::1]:2 mode=standalone id=1\n", &c));
    assert_string_equal(c.hosts, "127.0.0.1:1");
    assert_string_equal(c.admin, "[::1]:2");
    assert_false(server_child_read_line("", &c));
    assert_false(server_child_read_line("conclave: ready client=127.0.0.1:1\n", &c));
    assert_false(server_child_read_line("conclave: ready client= admin=x:1\n", &c));
    assert_false(server_child_read_line("ready client=a:1 admin=b:2\n", &c));
    memset(text + strlen(text), 'x', 200);
    strcat(text, " admin=b:2\n");
    assert_false(server_child_read_line(text, &c));
}

static int read_answer(const char *text, char problem[ORDER_PROBLEM_MAX])
{
    json_t *json = NULL;
    problem[0] = '\0';
    int rc = order_read_answer(text, strlen(text), problem, &json);
    assert_true((rc == 0) == (json != NULL) && (rc == 0) == (problem[0] == '\0'));
    json_decref(json);
    return rc;
}

static void test_answers(void **state)
{
    char problem[ORDER_PROBLEM_MAX];
    assert_int_equal(read_answer("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{\"error\": null}\n", problem), 0);
    assert_int_equal(read_answer("HTTP/1.1 404 N\r\n\r\n{\"error\": \"none\"}", problem),
                     CONCLAVE_NO_NODE);
    assert_string_equal(problem, "none");
    assert_int_equal(read_answer("HTTP/1.1 409 N\r\n\r\n{\"error\": \"x\"}", problem),
                     CONCLAVE_EBUSY);
    assert_int_equal(read_answer("HTTP/1.1 400 N\r\n\r\n{\"error\": \"x\"}", problem),
                     CONCLAVE_EINVAL);
    assert_int_equal(read_answer("HTTP/1.1 503 N\r\n\r\n{\"error\": \"x\"}", problem),
                     CONCLAVE_EIO);
    static const char *const bad[] = {
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n[]",
        "HTTP/1.1 200 OK\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\n\r\n{\"error\": \"x\"}",
        "HTTP/1.1 404 N\r\n\r\n{\"error\": null}",
        "HTTP/1.1 404 N\r\n\r\nnot found",
        "FTP/11.1 200 OK\r\n\r\n{\"error\": null}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(read_answer(bad[i], problem), CONCLAVE_ECORRUPT);
    }
    json_t *json = NULL;
    assert_int_equal(order_call("off", "/test/mark", problem, &json), CONCLAVE_EDISCONNECTED);
    assert_non_null(strstr(problem, "off"));
    assert_int_equal(order_call("[x:1", "/test/mark", problem, &json), CONCLAVE_EDISCONNECTED);
    assert_int_equal(order_call("127.0.0.1:99999", "/", problem, &json), CONCLAVE_EDISCONNECTED);
}

static void test_reports(void **state)
{
    struct conclave_test_report *r = NULL;
    json_t *json =
        json_loads("{\"since_ms\": 5, \"connections\": {\"open\": 1, \"accepted\": 2},"
                   "\"sessions\": {\"open\": 1, \"list\": [{\"id\": \"0xffffffffffffffff\","
                   "\"timeout_ms\": 9, \"connected\": true, \"watches\": 3}]},"
                   "\"requests\": {\"create\": 4, \"total\": 4}, \"watches\": {\"told\": 7}}",
                   0, NULL);
    assert_int_equal(test_report_read(json, &r), 0);
    assert_true(r->since_ms == 5 && r->connections_open == 1 && r->connections_accepted == 2);
    assert_true(r->session_count == 1 && r->sessions[0].id == -1 && r->sessions[0].connected);
    assert_true(r->sessions[0].timeout_ms == 9 && r->sessions[0].watches == 3);
    assert_true(r->requests == 4 && r->kind_count == 1 && r->watches_told == 7);
    assert_int_equal(conclave_test_report_requests(r, "create"), 4);
    assert_int_equal(conclave_test_report_requests(r, "total"), 0);
    conclave_test_report_free(r);
    conclave_test_report_free(NULL);
    assert_int_equal(test_report_read(json_loads("{}", 0, NULL), &r), CONCLAVE_ECORRUPT);
    json = json_loads("{\"sessions\": {\"list\": [{}]}, \"requests\": {}}", 0, NULL);
    assert_int_equal(test_report_read(json, &r), CONCLAVE_ECORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ready_line),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_reports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
