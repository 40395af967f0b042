/* A client that is closed before it has connected: the server is not asked for a session that nobody wants. */
#include <conclave/client.h>

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* A socket that listens on a free port. */
static int listen_somewhere(uint16_t *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static void test_a_closed_client_asks_for_no_session(void **state)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    char servers[32];
    char byte;
    uint16_t port;
    int listener = listen_somewhere(&port);
    snprintf(servers, sizeof servers, "127.0.0.1:%u", port);
    options.servers = servers;
    assert_int_equal(conclave_client_open(&options, &client), 0);
    assert_int_equal(conclave_client_dispatch(client), 0); /* begins to connect */
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    conclave_client_close(client, 0);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_closed_client_asks_for_no_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
