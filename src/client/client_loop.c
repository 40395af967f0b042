/*
 * The loop of a client: its descriptors behind one epoll descriptor, the socket to the server,
 * lookups, timers. Everything here runs under the client's lock and never blocks.
 */
#define _GNU_SOURCE /* asprintf */
#include "client/handle.h"

#include "base/clock.h"
#include "client/core/threads.h"
#include "client/link_sasl.h"
#include "client/link_tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 * 1024, /* room for one read */
    WIRE_BYTES = 16 * 1024, /* the same with TLS, on the stack */
    READS_MAX = 16,         /* reads of one turn, so that timers are not starved */
    EVENTS_MAX = 16,
};

/* The meaning of an epoll event. From TAG_LOOKUP on: the lookup of that host. */
enum tag {
    TAG_WAKE,
    TAG_TIMER,
    TAG_SOCKET,
    TAG_LOGIN,
    TAG_LOOKUP,
};

/* --- descriptors
 * -------------------------------------------------------------------------------------- */

static int watch_fd(struct conclave_client *client, int op, int fd, uint32_t events, uint64_t tag)
{
    struct epoll_event ev = {.events = events, .data.u64 = tag};
    return epoll_ctl(client->epoll_fd, op, fd, &ev) == 0 ? 0 : CONCLAVE_EIO;
}

int loop_open(struct conclave_client *client)
{
    client->sock = -1;
    client->armed_ns = INT64_MAX;
    client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    bool ok = client->epoll_fd >= 0 && client->wake_fd >= 0 && client->timer_fd >= 0 &&
              watch_fd(client, EPOLL_CTL_ADD, client->wake_fd, EPOLLIN, TAG_WAKE) == 0 &&
              watch_fd(client, EPOLL_CTL_ADD, client->timer_fd, EPOLLIN, TAG_TIMER) == 0;
    return ok ? 0 : CONCLAVE_EIO;
}

static void client_loop_close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

void loop_close(struct conclave_client *client)
{
    client_loop_close_fd(&client->sock);
    client_loop_close_fd(&client->timer_fd);
    client_loop_close_fd(&client->wake_fd);
    client_loop_close_fd(&client->epoll_fd);
    for (size_t i = 0; i < HOSTS_MAX; i++) {
        lookup_destroy(client->lookups[i]);
        client->lookups[i] = NULL;
        free(client->problems[i]);
        client->problems[i] = NULL;
    }
    link_sasl_end(client);
}

void loop_wake(struct conclave_client *client)
{
    bool looking = client->in_turn ||
                   (client->dispatching && pthread_equal(client->dispatch_thread, pthread_self()));
    if (looking || client->wake_pending) {
        return;
    }
    client->wake_pending = true;
    thread_wake(client->wake_fd);
}

static void drain_fd(int fd)
{
    eventfd_t value;
    (void)!eventfd_read(fd, &value); /* nothing there: another thread has drained it */
}

/* Lets timer_fd fire at the deadline. If it fires too early it is left alone, which saves system calls. */
static void arm_timer(struct conclave_client *client)
{
    int64_t at = loop_deadline_ns(client);
    if (at >= client->armed_ns) {
        return;
    }
    at = at > 0 ? at : 1;
    struct itimerspec spec = {.it_value = {at / 1000000000, at % 1000000000}};
    timerfd_settime(client->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
    client->armed_ns = at;
}

/* --- link
 * --------------------------------------------------------------------------------------------- */

/* Records why the attempt to reach this server failed; replaces an earlier reason. */
static void remember_error(struct conclave_client *client, const char *name, uint16_t port,
                           const char *what)
{
    const struct server_host *host = hosts_find(&client->hosts, name, port);
    char server[HOST_NAME_LEN + sizeof ":65535"];
    char *problem = NULL;
    snprintf(server, sizeof server, "%s:%u", name, (unsigned)port);
    client_log(client, CONCLAVE_LOG_WARNING, "cannot use the server", "server", server, "why",
               what);
    if (host == NULL) {
        return; /* it has left the list */
    }
    size_t index = (size_t)(host - client->hosts.list);
    assert(index < client->hosts.count);
    if (asprintf(&problem, "%s: %s", server, what) >= 0) {
        free(client->problems[index]);
        client->problems[index] = problem;
        client->last_problem = index;
    }
}

/* The same for the server of the socket. */
static void remember_link_error(struct conclave_client *client, const char *what)
{
    remember_error(client, client->trying_name, client->trying_port, what);
}

static void drop_socket(struct conclave_client *client)
{
    assert(client->core.link == LINK_NONE);
    link_tls_end(client);
    if (client->login != NULL) {
        /* The login's thread may keep the descriptor a little longer. */
        epoll_ctl(client->epoll_fd, EPOLL_CTL_DEL, link_sasl_fd(client), NULL);
        link_sasl_end(client);
    }
    client_loop_close_fd(&client->sock);
    client->connecting = false;
    client->want_write = false;
    client->attached_ns = 0;
    client->server[0] = '\0';
}

/* The error text for a connection that the server closed without a byte. */
static const char *refusal(const struct conclave_client *client)
{
    if (client->tls_context == NULL) {
        return "the server closed the connection without an answer: it has no quorum, or its port "
               "expects TLS";
    }
    return client->tls_own_cert
               ? "closed by the server during the TLS handshake: does it know the certificate?"
               : "closed by the server during the TLS handshake: does it want a certificate?";
}

/* Why the link ended. silent: the server ended it without a byte. */
static const char *link_problem(const struct conclave_client *client, bool silent)
{
    const char *const told[] = {link_tls_problem(client), link_sasl_problem(client),
                                client->core.link_problem, silent ? refusal(client) : NULL};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        if (told[i] != NULL) {
            return told[i];
        }
    }
    return conclave_strerror(client->core.link_error);
}

