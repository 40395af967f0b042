/* A socket that does not block, poll, TLS by tls/tls.h, replies by reply_reader.h. */
#include "redis/client/redis_socket.h"

#include "base/clock.h"
#include "redis/client/reply_reader.h"
#include "tls/tls.h"

#include <assert.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 16384, LOOK_MS = 20, MS = 1000000, COMMAND_MAX = 512 * 1024 * 1024 };

struct redis_socket {
    int fd;
    struct tls *tls; /* NULL: none */
    struct reply_reader *reader;
    int failed; /* an error of errno; 0: none, or the server closed the connection */
};

static int64_t socket_now_ns(void)
{
    return clock_monotonic_ns(clock_system());
}

/* Waits until the socket can be read or written. What is there counts, even if it comes too late. */
static int socket_wait(const struct redis_socket *s, short events, const struct redis_patience *p)
{
    for (;;) {
        struct pollfd fd = {.fd = s->fd, .events = events};
        int64_t left_ms = (p->deadline_ns - socket_now_ns() + MS - 1) / MS;
        int pause = left_ms < 0 ? 0 : left_ms < LOOK_MS ? (int)left_ms : LOOK_MS;
        if (poll(&fd, 1, pause) > 0) {
            return 0;
        }
        int error = p->stop == NULL ? 0 : p->stop(p->ctx);
        if (error != 0 || left_ms <= 0) {
            return error != 0 ? error : CONCLAVE_ETIMEDOUT;
        }
    }
}

/* --- bytes */

