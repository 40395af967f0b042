#include "front/client_port.h"

#include "base/log.h"
#include "base/rates.h"
#include "front/service.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum {
    LINGER_MS = 1000,          /* time for the client to close its side */
    DESCRIPTORS_RESERVED = 64, /* for the log, the loop and the operator */
    SUBJECT_MAX = 4096,        /* of a client's certificate */
    SECURING_THREADS = 2,
    SECURING_NICE = 5, /* nice value of these threads: consensus goes first */
};

#define PROGRESS_NS (INT64_C(100) * 1000000) /* interval between two looks at which clients read */

struct client {
    struct connection connection;
    struct stream *stream;
    struct client_port *port;
    struct client_address *address; /* address of the client; NULL: out of memory */
    struct list node;               /* in port.clients, until its connection is finished */
    struct list securing; /* in port.securing, until the handshake or the connection ends */
    size_t unsent;        /* bytes not sent yet at the last look, see port_note_progress */
    bool tls_failed;      /* the alert is on its way to the client */
    int32_t probed_ms;    /* the session timeout for which TCP probes the client; 0: it does not */
    char peer[NET_TEXT_MAX];
};

struct door {
    struct client_port *port;
    struct listener *listener; /* NULL: no such door, or stopped */
    enum client_door which;
};

struct client_port {
    uv_loop_t *loop;
    struct service *service;
    struct door doors[PORT_DOORS];
    int parts;               /* listeners and worker that are not closed yet */
    struct tls_context *tls; /* for new connections; NULL: none */
    bool unified;            /* the client door accepts both kinds */
    struct worker worker;    /* threads for handshakes, while `working` */
    bool working;
    struct list securing;    /* clients in the handshake, oldest first */
    size_t securing_count;   /* their number */
    struct rates handshakes; /* handshakes per address */
    struct list clients;     /* clients with an open connection */
    size_t sockets;          /* open sockets, also without connection */
    size_t connections_max;
    struct client_port_stats stats;
    void (*closed)(void *ctx);
    void *closed_ctx;
    int64_t progress_at_ns; /* when port_note_progress is due */
    bool stopped;           /* the server reads nothing any more */
    bool closing;           /* p is freed with the last socket and listener */
    unsigned linger_ms;
};

static void port_on_part_closed(void *ctx);

static void port_check_gone(struct client_port *p)
{
    if (!p->closing || p->parts > 0 || p->sockets > 0) {
        return;
    }
    if (p->working) {
        p->working = false;
        p->parts = 1;
        worker_close(&p->worker, port_on_part_closed, p);
        return;
    }
    rates_finish(&p->handshakes);
    assert(list_empty(&p->clients) && p->stats.connections == 0 && p->securing_count == 0);
    tls_context_release(p->tls);
    if (p->closed != NULL) {
        p->closed(p->closed_ctx);
    }
    free(p);
}

static void port_on_part_closed(void *ctx)
{
    struct client_port *p = ctx;
    assert(p->parts > 0);
    p->parts--;
    port_check_gone(p);
}

/* One client */

static void client_pause(struct client *cl)
{
    if (!stream_paused(cl->stream)) {
        cl->port->service->metrics->conclave_reading_paused_total++;
        stream_pause(cl->stream);
    }
}

static size_t client_on_data(void *owner, struct slice bytes)
{
    struct client *cl = owner;
    if (cl->port->service->faults != NULL && faults_hold(&cl->connection)) {
        client_pause(cl);
        return 0;
    }
    size_t taken = connection_input(&cl->connection, bytes);
    if (!connection_ready(&cl->connection)) {
        client_pause(cl);
    }
    return taken;
}

static void client_on_sent(void *owner)
{
    struct client *cl = owner;
    connection_output_added(&cl->connection);
}

/* TLS handshakes: each costs a thread a millisecond or more, before the client has authenticated. */

static void client_end_securing(struct client *cl)
{
    if (!list_empty(&cl->securing)) {
        assert(cl->port->securing_count > 0);
        list_remove(&cl->securing);
        cl->port->securing_count--;
    }
}

/* The oldest handshake that waits for its client; NULL: all wait for our threads. */
static struct client *port_slowest_peer(const struct client_port *p)
{
    LIST_FOREACH (it, &p->securing) {
        struct client *cl = CONTAINER_OF(it, struct client, securing);
        if (!stream_awaits_worker(cl->stream)) {
            return cl;
        }
    }
    return NULL;
}