/* Closes the socket after the core has given up its link. */
static void follow_core(struct conclave_client *client, int64_t now_ns)
{
    if (client->sock < 0 || client->connecting || client->core.link != LINK_NONE) {
        return;
    }
    int64_t attached_ns = client->attached_ns;
    if (client->core.link_error != 0) {
        bool silent = client->core.link_error == CONCLAVE_EDISCONNECTED && attached_ns == 0;
        remember_link_error(client, link_problem(client, silent));
    }
    drop_socket(client);
    if (attached_ns != 0) {
        hosts_lost(&client->hosts, now_ns, now_ns - attached_ns);
    }
}

/* The error code for a failed read or write. */
static int link_error(int err)
{
    if (err == EPROTO) {
        return CONCLAVE_ETLS;
    }
    return err == ECONNRESET || err == EPIPE ? CONCLAVE_EDISCONNECTED : CONCLAVE_EIO;
}

static void read_socket(struct conclave_client *client, int64_t now_ns)
{
    struct core *core = &client->core;
    for (int i = 0; i < READS_MAX && core->link != LINK_NONE; i++) {
        uint8_t *room;
        size_t len;
        if (core_input(core, READ_BYTES, &room, &len) != 0) {
            core_link_down(core, now_ns, CONCLAVE_ENOMEM);
            return;
        }
        ssize_t n = recv(client->sock, room, len, 0);
        if (n > 0) {
            core_received(core, (size_t)n, now_ns);
            if ((size_t)n < len) {
                return;
            }
        } else if (n == 0) {
            core_link_down(core, now_ns, CONCLAVE_EDISCONNECTED);
        } else if (errno == EINTR) {
            continue;
        } else {
            if (errno != EAGAIN) {
                core_link_down(core, now_ns, link_error(errno));
            }
            return;
        }
    }
}

static struct slice wire_output(const struct conclave_client *client)
{
    return client->tls != NULL ? buf_slice(tls_out(client->tls)) : core_output(&client->core);
}

static void wire_sent(struct conclave_client *client, size_t len)
{
    if (client->tls != NULL) {
        buf_consume(tls_out(client->tls), len);
    } else {
        core_sent(&client->core, len);
    }
}

