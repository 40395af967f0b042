#define _GNU_SOURCE /* memmem */
#include "testing/order_call.h"

#include "base/buf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int order_fail(char problem[ORDER_PROBLEM_MAX], int error, const char *what, const char *why)
{
    snprintf(problem, ORDER_PROBLEM_MAX, "%s%s%s", what, why != NULL ? ": " : "",
             why != NULL ? why : "");
    return error;
}

/* False: it is not numeric. */
static bool parse_address(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len)
{
    struct sockaddr_in *v4 = (void *)ret;
    struct sockaddr_in6 *v6 = (void *)ret;
    char host[64];
    const char *colon = strrchr(text, ':');
    bool brackets = text[0] == '[';
    size_t skip = brackets ? 1 : 0;
    if (colon == NULL || colon - text < 2 * (ptrdiff_t)skip + 1 ||
        (size_t)(colon - text) >= sizeof host) {
        return false;
    }
    size_t len = (size_t)(colon - text) - 2 * skip;
    long port = strtol(colon + 1, NULL, 10);
    memcpy(host, text + skip, len);
    host[len] = '\0';
    memset(ret, 0, sizeof *ret);
    if (port <= 0 || port > 65535) {
        return false;
    }
    if (!brackets && inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        *ret_len = sizeof *v4;
        return true;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    *ret_len = sizeof *v6;
    return inet_pton(AF_INET6, host, &v6->sin6_addr) == 1;
}

static bool send_all(int fd, struct slice bytes)
{
    while (bytes.len > 0) {
        ssize_t n = send(fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        bytes = slice_make(bytes.data + n, bytes.len - (size_t)n);
    }
    return true;
}

/* Sends the order and reads up to the end of the answer. */
static int exchange(int fd, const char *address, const char *target, struct buf *answer,
                    char problem[ORDER_PROBLEM_MAX])
{
    struct buf order;
    char piece[4096];
    buf_init(&order, 0);
    buf_printf(&order, "POST %s HTTP/1.0\r\nHost: %s\r\nContent-Length: 0\r\n\r\n", target,
               address);
    bool sent = buf_ok(&order) && send_all(fd, buf_slice(&order));
    buf_finish(&order);
    while (sent) {
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        if (n == 0) {
            return buf_ok(answer) ? 0 : order_fail(problem, CONCLAVE_ENOMEM, "out of memory", NULL);
        }
        if (n < 0 && errno != EINTR) {
            break;
        }
        if (n > 0) {
            buf_append_slice(answer, slice_make((const uint8_t *)piece, (size_t)n));
        }
        if (answer->len > ORDER_ANSWER_MAX) {
            return order_fail(problem, CONCLAVE_ECORRUPT, "the answer is too long", address);
        }
    }
    return order_fail(problem, CONCLAVE_EDISCONNECTED, "the server does not answer", address);
}

static int error_of(long status)
{
    switch (status) {
    case 200:
        return 0;
    case 400:
        return CONCLAVE_EINVAL;
    case 404:
        return CONCLAVE_NO_NODE;
    case 409:
        return CONCLAVE_EBUSY;
    case 503:
        return CONCLAVE_EIO;
    default:
        return CONCLAVE_ECORRUPT;
    }
}

int order_read_answer(const char *bytes, size_t len, char problem[ORDER_PROBLEM_MAX], json_t **ret)
{
    static const char UNKNOWN[] = "this is no answer of a server for tests";
    const char *body = memmem(bytes, len, "\r\n\r\n", 4);
    json_error_t where;
    if (len < 13 || memcmp(bytes, "HTTP/1.", 7) != 0 || body == NULL) {
        return order_fail(problem, CONCLAVE_ECORRUPT, UNKNOWN, NULL);
    }
    int rc = error_of(strtol(bytes + 9, NULL, 10));
    body += 4;
    json_t *json = json_loadb(body, len - (size_t)(body - bytes), 0, &where);
    const json_t *error = json_object_get(json, "error"); /* NULL for NULL */
    if (!json_is_object(json) || (rc == 0) != json_is_null(error)) {
        json_decref(json);
        return order_fail(problem, CONCLAVE_ECORRUPT, UNKNOWN, NULL);
    }
    if (rc != 0) {
        const char *why = json_string_value(error);
        rc = order_fail(problem, rc, why != NULL ? why : UNKNOWN, NULL);
        json_decref(json);
        return rc;
    }
    *ret = json;
    return 0;
}

int order_call(const char *address, const char *target, char problem[ORDER_PROBLEM_MAX],
               json_t **ret)
{
    struct sockaddr_storage to;
    socklen_t to_len = 0;
    const struct timeval patience = {.tv_sec = ORDER_TIMEOUT_S};
    if (!parse_address(address, &to, &to_len)) {
        return order_fail(problem, CONCLAVE_EDISCONNECTED,
                          "the server takes no orders, because its admin port is", address);
    }
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return order_fail(problem, CONCLAVE_EDISCONNECTED, "no socket", strerror(errno));
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    struct buf answer;
    buf_init(&answer, 0);
    int rc =
        connect(fd, (const struct sockaddr *)&to, to_len) != 0
            ? order_fail(problem, CONCLAVE_EDISCONNECTED, "the server has ended", strerror(errno))
            : exchange(fd, address, target, &answer, problem);
    if (rc == 0) {
        struct slice bytes = buf_slice(&answer);
        rc = order_read_answer((const char *)bytes.data, bytes.len, problem, ret);
    }
    buf_finish(&answer);
    close(fd);
    return rc;
}