/* NULL, or the reason why the client may not begin a handshake. */
static const char *port_begin_securing(struct client_port *p, struct client *cl)
{
    const struct client_limits *l = &p->service->limits;
    char address[NET_NETWORK_MAX];
    net_network_name(stream_peer(cl->stream)->host, address);
    if (!rates_take(&p->handshakes, address, l->address_handshakes_max, l->address_handshakes_max,
                    clock_monotonic_ns(p->service->clock))) {
        return "too many TLS handshakes from this address: maxTlsHandshakesPerSecondPerAddress";
    }
    if (p->securing_count >= l->handshakes_max) {
        struct client *slowest = port_slowest_peer(p);
        if (slowest == NULL) {
            return "too many TLS handshakes at once: maxTlsHandshakes";
        }
        client_end_securing(slowest);
        p->service->metrics->conclave_refused_tls_handshakes_total++;
        connection_drop(&slowest->connection,
                        "its TLS handshake was the slowest of too many: maxTlsHandshakes");
    }
    list_push_back(&p->securing, &cl->securing);
    p->securing_count++;
    return NULL;
}

/* Whether the client may begin a handshake. If not, logs the reason, once a minute. */
static bool client_may_secure(struct client *cl)
{
    const char *refusal = port_begin_securing(cl->port, cl);
    if (refusal == NULL) {
        return true;
    }
    cl->port->service->metrics->conclave_refused_tls_handshakes_total++;
    log_cause(LOG_WARN, "server", "tls-refused", stream_peer(cl->stream)->host, refusal,
              "check the client's certificate, its CA and the TLS versions of both sides",
              "peer=%s reason=\"%s\"", cl->peer, refusal);
    return false;
}

static bool client_on_securing(void *owner)
{
    struct client *cl = owner;
    if (client_may_secure(cl)) {
        if (cl->connection.stage == CONNECTION_HANDSHAKE) { /* else it is closing */
            connection_enter(&cl->connection, CONNECTION_SECURING);
        }
        return true;
    }
    connection_end(&cl->connection);
    return false;
}

/* The certificate is verified: its subject becomes an id of the client. */
static void client_on_secured(void *owner)
{
    struct client *cl = owner;
    struct connection *c = &cl->connection;
    struct buf subject;
    buf_init(&subject, SUBJECT_MAX);
    client_end_securing(cl);
    if (c->stage == CONNECTION_SECURING) {
        connection_enter(c, CONNECTION_HANDSHAKE);
    }
    c->secured = true;
    stream_peer_subject(cl->stream, &subject);
    if (!buf_ok(&subject) ||
        (subject.len > 0 && connection_add_certificate(c, buf_slice(&subject)) != 0)) {
        connection_drop(c, "the subject of the client's certificate is too long, or memory is out");
    }
    buf_finish(&subject);
}

/* Whether TCP gave up a host that does not answer. */
static bool error_is_network(int error)
{
    return error == UV_ETIMEDOUT || error == UV_EHOSTUNREACH || error == UV_ENETUNREACH ||
           error == UV_EHOSTDOWN || error == UV_ENETDOWN;
}

static void client_on_ended(void *owner, int error)
{
    struct client *cl = owner;
    const char *problem = stream_tls_problem(cl->stream);
    if (problem != NULL) {
        cl->tls_failed = true;
        cl->port->service->metrics->unsuccessful_handshake++;
        log_cause(LOG_WARN, "server", "tls-refused", stream_peer(cl->stream)->host, problem,
                  "check the client's certificate, its CA and the TLS versions of both sides",
                  "peer=%s session=0x%llx reason=\"%s\"", cl->peer,
                  (unsigned long long)cl->connection.session_id, problem);
    } else if (error != 0) {
        log_debug("server", "connection-broken", "peer=%s session=0x%llx error=%s", cl->peer,
                  (unsigned long long)cl->connection.session_id, uv_err_name(error));
    }
    /* A record keeps the reason: it must outlive the stream, as the text of the problem does not. */
    connection_lost(&cl->connection, error_is_network(error),
                    problem != NULL ? "TLS failed; the log of the server says how"
                    : error != 0    ? uv_strerror(error)
                                    : NULL);
}

static void client_on_closed(void *owner)
{
    struct client *cl = owner;
    struct client_port *p = cl->port;
    if (cl->address != NULL) {
        assert(cl->address->sockets > 0);
        cl->address->sockets--;
        client_address_release(&p->service->addresses, cl->address);
    }
    free(cl);
    assert(p->sockets > 0);
    p->sockets--;
    port_check_gone(p);
}

