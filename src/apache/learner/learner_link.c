#include "apache/learner/learner_link.h"

#include "apache/learner/learner_login.h"
#include "base/backoff.h"
#include "net/connector.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RETRY_MIN_MS = 50, RETRY_MAX_MS = 2000, SOON_MS = 20, ROOM = 1 << 18, CONNECT_MS = 3000 };

struct learner_link {
    uv_loop_t *loop;
    struct net_address servers[LEARNER_SERVERS_MAX];
    size_t count;
    size_t next; /* the server that is asked now */
    struct learner_options options;
    const struct source_access *access;
    struct learner_link_callbacks callbacks;
    struct stream_buffer *read_buffer;
    struct connector *connector; /* NULL: not connecting */
    struct stream *stream;       /* NULL: not connected */
    struct learner_login *login; /* NULL: no login is in progress */
    struct learner *learner;     /* with a stream, after TLS and login */
    bool heard;                  /* the server has sent something on this stream, TLS apart */
    uv_timer_t timer;            /* the next attempt, or the end of the patience */
    int64_t wait_ms;
    size_t failures; /* since a server last answered, modulo count */
    size_t
        refusals; /* the last attempts that nobody accepted; a server that does not lead accepts none */
    bool whole; /* attempts ask for the whole state, until one succeeds */
    bool closing;
    int parts; /* timer, stream, login */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

size_t learner_servers_parse(struct slice text, struct net_address ret[LEARNER_SERVERS_MAX])
{
    size_t count = 0;
    const uint8_t *at = text.data;
    const uint8_t *end = text.data + text.len;
    while (at < end) {
        const uint8_t *comma = memchr(at, ',', (size_t)(end - at));
        size_t len = (size_t)((comma != NULL ? comma : end) - at);
        char one[NET_TEXT_MAX];
        if (count == LEARNER_SERVERS_MAX || len >= sizeof one) {
            return 0;
        }
        memcpy(one, at, len);
        one[len] = '\0';
        if (net_address_parse(one, &ret[count]) != 0 || ret[count].host[0] == '\0' ||
            ret[count].port == 0) {
            return 0;
        }
        count++;
        at += len + (comma != NULL);
        if (comma != NULL && at == end) {
            return 0;
        }
    }
    return count;
}

static void part_ended(void *owner)
{
    struct learner_link *l = owner;
    assert(l->parts > 0);
    if (--l->parts == 0) {
        stream_buffer_release(l->read_buffer);
        void (*cb)(void *ctx) = l->closed;
        void *ctx = l->closed_ctx;
        free(l);
        if (cb != NULL) {
            cb(ctx);
        }
    }
}

static void on_timer(uv_timer_t *timer);

static void link_wait(struct learner_link *l, int64_t ms)
{
    if (uv_timer_start(&l->timer, on_timer, (uint64_t)ms, 0) != 0) {
        abort(); /* fails only for a handle that is closing */
    }
}

static void drop_login(struct learner_link *l)
{
    struct learner_login *login = l->login;
    l->login = NULL;
    learner_login_close(login, part_ended, l);
}

static void drop_connection(struct learner_link *l)
{
    connector_cancel(l->connector);
    l->connector = NULL;
    drop_login(l);
    learner_destroy(l->learner);
    l->learner = NULL;
    if (l->stream != NULL) {
        stream_close(l->stream);
        l->stream = NULL;
    }
}

/* The next server comes after a pause; a whole round without an answer makes the pause longer. */
static void link_fail(struct learner_link *l, const char *why)
{
    struct net_address server = l->servers[l->next];
    bool refused = strcmp(why, uv_strerror(UV_ECONNREFUSED)) == 0;
    bool lived = l->learner != NULL && learner_is_live(l->learner);
    if (lived) {
        l->wait_ms = RETRY_MIN_MS;
        l->failures = 0;
        l->whole = false;
    }
    l->whole = l->whole || (l->learner != NULL && learner_must_restart(l->learner));
    char text[400];
    (void)snprintf(text, sizeof text, "%s", why);
    drop_connection(l);
    l->next = (l->next + 1) % l->count;
    l->failures++;
    l->refusals = refused ? l->refusals + 1 : 0;
    int64_t wait_ms = SOON_MS;
    if (l->failures % l->count == 0) {
        wait_ms = backoff_jitter(l->wait_ms);
        l->wait_ms = backoff_next(l->wait_ms, RETRY_MAX_MS);
    }
    link_wait(l, wait_ms);
    if (!refused || l->refusals % l->count == 0) {
        l->callbacks.trouble(l->callbacks.learner.ctx, &server, text);
    }
}

static void send_out(struct learner_link *l)
{
    struct buf *out = l->learner != NULL ? learner_out(l->learner) : learner_login_out(l->login);
    if (out->len > 0) {
        stream_send(l->stream, out);
    }
}

/* Why a server that accepted the connection has said nothing, and what to do. */
static const char *explain_silence(const struct learner_link *l)
{
    if (l->login != NULL) {
        return "the login by SASL got no answer: if the servers have no quorum.auth.enableSasl, "
               "remove mirror.sasl.file";
    }
    if (l->access->tls == NULL) {
        return "the server sent nothing: it does not lead, or its servers use TLS (then set "
               "mirror.ssl) or SASL (then set mirror.sasl.file) among themselves";
    }
    return l->learner == NULL
               ? "the handshake of TLS got no answer: if the servers have no sslQuorum, remove "
                 "mirror.ssl"
               : "the server sent nothing: it does not lead, its servers use SASL among "
                 "themselves (then set mirror.sasl.file), or it refuses the certificate of the "
                 "ssl.quorum keys: its log says so";
}

static void tls_fail(struct learner_link *l, const char *problem)
{
    static const char refused[] = "refused by the server";
    static const char plain[] = "the other side does not use TLS";
    const char *advice = "the ssl.quorum keys must name a CA of its certificate, which must name "
                         "the host as --from does";
    char why[TLS_TEXT_MAX];
    if (strncmp(problem, refused, sizeof refused - 1) == 0) {
        advice = "its ssl.quorum.trustStore must hold the CA of the certificate of the ssl.quorum "
                 "keys, which must name this host";
    } else if (strcmp(problem, plain) == 0) {
        advice = "remove mirror.ssl";
    }
    (void)snprintf(why, sizeof why, "TLS: %s: %s", problem, advice);
    link_fail(l, why);
}

/* A server with TLS answers plain bytes with an alert. */
static bool is_alert(struct slice bytes)
{
    enum { TLS_ALERT = 0x15, TLS_MAJOR = 3 };
    return bytes.len >= 2 && bytes.data[0] == TLS_ALERT && bytes.data[1] == TLS_MAJOR;
}

static size_t login_data(struct learner_link *l, struct slice bytes)
{
    size_t taken = learner_login_input(l->login, bytes);
    const char *problem = learner_login_problem(l->login);
    if (problem != NULL) {
        link_fail(l, problem);
        return bytes.len;
    }
    link_wait(l, LEARNER_SILENCE_MS);
    return taken;
}

static size_t link_data(void *owner, struct slice bytes)
{
    struct learner_link *l = owner;
    size_t taken = 0;
    if (l->stream == NULL) {
        return bytes.len; /* it is closing */
    }
    if (!l->heard && l->access->tls == NULL && is_alert(bytes)) {
        link_fail(l, "the server wants TLS: set mirror.ssl");
        return bytes.len;
    }
    l->heard = true;
    if (l->login != NULL) {
        return login_data(l, bytes);
    }
    int rc = learner_input(l->learner, bytes, &taken);
    if (l->learner == NULL || l->closing) {
        return bytes.len; /* a callback closed the link */
    }
    if (rc == CONCLAVE_EBUSY) {
        stream_pause(l->stream);
    } else if (rc != 0) {
        link_fail(l, learner_problem(l->learner));
        return bytes.len;
    }
    send_out(l);
    link_wait(l, LEARNER_SILENCE_MS);
    return taken;
}

static void on_sent(void *owner)
{
    struct learner_link *l = owner;
    if (l->learner != NULL || l->login != NULL) {
        send_out(l);
    }
}

static void on_ended(void *owner, int error)
{
    struct learner_link *l = owner;
    if (l->stream == NULL) {
        return;
    }
    const char *tls = stream_tls_problem(l->stream);
    if (tls != NULL && tls[0] != '\0') {
        tls_fail(l, tls);
    } else if (!l->heard) {
        link_fail(l, explain_silence(l));
    } else {
        link_fail(l, error != 0 ? uv_strerror(error) : "the server closed the connection");
    }
}

/* The protocol of learners begins. */
static void begin_learner(struct learner_link *l)
{
    l->learner = learner_create(&l->options, &l->callbacks.learner);
    if (l->learner == NULL) {
        link_fail(l, "out of memory");
        return;
    }
    l->heard = false;
    send_out(l);
    link_wait(l, LEARNER_SILENCE_MS);
}

static void on_login_step(void *ctx)
{
    struct learner_link *l = ctx;
    const char *problem = learner_login_problem(l->login);
    if (problem != NULL) {
        link_fail(l, problem);
    } else if (learner_login_done(l->login)) {
        drop_login(l);
        begin_learner(l);
    } else {
        send_out(l);
    }
}

static void on_secured(void *owner)
{
    struct learner_link *l = owner;
    if (l->access->login == NULL) {
        begin_learner(l);
        return;
    }
    l->login =
        learner_login_create(l->loop, l->access->login, l->servers[l->next].host, on_login_step, l);
    if (l->login == NULL) {
        link_fail(l, "out of memory");
        return;
    }
    l->parts++;
    link_wait(l, LEARNER_SILENCE_MS);
}

static const struct stream_handler HANDLER = {.data = link_data,
                                              .sent = on_sent,
                                              .secured = on_secured,
                                              .ended = on_ended,
                                              .closed = part_ended};

static void on_connected(void *ctx, struct stream *stream, int error)
{
    struct learner_link *l = ctx;
    const struct source_access *access = l->access;
    l->connector = NULL;
    if (stream == NULL) {
        link_fail(l, uv_strerror(error));
        return;
    }
    l->stream = stream;
    l->heard = false;
    l->parts++;
    stream_set_room(stream, ROOM);
    int rc = access->tls != NULL
                 ? stream_use_tls_client(stream, access->tls, l->servers[l->next].host,
                                         access->verify_hosts)
                 : 0;
    if (rc != 0 || stream_start(stream, &HANDLER, l) != 0) {
        link_fail(l, rc != 0 ? "out of memory" : "the connection ended");
        return;
    }
    if (l->stream == NULL) {
        return; /* it ended at once */
    }
    link_wait(l, LEARNER_SILENCE_MS);
    if (access->tls == NULL) {
        on_secured(l);
    }
}

static void link_begin(struct learner_link *l)
{
    int64_t zxid = l->callbacks.last_zxid(l->callbacks.learner.ctx);
    if (zxid < 0) {
        link_wait(l, SOON_MS);
        return;
    }
    l->options.last_zxid = l->whole ? 0 : zxid;
    if (connector_start(l->loop, &l->servers[l->next], 0, l->read_buffer, on_connected, l,
                        &l->connector) != 0) {
        link_fail(l, "out of memory");
        return;
    }
    link_wait(l, CONNECT_MS);
}

static void on_timer(uv_timer_t *timer)
{
    struct learner_link *l = timer->data;
    if (l->connector != NULL) {
        link_fail(l, "no connection in time");
    } else if (l->stream == NULL) {
        link_begin(l);
    } else if (stream_paused(l->stream)) {
        link_wait(l, LEARNER_SILENCE_MS); /* this side takes nothing at present */
    } else {
        link_fail(l, l->heard ? "the server says nothing any more" : explain_silence(l));
    }
}

struct learner_link *learner_link_open(uv_loop_t *loop, const struct learner_link_options *options,
                                       const struct learner_link_callbacks *callbacks)
{
    struct learner_link *l = calloc(1, sizeof *l);
    assert(options->count > 0 && options->count <= LEARNER_SERVERS_MAX);
    if (l == NULL || (l->read_buffer = stream_buffer_create()) == NULL) {
        free(l);
        return NULL;
    }
    l->loop = loop;
    l->count = options->count;
    memcpy(l->servers, options->servers, options->count * sizeof *l->servers);
    l->options = (struct learner_options){
        .server_id = options->server_id, .key = options->key, .data_max = options->data_max};
    l->callbacks = *callbacks;
    l->access = options->access;
    l->wait_ms = RETRY_MIN_MS;
    if (uv_timer_init(loop, &l->timer) != 0) {
        abort(); /* allocates nothing */
    }
    l->timer.data = l;
    l->parts = 1;
    link_wait(l, 0);
    return l;
}

static void on_timer_closed(uv_handle_t *handle)
{
    part_ended(handle->data);
}

void learner_link_close(struct learner_link *l, void (*cb)(void *ctx), void *ctx)
{
    if (l == NULL) {
        return;
    }
    assert(!l->closing);
    l->closing = true;
    l->closed = cb;
    l->closed_ctx = ctx;
    drop_connection(l);
    uv_close((uv_handle_t *)&l->timer, on_timer_closed);
}

void learner_link_resume(struct learner_link *l)
{
    if (l->stream != NULL && stream_paused(l->stream)) {
        stream_resume(l->stream);
    }
}

void learner_link_restart(struct learner_link *l)
{
    drop_connection(l);
    link_wait(l, SOON_MS);
}

int learner_link_barrier(struct learner_link *l)
{
    if (!learner_link_is_live(l)) {
        return CONCLAVE_EBUSY;
    }
    int rc = learner_barrier(l->learner);
    send_out(l);
    return rc;
}

bool learner_link_is_live(const struct learner_link *l)
{
    return l->learner != NULL && learner_is_live(l->learner);
}

const struct net_address *learner_link_server(const struct learner_link *l)
{
    return &l->servers[l->next];
}
