/* The text behind server.N=: every form of it, the one form that equal lines share, and what is
 * refused with which words. */
#include "front/server_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_forms(void **state)
{
    static const char *const cases[][2] = {
        {"h:2888:3888", "h:2888:3888:participant"},
        {"h:2888:3888:participant", "h:2888:3888:participant"},
        {"h:2888:3888:PARTICIPANT;", "h:2888:3888:participant"},
        {"h:2888:3888:Observer;2181", "h:2888:3888:observer;0.0.0.0:2181"},
        {"h:2888:3888;2181", "h:2888:3888:participant;0.0.0.0:2181"},
        {"h:2888:3888;c.example:2181", "h:2888:3888:participant;c.example:2181"},
        {"127.0.0.1:1:65535;[::1]:1", "127.0.0.1:1:65535:participant;[::1]:1"},
        {"[fe80::1%eth0]:2888:3888:observer", "[fe80::1%eth0]:2888:3888:observer"},
        {"a:1:2|[::1]:3:4|c:5:6:observer;7", "a:1:2|[::1]:3:4|c:5:6:observer;0.0.0.0:7"},
        {"a:1:2:observer|b:3:4:observer", "a:1:2|b:3:4:observer"},
        {"h:2888:3888:|;", "h:2888:3888:participant"},
        {"zoo_1.x-y:02888:3888", "zoo_1.x-y:2888:3888:participant"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct server_line l;
        struct buf out;
        const char *why = NULL;
        assert_int_equal(server_line_parse(cases[i][0], &l, &why), 0);
        buf_init(&out, 0);
        server_line_print(&l, &out);
        assert_string_equal(buf_cstr(&out), cases[i][1]);
        server_line_finish(&l);
        /* A printed line is read back as the same. */
        assert_int_equal(server_line_parse(cases[i][1], &l, &why), 0);
        buf_reset(&out);
        server_line_print(&l, &out);
        assert_string_equal(buf_cstr(&out), cases[i][1]);
        server_line_finish(&l);
        buf_finish(&out);
    }
}

static void test_parts(void **state)
{
    struct server_line l;
    const char *why = NULL;
    assert_int_equal(server_line_parse("a:1:2|[::1]:3:4:observer;[::2]:5", &l, &why), 0);
    assert_true(l.observer);
    assert_int_equal(l.n_hosts, 2);
    assert_string_equal(l.hosts[0].host, "a");
    assert_int_equal(l.hosts[0].port, 1);
    assert_int_equal(l.election_ports[0], 2);
    assert_string_equal(l.hosts[1].host, "::1");
    assert_int_equal(l.hosts[1].port, 3);
    assert_int_equal(l.election_ports[1], 4);
    assert_true(l.has_client);
    assert_string_equal(l.client.host, "::2");
    assert_int_equal(l.client.port, 5);
    server_line_finish(&l);
}

static void test_refused(void **state)
{
    static const char *const cases[][2] = {
        {"", "is not host:port"},
        {"h", "is not host:port"},
        {"h:1", "is not host:port"},
        {"h:1:2:observer:x", "is not host:port"},
        {"::1:1:2", "is not host:port"},
        {"[::1:1:2", "is not host:port"},
        {"[::1]1:2", "is not host:port"},
        {"|h:1:2", "is not host:port"},
        {":1:2", "no host"},
        {"a b:1:2", "no host"},
        {"h\n:1:2", "no host"},
        {"h:0:2", "port"},
        {"h:1:65536", "port"},
        {"h:-1:2", "port"},
        {"h:1x:2", "port"},
        {"h:7:7", "twice"},
        {"h:1:2:leader", "role"},
        {"h:1:2:observer|i:1:2:participant", "different roles"},
        {"h:1:2;0", "client port"},
        {"h:1:2;x", "client port"},
        {"h:1:2;:2181", "client address"},
        {"h:1:2;a:b:1", "is not host:port"},
        {"h:1:2;1;2", "is not host:port"},
        {"a:1:2|a:1:2|a:1:2|a:1:2|a:1:2|a:1:2|a:1:2|a:1:2|a:1:2", "more than 8"},
    };
    struct server_line l;
    const char *why = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        why = "";
        assert_int_equal(server_line_parse(cases[i][0], &l, &why), CONCLAVE_EINVAL);
        if (strstr(why, cases[i][1]) == NULL) {
            fail_msg("'%s' %s", cases[i][0], why);
        }
    }
    char text[2 * SERVER_TEXT_MAX];
    snprintf(text, sizeof text, "%0*d:1:2", NET_HOST_MAX, 0);
    assert_int_equal(server_line_parse(text, &l, &why), CONCLAVE_EINVAL);
    snprintf(text, sizeof text, "h:%0*d:2", SERVER_TEXT_MAX, 1);
    assert_int_equal(server_line_parse(text, &l, &why), CONCLAVE_EINVAL);
}

static void test_loopback(void **state)
{
    static const char *const inside[] = {"localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "::1"};
    static const char *const outside[] = {
        "",   "0.0.0.0", "128.0.0.1",        "10.0.0.1", "localhost.example",
        "::", "fe80::1", "127.0.0.1.example"};
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        assert_true(server_host_is_loopback(inside[i]));
    }
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        assert_false(server_host_is_loopback(outside[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