static const struct stream_handler client_handler = {
    .data = client_on_data,
    .sent = client_on_sent,
    .securing = client_on_securing,
    .secured = client_on_secured,
    .ended = client_on_ended,
    .closed = client_on_closed,
};

static void client_leave(struct client *cl)
{
    assert(!list_empty(&cl->node) && cl->port->stats.connections > 0);
    list_remove(&cl->node);
    client_end_securing(cl);
    cl->port->stats.connections--;
    cl->port->service->metrics->connection_drop_count++;
    connection_finish(&cl->connection);
}

/* A client pings after a third of its timeout, so only a silent one is probed. TCP gives it up only after its session's
 * end. */
static void client_probe(struct client *cl)
{
    enum { PROBES = 30, INTERVALS = 8 };
    int32_t ms = cl->connection.timeout_ms;
    int interval_s = ms / INTERVALS / 1000;
    if (cl->port->service->notes.ledger != NULL && cl->probed_ms != ms) {
        cl->probed_ms = ms;
        stream_probe(cl->stream, (ms / 2 + 999) / 1000, interval_s > 1 ? interval_s : 1, PROBES);
    }
}

static bool client_tcp(const struct connection *c, struct session_tcp *ret)
{
    const struct client *cl = (const void *)((const char *)c - offsetof(struct client, connection));
    struct stream_tcp tcp;
    if (cl->stream == NULL || !stream_tcp(cl->stream, &tcp)) {
        return false;
    }
    *ret = (struct session_tcp){
        .known = true,
        .unacknowledged = tcp.unacknowledged,
        .retransmits = tcp.retransmits,
        .retransmits_all = tcp.retransmits_all,
        .probes = tcp.probes,
        .heard_ms = tcp.heard_ms,
    };
    return true;
}

/* Brings the socket in line with its connection. It frees only the memory of the connection itself. */
static void client_update(struct client *cl)
{
    struct connection *c = &cl->connection;
    if (c->stage == CONNECTION_SERVING && cl->probed_ms == 0) {
        client_probe(cl);
    }
    bool held = c->service->faults != NULL && c->stage != CONNECTION_CLOSED && faults_hold(c);
    if (c->stage != CONNECTION_CLOSED && !held && leadership_may_send(c->service, c)) {
        bool taken = stream_sending(cl->stream) == 0;
        bool any = c->out.len > 0;
        stream_send(cl->stream, &c->out);
        c->faults.out_at_ms = 0;
        c->sending = stream_sending(cl->stream);
        connection_count_output(c);
        if (any || c->sending_since_ns != 0) {
            request_times_sent(c, c->out.len + c->sending, taken);
        }
    }
    if (c->stage == CONNECTION_CLOSED) {
        client_leave(cl);
        if (cl->tls_failed) {
            stream_finish(cl->stream, cl->port->closing ? cl->port->linger_ms : LINGER_MS);
        } else {
            stream_close(cl->stream);
        }
        return;
    }
    if (c->stage == CONNECTION_CLOSING) {
        /* Also a slow reader gets all of it: the linger begins only after that. */
        if (c->out.len == 0 && (c->sending == 0 || cl->port->closing)) {
            client_leave(cl);
            stream_finish(cl->stream, cl->port->closing ? cl->port->linger_ms : LINGER_MS);
        }
        return;
    }
    if (cl->port->stopped || held || !connection_ready(c)) {
        client_pause(cl);
    } else {
        stream_resume(cl->stream);
    }
}

/* Accepting */

static void port_refuse(struct client_port *p, const char *host, const char *peer,
                        const char *reason)
{
    p->stats.refused++;
    p->service->metrics->connection_rejected++;
    log_cause(
        LOG_WARN, "server", "connection-refused", host, reason,
        "raise the limit that the reason names, or find out why that address connects so often",
        "peer=%s reason=\"%s\"", peer, reason);
}

static const char *port_limit(struct client_port *p, struct client *cl)
{
    size_t address_max = p->service->limits.address_max;
    if (cl->address == NULL) {
        return "out of memory";
    }
    if (p->service->faults != NULL && faults_on_accept(p->service)) {
        return "a test asked for it";
    }
    if (p->stats.connections >= p->connections_max) {
        p->service->metrics->conclave_refused_connections_total++;
        return "too many connections: maxCnxns, or the limit of open files";
    }
    if (address_max > 0 && cl->address->sockets > address_max) {
        p->service->metrics->conclave_refused_connections_address_total++;
        return "too many connections from this address: maxClientCnxns";
    }
    return p->stopped ? "the server is stopping" : NULL;
}

