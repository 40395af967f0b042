/* Addresses of collectors. */
#include "front/traces/trace_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void addresses(void **state)
{
    static const struct {
        const char *url, *host, *path;
        uint16_t port;
    } rows[] = {
        {"http://127.0.0.1", "127.0.0.1", "/v1/traces", 4318},
        {"http://collector/", "collector", "/", 4318},
        {"http://collector:80/otlp/v1/traces?x=1", "collector", "/otlp/v1/traces?x=1", 80},
        {"http://[::1]", "::1", "/v1/traces", 4318},
        {"http://[::1]:9/a", "::1", "/a", 9},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct trace_options o = {.sample = 7};
        const char *why = NULL;
        assert_int_equal(trace_options_set(&o, rows[i].url, &why), 0);
        assert_true(o.on && o.sample == 7);
        assert_string_equal(o.to.host, rows[i].host);
        assert_int_equal(o.to.port, rows[i].port);
        assert_string_equal(o.path, rows[i].path);
        assert_int_equal(trace_options_set(&o, "", &why), 0);
        assert_false(o.on);
    }
}

static void what_is_no_address(void **state)
{
    char path[TRACE_PATH_MAX + 32] = "http://host/";
    char host[2 * NET_HOST_MAX] = "http://";
    memset(path + strlen(path), 'x', TRACE_PATH_MAX);
    memset(host + strlen(host), 'x', NET_TEXT_MAX);
    const char *const rows[] = {"https://host",
                                "host:4318",
                                "http://",
                                "http:///path",
                                "http://host:0",
                                "http://host:65536",
                                "http://:1",
                                "http://::1",
                                "http://host/a\r\nb",
                                "http://host/\xc3\xa4",
                                path,
                                host};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct trace_options o = {.on = false};
        const char *why = NULL;
        assert_int_equal(trace_options_set(&o, rows[i], &why), CONCLAVE_EINVAL);
        assert_true(why != NULL && !o.on);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses),
        cmocka_unit_test(what_is_no_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