static bool is_patient(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static int socket_write(struct redis_socket *s, struct slice bytes, const struct redis_patience *p,
                        bool *ret_sent)
{
    while (bytes.len > 0) {
        ssize_t n = send(s->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (n < 0 && !is_patient()) {
            s->failed = errno;
            return CONCLAVE_EDISCONNECTED;
        }
        if (n < 0) {
            int error = socket_wait(s, POLLOUT, p);
            if (error != 0) {
                return error;
            }
            continue;
        }
        *ret_sent = *ret_sent || n > 0;
        bytes = slice_make(bytes.data + n, bytes.len - (size_t)n);
    }
    return 0;
}

/* Sends what TLS has for the server. */
static int socket_flush(struct redis_socket *s, const struct redis_patience *p, bool *ret_sent)
{
    struct buf *out = tls_out(s->tls);
    int error = socket_write(s, buf_slice(out), p, ret_sent);
    buf_reset(out);
    return error;
}

static int socket_decrypt(struct redis_socket *s, struct slice wire, const struct redis_patience *p)
{
    uint8_t stream[READ_BYTES];
    size_t len;
    bool sent = false;
    int error;
    do {
        error = tls_read(s->tls, &wire, stream, sizeof stream, &len);
        if (error == 0 && len > 0) {
            error = reply_reader_feed(s->reader, slice_make(stream, len));
        }
    } while (error == 0 && len > 0);
    int flushed = socket_flush(s, p, &sent);
    return error == CONCLAVE_ECLOSED ? CONCLAVE_EDISCONNECTED : error != 0 ? error : flushed;
}

/* Waits for bytes and takes them in. */
static int socket_read(struct redis_socket *s, const struct redis_patience *p)
{
    uint8_t bytes[READ_BYTES];
    int error = socket_wait(s, POLLIN, p);
    if (error != 0) {
        return error;
    }
    ssize_t n = recv(s->fd, bytes, sizeof bytes, 0);
    if (n < 0 && is_patient()) {
        return 0;
    }
    if (n <= 0) {
        s->failed = n < 0 ? errno : 0;
        return CONCLAVE_EDISCONNECTED;
    }
    struct slice got = slice_make(bytes, (size_t)n);
    return s->tls != NULL ? socket_decrypt(s, got, p) : reply_reader_feed(s->reader, got);
}

int redis_socket_send(struct redis_socket *s, struct slice bytes, const struct redis_patience *p,
                      bool *ret_sent)
{
    *ret_sent = false;
    if (s->tls == NULL) {
        return socket_write(s, bytes, p, ret_sent);
    }
    int error = tls_write(s->tls, bytes);
    return error != 0 ? error : socket_flush(s, p, ret_sent);
}

int redis_socket_receive(struct redis_socket *s, const struct redis_patience *p,
                         struct conclave_redis_reply **ret)
{
    struct conclave_redis_reply *reply = NULL;
    int error = reply_reader_next(s->reader, &reply);
    while (error == 0 && reply == NULL) {
        error = socket_read(s, p);
        if (error == 0) {
            error = reply_reader_next(s->reader, &reply);
        }
    }
    if (error == 0) {
        *ret = reply;
    }
    return error;
}

bool redis_socket_is_quiet(const struct redis_socket *s)
{
    struct pollfd fd = {.fd = s->fd, .events = POLLIN};
    return poll(&fd, 1, 0) == 0;
}

/* --- commands */

int redis_command_write(struct buf *out, int argc, const char *const *argv, const size_t *lens)
{
    char *text;
    size_t total = 0;
    for (int i = 0; i < argc; i++) {
        size_t len = lens != NULL ? lens[i] : strlen(argv[i]);
        if (len > COMMAND_MAX - total) { /* hiredis 0.14 counts in an int */
            return CONCLAVE_ETOOBIG;
        }
        total += len;
    }
    /* It changes no argument. Its result has another type in each version. */
    long long len = redisFormatCommandArgv(&text, argc, (const char **)(uintptr_t)argv, lens);
    if (len < 0) {
        return CONCLAVE_ENOMEM;
    }
    buf_append(out, text, (size_t)len);
    explicit_bzero(text, (size_t)len); /* AUTH */
    redisFreeCommand(text);
    return buf_ok(out) ? 0 : CONCLAVE_ENOMEM;
}

int redis_socket_ask(struct redis_socket *s, int argc, const char *const *argv,
                     const struct redis_patience *p, struct conclave_redis_reply **ret)
{
    struct buf command;
    bool sent;
    buf_init(&command, 0);
    int error = redis_command_write(&command, argc, argv, NULL);
    if (error == 0) {
        error = redis_socket_send(s, buf_slice(&command), p, &sent);
    }
    buf_wipe(&command);
    return error != 0 ? error : redis_socket_receive(s, p, ret);
}

/* --- connecting */

static int socket_connect_to(struct redis_socket *s, const struct addrinfo *to,
                             const struct redis_patience *p)
{
    int on = 1;
    int why = 0;
    socklen_t len = sizeof why;
    s->fd = socket(to->ai_family, to->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to->ai_protocol);
    if (s->fd < 0) {
        s->failed = errno;
        return CONCLAVE_EDISCONNECTED;
    }
    (void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(s->fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS) {
        s->failed = errno;
        return CONCLAVE_EDISCONNECTED;
    }
    int error = socket_wait(s, POLLOUT, p);
    if (error == 0 && getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &why, &len) == 0 && why != 0) {
        s->failed = why;
        error = CONCLAVE_EDISCONNECTED;
    }
    return error;
}

static void socket_drop(struct redis_socket *s)
{
    if (s->fd >= 0) {
        close(s->fd);
        s->fd = -1;
    }
}

/* Tries the addresses of the name in turn; each gets an equal share of the time that is left. */
static int socket_connect(struct redis_socket *s, const char *host, int port,
                          const struct redis_patience *p)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found;
    char service[16];
    int64_t count = 0;
    snprintf(service, sizeof service, "%d", port);
    int rc = getaddrinfo(host, service, &hints, &found);
    if (rc != 0) {
        return rc == EAI_MEMORY ? CONCLAVE_ENOMEM : CONCLAVE_ERESOLVE;
    }
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        count++;
    }
    int error = CONCLAVE_ERESOLVE;
    for (const struct addrinfo *at = found; at != NULL && error != 0; at = at->ai_next) {
        int64_t now = socket_now_ns();
        struct redis_patience part = *p;
        part.deadline_ns = now + (p->deadline_ns - now) / count--;
        socket_drop(s);
        error = socket_connect_to(s, at, &part);
    }
    freeaddrinfo(found);
    return error;
}