static int door_use_tls(const struct door *d, struct stream *stream)
{
    struct client_port *p = d->port;
    struct worker *worker = p->working ? &p->worker : NULL;
    if (d->which == PORT_SECURE) {
        return stream_use_tls(stream, p->tls, STREAM_TLS_ONLY, worker);
    }
    return p->unified ? stream_use_tls(stream, p->tls, STREAM_TLS_OR_PLAIN, worker) : 0;
}

static void port_on_accepted(void *ctx, struct stream *stream)
{
    struct door *d = ctx;
    struct client_port *p = d->port;
    struct client *cl = calloc(1, sizeof *cl);
    if (cl == NULL || door_use_tls(d, stream) != 0) {
        port_refuse(p, "?", "?", "out of memory");
        free(cl);
        stream_close(stream);
        return;
    }
    p->sockets++;
    cl->port = p;
    cl->stream = stream;
    list_init(&cl->node);
    list_init(&cl->securing);
    int rc = stream_start(stream, &client_handler, cl);
    const struct net_address *peer = stream_peer(stream);
    net_address_format(peer, cl->peer);
    cl->address = client_address_hold(&p->service->addresses, peer->host);
    if (cl->address != NULL) {
        cl->address->sockets++;
    }
    const char *refusal = port_limit(p, cl);
    if (rc != 0 || refusal != NULL) {
        if (refusal != NULL) {
            port_refuse(p, stream_peer(stream)->host, cl->peer, refusal);
        }
        stream_close(stream);
        return;
    }
    if (stream_in_handshake(stream) && !client_may_secure(cl)) {
        stream_close(stream);
        return;
    }
    p->stats.accepted++;
    p->stats.connections++;
    list_push_back(&p->clients, &cl->node);
    if (connection_init(&cl->connection, p->service, peer->host, cl->peer) != 0) {
        connection_drop(&cl->connection, "out of memory");
    } else if (stream_in_handshake(stream)) {
        connection_enter(&cl->connection, CONNECTION_SECURING);
    }
}

static void port_on_refused(void *ctx, int error)
{
    const struct door *d = ctx;
    port_refuse(d->port, "?", "?", uv_strerror(error));
}

static size_t port_connections_max(size_t configured)
{
    struct rlimit files;
    size_t most = SIZE_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
        most = files.rlim_cur > 2 * DESCRIPTORS_RESERVED ? files.rlim_cur - DESCRIPTORS_RESERVED
                                                         : files.rlim_cur / 2;
    }
    return configured != 0 && configured < most ? configured : most;
}

void client_port_limit(struct client_port *p)
{
    p->connections_max = port_connections_max(p->service->limits.connections_max);
}

struct client_port *client_port_create(uv_loop_t *loop, struct service *service)
{
    struct client_port *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return NULL;
    }
    p->loop = loop;
    p->service = service;
    service->notes.tcp = client_tcp;
    client_port_limit(p);
    list_init(&p->clients);
    list_init(&p->securing);
    rates_init(&p->handshakes, &service->key);
    for (enum client_door i = 0; i < PORT_DOORS; i++) {
        p->doors[i] = (struct door){.port = p, .which = i};
    }
    return p;
}

int client_port_listen(struct client_port *p, enum client_door door,
                       const struct net_address *address, int *ret_detail)
{
    int rc = listener_open(p->loop, address, &p->doors[door].listener, ret_detail);
    if (rc == 0) {
        p->parts++;
    }
    return rc;
}

void client_port_set_tls(struct client_port *p, struct tls_context *context, bool unified)
{
    const struct worker_options options = {.threads = SECURING_THREADS, .nice = SECURING_NICE};
    if (!p->working && !p->closing) {
        p->working = worker_init(&p->worker, p->loop, &options) == 0;
        if (!p->working) {
            log_error_advice(
                "server", "no-handshake-threads",
                "raise the limit of processes (ulimit -u) and start the server again",
                "effect=\"TLS handshakes run on the loop thread and delay consensus\"");
        }
    }
    tls_context_release(p->tls);
    p->tls = tls_context_share(context);
    p->unified = unified;
}

int client_port_start(struct client_port *p, int backlog, int *ret_detail)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < PORT_DOORS; i++) {
        struct door *d = &p->doors[i];
        struct listener_callbacks callbacks = {
            .accepted = port_on_accepted, .refused = port_on_refused, .ctx = d};
        if (d->listener != NULL) {
            rc = listener_start(d->listener, backlog, &callbacks, ret_detail);
        }
    }
    return rc;
}

