#define _GNU_SOURCE /* accept4, SOCK_NONBLOCK */
#include "admin/http/http_server.h"

#include "admin/http/connection_slots.h"
#include "base/list.h"
#include "base/log.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 128,
    REQUEST_BYTES = 16384, /* memory of one connection in the library */
    SWEEP_MS = 200,        /* how often late connections are looked for */
    ACCEPTED_MAX =
        PLACES_MAX + 16, /* the library accepts some more before others lose their places */
};

struct http_exchange {
    struct http *http;
    struct MHD_Connection *connection;
    struct http_client *client; /* NULL: memory was out when it connected */
    char peer[NET_TEXT_MAX];
    size_t body_max; /* 0: no body is being read */
    bool body_late;  /* it is longer than that: the rest was dropped */
    bool waiting;    /* for http_answer */
    bool answered;   /* `response` is to be sent */
    struct buf body;
    struct http_response response;
};

struct http {
    uv_loop_t *loop;
    struct MHD_Daemon *daemon;
    http_fn fn;
    void *ctx;
    struct net_address address;
    uv_poll_t poll;
    uv_timer_t timer;    /* what the library wants to do later */
    uv_timer_t sweep;    /* runs while there are connections */
    struct list clients; /* place of struct http_client, the one that waits longest first */
    bool closed_some;    /* a connection has gone in this run of the library */
    bool opened_some;    /* one has come */
    bool reading_body;   /* of some request */
    struct list
        adopted; /* struct http_client: given to the library, which has not told of them yet */
    unsigned open_handles; /* until closed */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

struct http_client {
    struct place place; /* its node: in http.adopted at first */
    struct http *http;
    int fd;
    bool ended; /* at the last look its peer had said its end */
    struct buf subject;
};

static struct http_client *client_at(struct list *node)
{
    return CONTAINER_OF(node, struct http_client, place.node);
}

static void client_set_state(struct http_client *c, enum place_state state)
{
    if (c != NULL) {
        c->place.state = state;
    }
}

const char *http_argument(const struct http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->exchange->connection, MHD_GET_ARGUMENT_KIND, name);
}

void http_response_init(struct http_response *r)
{
    *r = (struct http_response){.status = 200, .content_type = "text/plain", .file = -1};
    buf_init(&r->body, 0);
}

void http_response_finish(struct http_response *r)
{
    buf_finish(&r->body);
    if (r->file >= 0) {
        close(r->file);
    }
    r->file = -1;
}

/* The loop's side */

static void http_run(struct http *h);

static void http_on_timer(uv_timer_t *timer)
{
    http_run(timer->data);
}

static void http_on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    http_run(poll->data);
}

/* They are freed by the library when it sees the end of their socket. */
static void client_cut(struct http_client *c)
{
    c->place.leaving = true;
    (void)shutdown(c->fd, SHUT_RDWR); /* fails when the peer was faster */
}

/* Connections that lose their places. Whether there were some. */
static bool http_make_room(struct http *h)
{
    struct place *p;
    bool cut = false;
    while ((p = places_surplus(&h->clients, uv_now(h->loop))) != NULL) {
        cut = true;
        client_cut(client_at(&p->node));
    }
    return cut;
}

static void http_run(struct http *h)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    bool again;
    do {
        /* At its limit of connections the library listens no more, and takes it up again not when one has gone but in
         * its next run: nothing else would bring that about when it was the last one. */
        h->closed_some = h->opened_some = false;
        if (MHD_run(h->daemon) != MHD_YES) {
            log_error("admin", "http-failed", "port=%u", (unsigned)h->address.port);
        }
        again = h->closed_some || (h->opened_some && http_make_room(h));
    } while (again);
    if (MHD_get_timeout(h->daemon, &wait_ms) == MHD_YES) {
        (void)uv_timer_start(&h->timer, http_on_timer, wait_ms,
                             0); /* fails for a closing one only */
    } else {
        (void)uv_timer_stop(&h->timer);
    }
}

