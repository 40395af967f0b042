/* Addresses as text: valid ones, invalid ones, and one name for a client by any route. */
#include "net/address.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

static void test_good_texts(void **state)
{
    static const struct {
        const char *text;
        const char *host;
        uint16_t port;
        const char *again; /* its written form; NULL: the text */
    } rows[] = {
        {"127.0.0.1:2181", "127.0.0.1", 2181, NULL},
        {"zk.example.org:0", "zk.example.org", 0, NULL},
        {":65535", "", 65535, NULL},
        {"[::1]:2181", "::1", 2181, NULL},
        {"[]:7", "", 7, ":7"},
        {"[zk.example.org]:2181", "zk.example.org", 2181, "zk.example.org:2181"},
        {"a:00080", "a", 80, "a:80"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct net_address a;
        char text[NET_TEXT_MAX];
        assert_int_equal(net_address_parse(rows[i].text, &a), 0);
        assert_string_equal(a.host, rows[i].host);
        assert_int_equal(a.port, rows[i].port);
        assert_string_equal(net_address_format(&a, text),
                            rows[i].again != NULL ? rows[i].again : rows[i].text);
    }
}

static void test_bad_texts(void **state)
{
    static const char *const rows[] = {
        "",
        "2181",
        "host",
        "host:",
        "host:x",
        "host:-1",
        "host:+1",
        "host: 1",
        "host:1x",
        "::1:80",
        "[::1]",
        "[::1:80",
        "[:80",
        "[::1]x:80",
        "host:65536",
        "a:b:80",
        "host:99999999999999999999",
    };
    struct net_address a = {.host = "as it was", .port = 7};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(net_address_parse(rows[i], &a), CONCLAVE_EINVAL);
    }
    char text[NET_HOST_MAX + 8];
    memset(text, 'h', sizeof text);
    strcpy(text + NET_HOST_MAX, ":1"); /* one longer than there is room for */
    assert_int_equal(net_address_parse(text, &a), CONCLAVE_EINVAL);
    assert_string_equal(a.host, "as it was");
    assert_int_equal(a.port, 7);
    strcpy(text + NET_HOST_MAX - 1, ":1");
    assert_int_equal(net_address_parse(text, &a), 0);
    assert_int_equal(strlen(a.host), NET_HOST_MAX - 1);
}

static void expect_name(const char *v6, const char *wanted)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(4711)};
    struct net_address a;
    assert_int_equal(inet_pton(AF_INET6, v6, &in6.sin6_addr), 1);
    net_address_of((const struct sockaddr *)&in6, &a);
    assert_string_equal(a.host, wanted);
    assert_int_equal(a.port, 4711);
}

/* A client of IPv4 has the same name on a socket of both families: limits and logs count by it. */
static void test_names_of_sockets(void **state)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(80)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct net_address a;
    assert_int_equal(inet_pton(AF_INET, "192.0.2.7", &in.sin_addr), 1);
    net_address_of((const struct sockaddr *)&in, &a);
    assert_string_equal(a.host, "192.0.2.7");
    assert_int_equal(a.port, 80);
    expect_name("::ffff:192.0.2.7", "192.0.2.7");
    expect_name("2001:db8::1", "2001:db8::1");
    expect_name("::1", "::1");
    net_address_of((const struct sockaddr *)&un, &a);
    assert_string_equal(a.host, "?");
    assert_int_equal(a.port, 0);
}

static void test_resolution(void **state)
{
    struct net_address a = {.host = "127.0.0.1", .port = 2181};
    struct net_address back;
    struct sockaddr_storage sa;
    assert_int_equal(net_address_resolve(&a, &sa), 0);
    net_address_of((const struct sockaddr *)&sa, &back);
    assert_string_equal(back.host, "127.0.0.1");
    assert_int_equal(back.port, 2181);
    a.host[0] = '\0'; /* every interface of both families */
    assert_int_equal(net_address_resolve(&a, &sa), 0);
    assert_int_equal(sa.ss_family, AF_INET6);
    net_address_of((const struct sockaddr *)&sa, &back);
    assert_string_equal(back.host, "::");
    strcpy(a.host, "no such host");
    assert_int_equal(net_address_resolve(&a, &sa), CONCLAVE_ERESOLVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_texts),
        cmocka_unit_test(test_bad_texts),
        cmocka_unit_test(test_names_of_sockets),
        cmocka_unit_test(test_resolution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
