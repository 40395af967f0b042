#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "cli/common/server_query.h"

#include "base/clock.h"
#include "cli/common/command.h"
#include "cli/common/connection_security.h"
#include "cli/common/values.h"
#include "tls/tls.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 16 * 1024, STACK = 256 * 1024 };

/* One thread's part. */
struct asking {
    struct server_query *ask;
    struct tls *tls; /* NULL: none */
    int64_t deadline_ms;
    struct buf out; /* bytes for the wire */
    pthread_t thread;
    bool started;
};

static int ask_fail(struct server_query *a, int error, const char *why)
{
    a->error = error;
    snprintf(a->why, sizeof a->why, "%s", why);
    return -1;
}

/* 0 when the socket is ready for `events`. */
static int wait_for(struct asking *g, int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        int64_t left_ms = g->deadline_ms - clock_monotonic_ms(clock_system());
        int n = left_ms > 0 ? poll(&p, 1, (int)left_ms) : 0;
        if (n > 0) {
            return 0;
        }
        if (n == 0) {
            return ask_fail(g->ask, CONCLAVE_ETIMEDOUT, "no answer in time");
        }
        if (errno != EINTR) {
            return ask_fail(g->ask, CONCLAVE_EDISCONNECTED, strerror(errno));
        }
    }
}

/* A connected socket, or -1 and errno; what took too long is told. */
static int connect_to(struct asking *g, const struct addrinfo *at)
{
    int error = 0;
    socklen_t len = sizeof error;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return ask_fail(g->ask, CONCLAVE_EDISCONNECTED, strerror(errno));
    }
    if (connect(fd, at->ai_addr, at->ai_addrlen) == 0) {
        return fd;
    }
    if (errno != EINPROGRESS) {
        error = errno;
    } else if (wait_for(g, fd, POLLOUT) != 0) {
        close(fd);
        return -1;
    } else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
        error = errno;
    }
    if (error != 0) {
        close(fd);
        return ask_fail(g->ask, CONCLAVE_EDISCONNECTED, strerror(error));
    }
    return fd;
}

static int connect_any(struct asking *g)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    char port[8];
    int fd = -1;
    snprintf(port, sizeof port, "%u", (unsigned)g->ask->port);
    int rc = getaddrinfo(g->ask->host, port, &hints, &list);
    if (rc != 0) {
        return ask_fail(g->ask, CONCLAVE_ERESOLVE, gai_strerror(rc));
    }
    for (const struct addrinfo *at = list; at != NULL && fd < 0; at = at->ai_next) {
        fd = connect_to(g, at);
    }
    freeaddrinfo(list);
    return fd;
}

/* What came from the wire. 1: more may come, 0: the end, -1: failed. */
static int take(struct asking *g, struct slice bytes)
{
    uint8_t room[ROOM];
    size_t len = 0;
    struct server_query *a = g->ask;
    if (g->tls == NULL) {
        buf_append_slice(&a->answer, bytes);
        return 1;
    }
    do {
        bool shaking = !tls_ready(g->tls);
        int rc = tls_read(g->tls, &bytes, room, sizeof room, &len);
        if (rc == CONCLAVE_ECLOSED) {
            return 0;
        }
        if (rc != 0 || (shaking && tls_ready(g->tls) && tls_write(g->tls, a->question) != 0)) {
            return ask_fail(a, CONCLAVE_ETLS, tls_problem(g->tls));
        }
        buf_append(&a->answer, room, len);
    } while (len > 0);
    return 1;
}

static struct buf *unsent(struct asking *g)
{
    return g->tls != NULL ? tls_out(g->tls) : &g->out;
}

static int talk(struct asking *g, int fd)
{
    uint8_t room[ROOM];
    int more = 1;
    while (more > 0) {
        struct buf *out = unsent(g);
        if (!buf_ok(out) || !buf_ok(&g->ask->answer)) {
            return ask_fail(g->ask, CONCLAVE_ENOMEM, "the answer is too long");
        }
        if (wait_for(g, fd, out->len > 0 ? POLLIN | POLLOUT : POLLIN) != 0) {
            return -1;
        }
        ssize_t n = out->len > 0 ? send(fd, out->data, out->len, MSG_NOSIGNAL) : 0;
        if (n > 0) {
            buf_consume(out, (size_t)n);
        }
        n = recv(fd, room, sizeof room, 0);
        if (n > 0) {
            more = take(g, slice_make(room, (size_t)n));
        } else if (n == 0) {
            more = 0;
        } else if (errno != EAGAIN && errno != EINTR) {
            return ask_fail(g->ask, CONCLAVE_EDISCONNECTED, strerror(errno));
        }
    }
    return more;
}