/* Whether its peer has gone before it sent a whole request. The library, which waits for edges, does not see an end
 * that came together with the last bytes, and leaves bytes that it has no use for unread before it. An end must be seen
 * twice: what came before it may be a request that is being read. */
static bool is_gone(struct http_client *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
    if (poll(&p, 1, 0) <= 0) {
        return false;
    }
    bool ended_before = c->ended;
    c->ended = (p.revents & POLLRDHUP) != 0 &&
               (c->place.state < PLACE_ANSWERING || c->place.state == PLACE_RECEIVING);
    return (p.revents & (POLLHUP | POLLERR)) != 0 || (c->ended && ended_before);
}

static bool is_late(const struct http_client *c, uint64_t now_ms)
{
    uint64_t most_ms = c->place.state == PLACE_OPENING ? HTTP_HEAD_MS : HTTP_REQUEST_MS;
    return now_ms - c->place.since_ms >= most_ms && c->place.state < PLACE_PATIENT;
}

/* Cuts off those that are late or gone, or too many of one address. */
static void http_on_sweep(uv_timer_t *timer)
{
    struct http *h = timer->data;
    uint64_t now_ms = uv_now(h->loop);
    bool cut = http_make_room(h);
    LIST_FOREACH (it, &h->clients) {
        struct http_client *c = client_at(it);
        if (is_late(c, now_ms) || is_gone(c)) {
            cut = true;
            client_cut(c);
        }
    }
    if (list_empty(&h->clients)) {
        (void)uv_timer_stop(&h->sweep);
    }
    if (cut) {
        http_run(h);
    }
}

/* The library's side */

/* What http_adopt knows of a socket. */
static struct http_client *find_adopted(struct http *h, int fd)
{
    LIST_FOREACH (it, &h->adopted) {
        struct http_client *c = client_at(it);
        if (c->fd == fd) {
            list_remove(&c->place.node);
            return c;
        }
    }
    return NULL;
}

static void client_free(struct http_client *c)
{
    list_remove(&c->place.node);
    buf_finish(&c->subject);
    free(c);
}

/* The address of the other end, "" when it is not known. */
static void connection_host(struct MHD_Connection *connection, struct net_address *ret)
{
    /* Good until the next question: libmicrohttpd 1.0 has one place for all answers. */
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (info != NULL && info->client_addr != NULL) {
        net_address_of(info->client_addr, ret);
    } else {
        ret->host[0] = '\0';
    }
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http *h = cls;
    struct http_client *c = *socket_context;
    struct net_address peer;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        h->closed_some = true;
        if (c != NULL) {
            client_free(c);
        }
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    c = info != NULL ? find_adopted(h, info->connect_fd) : NULL;
    if (c == NULL) {
        c = calloc(1, sizeof *c);
    }
    if (c == NULL || info == NULL) {
        free(c);
        return; /* it lives without a deadline of ours, by the library's own */
    }
    c->http = h;
    c->fd = info->connect_fd;
    h->opened_some = true;
    connection_host(connection, &peer);
    place_take(&c->place, &h->clients, peer.host, uv_now(h->loop));
    *socket_context = c;
    if (!uv_is_active((uv_handle_t *)&h->sweep)) {
        (void)uv_timer_start(&h->sweep, http_on_sweep, SWEEP_MS, SWEEP_MS);
    }
}

static struct http_client *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **request_context,
                         enum MHD_RequestTerminationCode code)
{
    struct http *h = cls;
    struct http_exchange *x = *request_context;
    struct http_client *c = client_of(connection);
    if (x != NULL) {
        if (x->body_max > 0) {
            h->reading_body = false;
        }
        buf_finish(&x->body);
        http_response_finish(&x->response);
        free(x);
    }
    if (c != NULL && code == MHD_REQUEST_TERMINATED_COMPLETED_OK) {
        place_renew(&c->place, &h->clients, uv_now(h->loop));
    } else {
        client_set_state(c, PLACE_IDLE);
    }
}