/* Sends the waiting output. 0, or the errno that ends the link. */
static int send_output(struct conclave_client *client)
{
    for (;;) {
        if (client->tls != NULL && link_tls_fill(client) != 0) {
            return EPROTO;
        }
        struct slice out = wire_output(client);
        if (out.len == 0) {
            break;
        }
        ssize_t n = send(client->sock, out.data, out.len, MSG_NOSIGNAL);
        if (n >= 0) {
            wire_sent(client, (size_t)n);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    bool want = wire_output(client).len > 0;
    if (want != client->want_write) {
        client->want_write = want;
        return watch_fd(client, EPOLL_CTL_MOD, client->sock, EPOLLIN | (want ? EPOLLOUT : 0),
                        TAG_SOCKET) == 0
                   ? 0
                   : EIO;
    }
    return 0;
}

/* Ends the link, or the attempt to make one. */
static void end_link(struct conclave_client *client, int error, int64_t now_ns)
{
    if (!client->connecting) {
        core_link_down(&client->core, now_ns, error);
        return;
    }
    const char *problem = link_tls_problem(client);
    if (problem == NULL) {
        problem = error == CONCLAVE_EDISCONNECTED ? refusal(client) : conclave_strerror(error);
    }
    remember_link_error(client, problem);
    drop_socket(client);
}

/* As read_socket, with TLS between the socket and the core. */
static void read_wire(struct conclave_client *client, int64_t now_ns)
{
    uint8_t wire[WIRE_BYTES];
    for (int i = 0; i < READS_MAX && client->sock >= 0; i++) {
        ssize_t n = recv(client->sock, wire, sizeof wire, 0);
        int error = 0;
        if (n > 0) {
            error = link_tls_received(client, slice_make(wire, (size_t)n), now_ns);
            int err = send_output(client); /* answers, or an alert with the reason */
            if (error == 0 && err != 0) {
                error = link_error(err);
            }
        } else if (n == 0) {
            error = CONCLAVE_EDISCONNECTED;
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            error = link_error(errno);
        }
        if (error != 0) {
            end_link(client, error, now_ns);
            return;
        }
        if (n > 0 && (size_t)n < sizeof wire) {
            return;
        }
        if (!client->connecting && client->core.link == LINK_NONE) {
            return;
        }
    }
}

static bool can_send(const struct conclave_client *client)
{
    return client->sock >= 0 && !client->connecting && client->core.link != LINK_NONE;
}

void loop_send_early(struct conclave_client *client)
{
    /* The loop's own attempt repeats an error, and ends the link. */
    bool failed = can_send(client) && send_output(client) != 0;
    if (failed || !can_send(client) || loop_deadline_ns(client) < client->armed_ns) {
        loop_wake(client);
    }
}

static void write_socket(struct conclave_client *client, int64_t now_ns)
{
    if (!can_send(client)) {
        return;
    }
    int err = send_output(client);
    if (err != 0) {
        core_link_down(&client->core, now_ns, link_error(err));
    }
}

/* --- connecting
 * --------------------------------------------------------------------------------------- */

static int64_t connect_timeout_ms(const struct conclave_client *client)
{
    return hosts_connect_timeout_ms(&client->hosts, client->core.options.session_timeout_ms);
}

static void format_address(const union host_address *address, char *buf, size_t len)
{
    char ip[INET6_ADDRSTRLEN] = "?";
    bool v6 = address->any.sa_family == AF_INET6;
    const void *bytes =
        v6 ? (const void *)&address->v6.sin6_addr : (const void *)&address->v4.sin_addr;
    inet_ntop(address->any.sa_family, bytes, ip, sizeof ip);
    unsigned port = ntohs(v6 ? address->v6.sin6_port : address->v4.sin_port);
    snprintf(buf, len, v6 ? "[%s]:%u" : "%s:%u", ip, port);
}

void loop_connected(struct conclave_client *client, int64_t now_ns)
{
    assert(client->connecting && client->sock >= 0 && client->attached_ns == 0);
    client->connecting = false;
    /* A client that was closed meanwhile asks for no session: follow_core closes the socket. */
    if (core_wants_link(&client->core)) {
        core_link_up(&client->core, now_ns, connect_timeout_ms(client));
    }
}

/* TCP is connected. */
static void connected(struct conclave_client *client, int64_t now_ns)
{
    client->want_write = true; /* as registered; the first send corrects it */
    if (client->tls_context == NULL) {
        loop_connected(client, now_ns);
        return;
    }
    int error = link_tls_begin(client, client->trying_name);
    int err = error == 0 ? send_output(client) : 0;
    if (err != 0) {
        error = link_error(err);
    }
    if (error != 0) {
        end_link(client, error, now_ns);
    }
}

/* Begins to connect. 0 or an errno. */
static int connect_to(struct conclave_client *client, const union host_address *address)
{
    assert(client->sock < 0 && !client->connecting && client->tls == NULL);
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return errno;
    }
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    socklen_t len = address->any.sa_family == AF_INET6 ? sizeof address->v6 : sizeof address->v4;
    int err = connect(fd, &address->any, len) == 0 ? 0 : errno;
    if ((err != 0 && err != EINPROGRESS) ||
        watch_fd(client, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT, TAG_SOCKET) != 0) {
        close(fd);
        return err != 0 && err != EINPROGRESS ? err : EIO;
    }
    client->sock = fd;
    client->connecting = true;
    format_address(address, client->server, sizeof client->server);
    client_log(client, CONCLAVE_LOG_DEBUG, "connecting", "server", client->trying_name, "address",
               client->server);
    return 0;
}

/* The lookup's thread may keep the descriptor a little longer: removed now, or epoll would report it again. */
static void drop_lookup(struct conclave_client *client, size_t index)
{
    struct lookup *lookup = client->lookups[index];
    if (lookup != NULL) {
        epoll_ctl(client->epoll_fd, EPOLL_CTL_DEL, lookup_fd(lookup), NULL);
        lookup_destroy(lookup);
        client->lookups[index] = NULL;
    }
}

void loop_forget_servers(struct conclave_client *client)
{
    for (size_t i = 0; i < HOSTS_MAX; i++) {
        drop_lookup(client, i);
        free(client->problems[i]);
        client->problems[i] = NULL;
    }
}

static void start_lookups(struct conclave_client *client)
{
    struct server_host *host;
    while ((host = hosts_lookup_begin(&client->hosts)) != NULL) {
        struct lookup **lookup = &client->lookups[host - client->hosts.list];
        uint64_t tag = TAG_LOOKUP + (uint64_t)(host - client->hosts.list);
        assert(*lookup == NULL);
        int rc = lookup_start(host->name, lookup);
        if (rc == 0) {
            rc = watch_fd(client, EPOLL_CTL_ADD, lookup_fd(*lookup), EPOLLIN, tag);
        }
        if (rc != 0) {
            remember_error(client, host->name, host->port, conclave_strerror(rc));
            lookup_destroy(*lookup);
            *lookup = NULL;
            hosts_lookup_end(&client->hosts, host, NULL, 0);
        }
    }
}

static void finish_lookup(struct conclave_client *client, size_t index)
{
    struct lookup *lookup = client->lookups[index];
    if (lookup == NULL) {
        return; /* given up in this turn */
    }
    assert(index < client->hosts.count);
    struct server_host *host = &client->hosts.list[index];
    union host_address addresses[HOST_ADDRESSES];
    const char *why;
    unsigned count = lookup_result(lookup, addresses, &why);
    drop_lookup(client, index);
    if (count == 0) {
        remember_error(client, host->name, host->port, why);
    }
    hosts_lookup_end(&client->hosts, host, addresses, count);
}

/* Tries servers until one attempt is in progress or there is nothing to try now. */
static void seek_link(struct conclave_client *client, int64_t now_ns)
{
    if (client->connecting && !core_wants_link(&client->core)) {
        drop_socket(client);
    }
    if (client->connecting && now_ns >= client->connect_by_ns) {
        if (client->connect_by_ns != 0) { /* otherwise it has left the list */
            remember_link_error(client, client->tls != NULL ? "the TLS handshake timed out"
                                                            : "connecting timed out");
        }
        drop_socket(client);
    }
    while (client->sock < 0 && core_wants_link(&client->core)) {
        const struct server_host *host;
        const union host_address *address;
        enum hosts_step step = hosts_next(&client->hosts, now_ns, &host, &address);
        start_lookups(client);
        if (step != HOSTS_CONNECT) {
            return;
        }
        memcpy(client->trying_name, host->name, sizeof client->trying_name);
        client->trying_port = host->port;
        client->connect_by_ns = clock_add_ms(now_ns, connect_timeout_ms(client));
        loss_note_attempt(client);
        int err = connect_to(client, address);
        if (err != 0) {
            remember_link_error(client, strerror(err));
        }
    }
}

/* An event of a socket with TLS: until the handshake is complete, the loop's step does not send. */
static void shake_or_read(struct conclave_client *client, uint32_t events, int64_t now_ns)
{
    if (client->connecting && (events & EPOLLOUT) != 0) {
        int err = send_output(client);
        if (err != 0) {
            end_link(client, link_error(err), now_ns);
            return;
        }
    }
    if ((events & ~(uint32_t)EPOLLOUT) != 0) {
        read_wire(client, now_ns);
    }
}

static void socket_event(struct conclave_client *client, uint32_t events, int64_t now_ns)
{
    if (client->sock < 0) {
        return;
    }
    if (client->tls != NULL) {
        shake_or_read(client, events, now_ns);
        return;
    }
    if (!client->connecting) {
        if ((events & ~(uint32_t)EPOLLOUT) != 0) {
            read_socket(client, now_ns);
        }
        return;
    }
    int err = 0;
    socklen_t len = sizeof err;
    if (getsockopt(client->sock, SOL_SOCKET, SO_ERROR, &err, &len) != 0) {
        err = errno;
    }
    if (err != 0) {
        remember_link_error(client, strerror(err));
        drop_socket(client);
    } else if ((events & EPOLLOUT) != 0) {
        connected(client, now_ns);
    }
}

/* --- login
 * -------------------------------------------------------------------------------------------- */

int loop_login(struct conclave_client *client, struct slice challenge)
{
    assert(client->core.link == LINK_LOGIN && client->sock >= 0 && !client->connecting);
    int rc = link_sasl_want(client, client->trying_name, challenge);
    if (rc == 0 && slice_is_null(challenge)) {
        rc = watch_fd(client, EPOLL_CTL_ADD, link_sasl_fd(client), EPOLLIN, TAG_LOGIN);
    }
    return rc;
}

static void login_event(struct conclave_client *client, int64_t now_ns)
{
    if (client->login != NULL) {
        drain_fd(link_sasl_fd(client));
        link_sasl_ready(client, now_ns);
    }
}

/* --- turns
 * -------------------------------------------------------------------------------------------- */

int64_t loop_deadline_ns(const struct conclave_client *client)
{
    int64_t at = core_deadline_ns(&client->core);
    struct timer *t = timers_first(&client->timers);
    if (t != NULL && !client->closed && t->at_ns < at) {
        at = t->at_ns;
    }
    if (client->connecting && client->connect_by_ns < at) {
        at = client->connect_by_ns;
    }
    bool pausing = client->sock < 0 && core_wants_link(&client->core);
    if (pausing && client->hosts.not_before_ns != 0 && client->hosts.not_before_ns < at) {
        at = client->hosts.not_before_ns;
    }
    return at;
}

static void fire_timers(struct conclave_client *client, int64_t now_ns)
{
    /* Timers that are started by callbacks here wait for the next turn; otherwise a timer that restarts itself would
     * never end the loop. */
    uint64_t before = client->timers.seq;
    struct timer *t;
    while (!client->closed && (t = timers_first(&client->timers)) != NULL && t->seq < before &&
           t->at_ns <= now_ns) {
        timers_remove(&client->timers, t);
        struct client_timer *timer = CONTAINER_OF(t, struct client_timer, timer);
        timer->fn(client, timer->ctx);
    }
}

void loop_step(struct conclave_client *client)
{
    int64_t now_ns = clock_monotonic_ns(clock_system());
    assert(!client->in_turn);
    client->in_turn = true;
    core_tick(&client->core, now_ns);
    fire_timers(client, now_ns);
    write_socket(client, now_ns);
    follow_core(client, now_ns);
    seek_link(client, now_ns);
    handle_tell_closed(client);
    assert(client->core.link == LINK_NONE || (client->sock >= 0 && !client->connecting));
    client->in_turn = false;
    arm_timer(client);
}

static void handle_events_of(struct conclave_client *client, const struct epoll_event *events,
                             int count)
{
    int64_t now_ns = clock_monotonic_ns(clock_system());
    loss_note_turn(client, client->armed_ns, now_ns);
    client->in_turn = true;
    for (int i = 0; i < count; i++) {
        uint64_t tag = events[i].data.u64;
        if (tag == TAG_WAKE) {
            drain_fd(client->wake_fd);
            client->wake_pending = false;
        } else if (tag == TAG_TIMER) {
            drain_fd(client->timer_fd);
            client->armed_ns = INT64_MAX;
        } else if (tag == TAG_SOCKET) {
            socket_event(client, events[i].events, now_ns);
        } else if (tag == TAG_LOGIN) {
            login_event(client, now_ns);
        } else {
            finish_lookup(client, (size_t)(tag - TAG_LOOKUP));
        }
    }
    follow_core(client, now_ns);
    client->in_turn = false;
}

void loop_turn(struct conclave_client *client)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(client->epoll_fd, events, EVENTS_MAX, 0);
    handle_events_of(client, events, count);
    loop_step(client);
}

void *loop_main(void *arg)
{
    struct conclave_client *client = arg;
    bool closed = false;
    while (!closed) {
        struct epoll_event events[EVENTS_MAX];
        int count = epoll_wait(client->epoll_fd, events, EVENTS_MAX, -1);
        pthread_mutex_lock(&client->lock);
        handle_events_of(client, events, count);
        loop_step(client);
        closed = client->closed;
        pthread_mutex_unlock(&client->lock);
    }
    pthread_mutex_lock(&client->lock);
    bool finish = client->finish_by_loop;
    pthread_mutex_unlock(&client->lock);
    if (finish) {
        pthread_detach(pthread_self());
        handle_finish(client);
    }
    return NULL;
}