static int socket_secure(struct redis_socket *s, const struct redis_credentials *c,
                         const char *host, const struct redis_patience *p)
{
    bool sent = false;
    s->tls = tls_create(c->tls, host, !c->tls_any_name);
    if (s->tls == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int error = socket_flush(s, p, &sent);
    while (error == 0 && !tls_ready(s->tls)) {
        error = socket_read(s, p);
    }
    return error;
}

/* A server without a password refuses AUTH, but needs no log-in. */
static bool is_refused(const struct conclave_redis_reply *reply)
{
    return reply->type == CONCLAVE_REDIS_REPLY_ERROR &&
           strstr(reply->text, "without any password configured") == NULL &&
           strstr(reply->text, "no password is set") == NULL;
}

/* One command of the log-in. */
static int socket_log_in_by(struct redis_socket *s, int argc, const char *const *argv,
                            const struct redis_patience *p, char why[REDIS_PROBLEM_MAX])
{
    struct conclave_redis_reply *reply = NULL;
    int error = redis_socket_ask(s, argc, argv, p, &reply);
    if (error == 0 && is_refused(reply)) {
        snprintf(why, REDIS_PROBLEM_MAX, "%.200s", reply->text);
        error = CONCLAVE_AUTH_FAILED;
    }
    conclave_redis_reply_free(reply);
    return error;
}

static int socket_log_in(struct redis_socket *s, const struct redis_credentials *c,
                         const struct redis_patience *p, char why[REDIS_PROBLEM_MAX])
{
    const char *auth[3] = {"AUTH"};
    char database[16];
    const char *select[2] = {"SELECT", database};
    int error = 0;
    int argc = 1;
    if (c->password != NULL) {
        if (c->user != NULL) {
            auth[argc++] = c->user;
        }
        auth[argc++] = c->password;
        error = socket_log_in_by(s, argc, auth, p, why);
    }
    if (error == 0 && c->database != 0) {
        snprintf(database, sizeof database, "%d", c->database);
        error = socket_log_in_by(s, 2, select, p, why);
    }
    return error;
}

int redis_socket_open(const struct redis_credentials *c, const char *host, int port,
                      const struct redis_patience *p, struct redis_socket **ret,
                      char why[REDIS_PROBLEM_MAX])
{
    struct redis_socket *s = calloc(1, sizeof *s);
    why[0] = '\0';
    if (s == NULL) {
        return CONCLAVE_ENOMEM;
    }
    s->fd = -1;
    s->reader = reply_reader_create(c->reply_max);
    int error = s->reader == NULL ? CONCLAVE_ENOMEM : socket_connect(s, host, port, p);
    if (error == 0 && c->tls != NULL) {
        error = socket_secure(s, c, host, p);
    }
    if (error == 0) {
        error = socket_log_in(s, c, p, why);
    }
    if (error == 0) {
        assert(s->fd >= 0 && (s->tls == NULL) == (c->tls == NULL));
        *ret = s;
        return 0;
    }
    if (why[0] == '\0') {
        bool by_tls = error == CONCLAVE_ETLS && s->tls != NULL;
        snprintf(why, REDIS_PROBLEM_MAX, "%.200s",
                 by_tls           ? tls_problem(s->tls)
                 : s->failed != 0 ? strerror(s->failed)
                                  : conclave_strerror(error));
    }
    redis_socket_close(s);
    return error;
}

void redis_socket_close(struct redis_socket *s)
{
    if (s == NULL) {
        return;
    }
    socket_drop(s);
    tls_destroy(s->tls);
    reply_reader_destroy(s->reader);
    free(s);
}