/* The library's form of a response, which takes over its body or file. NULL when memory is out. */
static struct MHD_Response *http_make(struct http_response *response)
{
    size_t len;
    struct MHD_Response *r;
    if (response->file >= 0) {
        r = MHD_create_response_from_fd64(response->file_len, response->file);
        if (r != NULL) {
            response->file = -1;
        }
        return r;
    }
    if (!buf_ok(&response->body)) {
        return NULL;
    }
    void *bytes = buf_take(&response->body, &len);
    r = MHD_create_response_from_buffer(len, bytes,
                                        len > 0 ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (r == NULL || len == 0) {
        free(bytes);
    }
    return r;
}

/* Without memory MHD_NO: the connection is closed. */
static enum MHD_Result http_reply(struct http_exchange *x, struct http_response *response)
{
    client_set_state(x->client, response->file >= 0 ? PLACE_PATIENT : PLACE_ANSWERING);
    struct MHD_Response *r = http_make(response);
    if (r == NULL) {
        return MHD_NO;
    }
    enum MHD_Result rc =
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, response->content_type);
    if (rc == MHD_YES) {
        rc = MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    }
    if (rc == MHD_YES && response->allow != NULL) {
        rc = MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, response->allow);
    }
    for (size_t i = 0; rc == MHD_YES && i < response->header_count; i++) {
        rc = MHD_add_response_header(r, response->headers[i].name, response->headers[i].value);
    }
    if (rc == MHD_YES) {
        rc = MHD_queue_response(x->connection, response->status, r);
    }
    MHD_destroy_response(r);
    return rc;
}

void http_answer(struct http_exchange *x, struct http_response *response_take)
{
    x->response = *response_take;
    http_response_init(response_take);
    x->waiting = false;
    x->answered = true;
    MHD_resume_connection(x->connection); /* on_request comes again, in the next turn */
    (void)uv_timer_start(&x->http->timer, http_on_timer, 0, 0);
}

static struct http_exchange *exchange_begin(struct http *h, struct MHD_Connection *connection)
{
    struct http_exchange *x = calloc(1, sizeof *x);
    struct net_address peer;
    if (x == NULL) {
        return NULL;
    }
    x->http = h;
    x->connection = connection;
    x->client = client_of(connection);
    connection_host(connection, &peer);
    (void)snprintf(x->peer, sizeof x->peer, "%s", peer.host);
    buf_init(&x->body, 0);
    http_response_init(&x->response);
    return x;
}