static void *ask_one(void *arg)
{
    struct asking *g = arg;
    int fd = connect_any(g);
    if (fd >= 0) {
        g->ask->error = 0;
        (void)talk(g, fd);
        close(fd);
    }
    return NULL;
}

static int open_tls(const char *command, const struct connection_security *security,
                    struct tls_context **ret)
{
    char why[TLS_TEXT_MAX];
    const struct conclave_tls_options *o = &security->tls;
    struct tls_settings settings = {
        .peer = TLS_PEER_NEED,
        .cert_file = o->cert_file,
        .key_file = o->key_file,
        .cert_password = o->key_password,
        .trust_file = o->ca_file,
        .trust_password = o->ca_password,
    };
    int rc = tls_context_create(&settings, ret, why);
    if (rc != 0) {
        fprintf(stderr, "conclave %s: TLS: %s\n", command,
                rc == CONCLAVE_EINVAL ? why : conclave_strerror(rc));
        return CLI_EXIT_USAGE;
    }
    return 0;
}

static void server_query_start(struct asking *g, struct tls_context *tls, const char *tls_name)
{
    pthread_attr_t attr;
    struct server_query *a = g->ask;
    buf_init(&a->answer, ASK_ANSWER_MAX);
    buf_init(&g->out, 0);
    a->error = CONCLAVE_ENOMEM;
    snprintf(a->why, sizeof a->why, "out of memory");
    if (tls != NULL) {
        g->tls = tls_create(tls, tls_name != NULL ? tls_name : a->host, true);
    } else {
        buf_append_slice(&g->out, a->question);
    }
    if ((tls != NULL && g->tls == NULL) || pthread_attr_init(&attr) != 0) {
        return;
    }
    (void)pthread_attr_setstacksize(&attr, STACK);
    g->started = pthread_create(&g->thread, &attr, ask_one, g) == 0;
    pthread_attr_destroy(&attr);
}

/* Controls of one byte; a carriage return only where it does not end a line together with a newline. */
static bool is_control(const struct buf *answer, size_t i)
{
    uint8_t c = answer->data[i];
    bool ends = c == '\r' && i + 1 < answer->len && answer->data[i + 1] == '\n';
    return (c < 0x20 && c != '\t' && c != '\n' && !ends) || c == 0x7f;
}

/* Those of two bytes, U+0080 to U+009F: some terminals take them for the same as ESC and a letter. */
static bool is_long_control(const struct buf *answer, size_t i)
{
    return answer->data[i] == 0xc2 && i + 1 < answer->len && answer->data[i + 1] >= 0x80 &&
           answer->data[i + 1] < 0xa0;
}

void server_query_clean(struct buf *answer)
{
    for (size_t i = 0; i < answer->len; i++) {
        if (is_long_control(answer, i)) {
            answer->data[i] = answer->data[i + 1] = '?';
        } else if (is_control(answer, i)) {
            answer->data[i] = '?';
        }
    }
}

bool server_query_address(const char *text, char *host, size_t size, uint16_t *ret_port)
{
    const char *colon = strrchr(text, ':');
    bool v6 = text[0] == '[';
    int64_t port = 0;
    if (colon == NULL || colon == text || (v6 && colon[-1] != ']') ||
        !integer_parse(colon + 1, 1, UINT16_MAX, &port)) {
        return false;
    }
    int len = (int)(colon - text) - (v6 ? 2 : 0);
    *ret_port = (uint16_t)port;
    return snprintf(host, size, "%.*s", len, text + (v6 ? 1 : 0)) < (int)size;
}

int server_query_all(const char *command, const struct common_options *options, int64_t timeout_ms,
                     struct server_query *asks, size_t count)
{
    struct conclave_client_options client = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct connection_security security;
    struct tls_context *tls = NULL;
    struct asking *all = calloc(count + 1, sizeof *all);
    connection_security_fill(&security, command, options, &client);
    int code = client.tls != NULL ? open_tls(command, &security, &tls) : 0;
    if (all == NULL) {
        fprintf(stderr, "conclave %s: out of memory\n", command);
        code = CLI_EXIT_INTERNAL;
    }
    for (size_t i = 0; code == 0 && i < count; i++) {
        all[i].ask = &asks[i];
        all[i].deadline_ms = clock_monotonic_ms(clock_system()) + timeout_ms;
        server_query_start(&all[i], tls, security.tls.server_name);
    }
    for (size_t i = 0; code == 0 && i < count; i++) {
        if (all[i].started) {
            pthread_join(all[i].thread, NULL);
        }
        tls_destroy(all[i].tls);
        buf_finish(&all[i].out);
    }
    free(all);
    tls_context_release(tls);
    return code;
}