bool client_port_address(const struct client_port *p, enum client_door door,
                         struct net_address *ret)
{
    if (p->doors[door].listener == NULL) {
        return false;
    }
    listener_address(p->doors[door].listener, ret);
    return true;
}

/* A client that reads what we send is alive. Its pings may wait behind too much unsent output, because the server then
 * stops reading from it. */
static void port_note_progress(struct client_port *p)
{
    if (p->service->now_ns < p->progress_at_ns) {
        return;
    }
    p->progress_at_ns = p->service->now_ns + PROGRESS_NS;
    LIST_FOREACH (it, &p->clients) {
        struct client *cl = CONTAINER_OF(it, struct client, node);
        size_t unsent = cl->stream != NULL ? stream_sending(cl->stream) : 0;
        if (unsent < cl->unsent) {
            leadership_touch(p->service, &cl->connection);
        }
        cl->unsent = unsent;
    }
}

/* Closes the connections that keep the most memory, until the rest is within the limit. Returns whether it closed
 * one. */
static bool port_relieve(struct client_port *p)
{
    bool any = false;
    size_t max = p->service->limits.buffers_max;
    size_t kept = account_buffers(&p->service->account);
    while (kept > max) {
        struct connection *most = NULL;
        LIST_FOREACH (it, &p->clients) {
            struct connection *c = &CONTAINER_OF(it, struct client, node)->connection;
            if (c->stage != CONNECTION_CLOSED &&
                (most == NULL || account_buffers(&c->account) > account_buffers(&most->account))) {
                most = c;
            }
        }
        if (most == NULL) {
            break;
        }
        any = true;
        kept -= account_buffers(&most->account);
        p->service->metrics->conclave_slow_clients_cut_total++;
        connection_drop(most, "it kept the most memory when unread answers and unfinished requests "
                              "passed maxBufferBytes");
    }
    return any;
}

/* Clients that a test held may be read and sent to again. */
static void port_release_held(struct client_port *p)
{
    struct service *s = p->service;
    if (!faults_due(s->faults, clock_monotonic_ms(s->clock))) {
        return;
    }
    LIST_FOREACH (it, &p->clients) {
        struct connection *c = &CONTAINER_OF(it, struct client, node)->connection;
        if (c->faults.held && list_empty(&c->dirty)) {
            list_push_back(&s->dirty, &c->dirty);
        }
    }
}

void client_port_turn(struct client_port *p)
{
    struct list *node;
    if (p->service->faults != NULL) {
        port_release_held(p);
    }
    port_note_progress(p);
    port_relieve(p);
    do {
        while ((node = list_pop_front(&p->service->dirty)) != NULL) {
            struct connection *c = CONTAINER_OF(node, struct connection, dirty);
            client_update(CONTAINER_OF(c, struct client, connection));
        }
    } while (port_relieve(p)); /* unsent answers count, too */
    port_check_gone(p);        /* if nothing was left to close, no callback follows */
}

void client_port_stop(struct client_port *p)
{
    if (p->stopped) {
        return;
    }
    p->stopped = true;
    LIST_FOREACH (it, &p->clients) {
        stream_pause(CONTAINER_OF(it, struct client, node)->stream);
    }
    for (int i = 0; i < PORT_DOORS; i++) {
        listener_close(p->doors[i].listener, port_on_part_closed, p);
        p->doors[i].listener = NULL;
    }
}

void client_port_close(struct client_port *p, unsigned linger_ms, void (*cb)(void *ctx), void *ctx)
{
    if (p == NULL) {
        return;
    }
    client_port_stop(p);
    p->closing = true;
    p->linger_ms = linger_ms;
    p->closed = cb;
    p->closed_ctx = ctx;
    LIST_FOREACH (it, &p->clients) {
        struct connection *c = &CONTAINER_OF(it, struct client, node)->connection;
        if (linger_ms == 0) {
            connection_end(c);
        } else {
            connection_close_after_output(c);
        }
    }
}

void client_port_cut(struct client_port *p)
{
    LIST_FOREACH (it, &p->clients) {
        connection_end(&CONTAINER_OF(it, struct client, node)->connection);
    }
}

void client_port_each(const struct client_port *p, bool (*fn)(void *ctx, struct connection *c),
                      void *ctx)
{
    for (struct list *it = p->clients.next; it != &p->clients; it = it->next) {
        if (!fn(ctx, &CONTAINER_OF(it, struct client, node)->connection)) {
            return;
        }
    }
}

void client_port_stats(const struct client_port *p, struct client_port_stats *ret)
{
    *ret = p->stats;
    ret->connections_max = p->connections_max;
    ret->tls_handshakes = p->securing_count;
}