static const char *header_of(const struct http_exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

static uint64_t body_announced(const struct http_exchange *x)
{
    const char *text = header_of(x, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return text != NULL ? strtoull(text, NULL, 10) : 0; /* the library has checked its form */
}

static enum MHD_Result reply_error(struct http_exchange *x, unsigned status, const char *text)
{
    struct http_response response;
    http_response_init(&response);
    response.status = status;
    buf_append_str(&response.body, text);
    enum MHD_Result rc = http_reply(x, &response);
    http_response_finish(&response);
    return rc;
}

/* The answerer wants the body: whether it can be had. */
static enum MHD_Result body_begin(struct http_exchange *x, size_t max)
{
    if (x->http->reading_body) {
        return reply_error(x, 503, "another upload is under way\n");
    }
    if (body_announced(x) > max) {
        return reply_error(x, 413, "that is too long\n");
    }
    x->http->reading_body = true;
    x->body_max = max;
    client_set_state(x->client, PLACE_RECEIVING);
    return MHD_YES;
}

static void body_add(struct http_exchange *x, const char *bytes, size_t len)
{
    if (x->body.len + len > x->body_max) {
        x->body_late = true;
        buf_finish(&x->body);
    } else if (!x->body_late) {
        buf_append(&x->body, bytes, len);
    }
}

/* Asks the answerer. */
static enum MHD_Result exchange_ask(struct http_exchange *x, const char *method, const char *url)
{
    struct http *h = x->http;
    struct http_request request = {
        .method = method,
        .path = url,
        .authorization = header_of(x, MHD_HTTP_HEADER_AUTHORIZATION),
        .host = header_of(x, MHD_HTTP_HEADER_HOST),
        .origin = header_of(x, "Origin"),
        .fetch_site = header_of(x, "Sec-Fetch-Site"),
        .peer = x->peer,
        .subject = x->client != NULL ? buf_slice(&x->client->subject) : slice_str(""),
        .body = x->body_max > 0 ? buf_slice(&x->body) : SLICE_NULL,
        .exchange = x,
    };
    struct http_response response;
    enum MHD_Result rc = MHD_YES;
    client_set_state(x->client, PLACE_ANSWERING);
    http_response_init(&response);
    h->fn(h->ctx, &request, &response);
    if (response.later) {
        x->waiting = true;
        client_set_state(x->client, PLACE_PATIENT);
        MHD_suspend_connection(x->connection);
    } else if (response.body_max > 0 && x->body_max == 0) {
        rc = body_begin(x, response.body_max);
    } else {
        rc = http_reply(x, &response);
    }
    http_response_finish(&response);
    return rc;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_len, void **request_context)
{
    struct http_exchange *x = *request_context;
    (void)version;
    if (x == NULL) {
        *request_context = x = exchange_begin(cls, connection);
        return x != NULL ? exchange_ask(x, method, url) : MHD_NO;
    }
    if (x->answered) {
        return http_reply(x, &x->response);
    }
    if (*upload_len > 0) {
        body_add(x, upload, *upload_len);
        *upload_len = 0;
        return MHD_YES;
    }
    if (x->body_late) {
        return reply_error(x, 413, "that is too long\n");
    }
    return buf_ok(&x->body) ? exchange_ask(x, method, url) : MHD_NO;
}

static void on_library_line(void *cls, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

static void on_library_line(void *cls, const char *fmt, va_list ap)
{
    char text[256];
    (void)cls;
    (void)vsnprintf(text, sizeof text, fmt, ap);
    log_debug("admin", "http", "text=\"%s\"", text);
}

/* Start */

static int fail(int rc, const char *reason, const char **ret_reason)
{
    *ret_reason = reason;
    return rc;
}

/* A listening socket. "" stands for every interface: of both families where there is IPv6. */
static int http_listen(const struct net_address *address, int *ret_fd, const char **ret_reason)
{
    struct sockaddr_storage sa;
    int rc = net_address_resolve(address, &sa);
    if (rc != 0) {
        return fail(rc, "no such host on this machine", ret_reason);
    }
    int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;
    int zero = 0;
    if (fd < 0) {
        return fail(CONCLAVE_EDISCONNECTED, strerror(errno), ret_reason);
    }
    socklen_t len =
        sa.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        (sa.ss_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero) != 0) ||
        bind(fd, (struct sockaddr *)&sa, len) != 0 || listen(fd, BACKLOG) != 0) {
        int error = errno;
        close(fd);
        return fail(error == EADDRINUSE ? CONCLAVE_EBUSY : CONCLAVE_EDISCONNECTED,
                    error == EADDRINUSE ? "the port is in use" : strerror(error), ret_reason);
    }
    *ret_fd = fd;
    return 0;
}

static void http_find_address(struct http *h, int fd)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof sa;
    if (getsockname(fd, (struct sockaddr *)&sa, &len) != 0) {
        abort(); /* a bound socket has a name */
    }
    net_address_of((struct sockaddr *)&sa, &h->address);
}

/* fd -1: it listens nowhere. */
static int http_start_daemon(struct http *h, int fd, int32_t idle_ms)
{
    unsigned idle_s = idle_ms < 1000 ? 1 : (unsigned)idle_ms / 1000;
    unsigned deaf = fd < 0 ? MHD_USE_NO_LISTEN_SOCKET : 0;
    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME | deaf, 0, NULL, NULL,
        on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_library_line, NULL,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)ACCEPTED_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)REQUEST_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, idle_s, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, fd < 0 ? MHD_OPTION_END : MHD_OPTION_LISTEN_SOCKET,
        (MHD_socket)fd, MHD_OPTION_END);
    return h->daemon != NULL ? 0 : CONCLAVE_ENOMEM;
}

static void http_init_handles(struct http *h)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (uv_poll_init(h->loop, &h->poll, info->epoll_fd) != 0 ||
        uv_timer_init(h->loop, &h->timer) != 0 || uv_timer_init(h->loop, &h->sweep) != 0 ||
        uv_poll_start(&h->poll, UV_READABLE, http_on_poll) != 0) {
        abort(); /* an epoll descriptor can be polled, and timers cannot fail */
    }
    h->poll.data = h->timer.data = h->sweep.data = h;
    h->open_handles = 3;
}

int http_open(uv_loop_t *loop, const struct net_address *address, int32_t idle_ms, http_fn fn,
              void *ctx, struct http **ret, const char **ret_reason)
{
    struct http *h = calloc(1, sizeof *h);
    int fd = -1;
    if (h == NULL) {
        return fail(CONCLAVE_ENOMEM, "out of memory", ret_reason);
    }
    h->loop = loop;
    h->fn = fn;
    h->ctx = ctx;
    list_init(&h->clients);
    list_init(&h->adopted);
    int rc = address != NULL ? http_listen(address, &fd, ret_reason) : 0;
    if (rc != 0) {
        free(h);
        return rc;
    }
    if (fd >= 0) {
        http_find_address(h, fd);
    }
    rc = http_start_daemon(h, fd, idle_ms);
    if (rc != 0) {
        if (fd >= 0) {
            close(fd);
        }
        free(h);
        return fail(rc, "the HTTP library did not start: out of memory or descriptors", ret_reason);
    }
    http_init_handles(h);
    *ret = h;
    return 0;
}

int http_adopt(struct http *h, int fd_take, const struct net_address *peer, struct slice subject)
{
    struct sockaddr_storage sa = {0};
    struct http_client *c = calloc(1, sizeof *c);
    if (c == NULL || net_address_resolve(peer, &sa) != 0) { /* numeric: nothing is looked up */
        free(c);
        close(fd_take);
        return CONCLAVE_ENOMEM;
    }
    c->fd = fd_take;
    buf_init(&c->subject, 0);
    buf_append_slice(&c->subject, subject);
    /* The library reports the connection in the call below or in its next run. */
    list_push_back(&h->adopted, &c->place.node);
    if (!buf_ok(&c->subject)) {
        client_free(c);
        close(fd_take);
        return CONCLAVE_ENOMEM;
    }
    socklen_t len =
        sa.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (MHD_add_connection(h->daemon, fd_take, (struct sockaddr *)&sa, len) != MHD_YES) {
        c = find_adopted(h, fd_take);
        if (c != NULL) {
            client_free(c);
        }
        return CONCLAVE_ENOMEM;
    }
    (void)uv_timer_start(&h->timer, http_on_timer, 0, 0);
    return 0;
}

void http_address(const struct http *h, struct net_address *ret)
{
    *ret = h->address;
}

/* Stop */

static void http_on_handle_closed(uv_handle_t *handle)
{
    struct http *h = handle->data;
    if (--h->open_handles > 0) {
        return;
    }
    if (h->closed != NULL) {
        h->closed(h->closed_ctx);
    }
    free(h);
}

void http_close(struct http *h, void (*cb)(void *ctx), void *ctx)
{
    if (h == NULL) {
        return;
    }
    h->closed = cb;
    h->closed_ctx = ctx;
    (void)uv_poll_stop(&h->poll); /* cannot fail */
    MHD_stop_daemon(h->daemon); /* closes the epoll descriptor: not before it is out of the loop */
    h->daemon = NULL;
    LIST_FOREACH (it, &h->adopted) {
        client_free(client_at(it));
    }
    uv_close((uv_handle_t *)&h->poll, http_on_handle_closed);
    uv_close((uv_handle_t *)&h->timer, http_on_handle_closed);
    uv_close((uv_handle_t *)&h->sweep, http_on_handle_closed);
}
