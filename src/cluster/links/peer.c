#include "cluster/links/peer.h"

#include "base/random.h"
#include "cluster/links/peer_internal.h"
#include "tls/scrypt.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SILENCE_MS = 800,
    STRANGERS_MAX = 64, /* connections in the handshake; beyond it the oldest is closed */
    SECURING_NICE = 5,  /* nice value of the thread for handshakes: consensus goes first */
    BACKLOG = 128,
};

/* Events */

static void peers_on_handle_closed(void *ctx);

static void peers_maybe_free(void *ctx)
{
    struct peers *p = ctx;
    if (!p->closing || p->handles > 0 || !list_empty(&p->conns.conns)) {
        return;
    }
    if (p->conns.worker != NULL) {
        p->conns.worker = NULL;
        p->handles = 1;
        worker_close(&p->worker, peers_on_handle_closed, p);
        return;
    }
    void (*closed)(void *ctx) = p->closed;
    void *closed_ctx = p->closed_ctx;
    LIST_FOREACH (it, &p->all) {
        peer_free(CONTAINER_OF(it, struct peer, node));
    }
    refusals_finish(&p->refusals, NULL, NULL);
    tls_context_release(p->conns.server);
    tls_context_release(p->conns.client);
    stream_buffer_release(p->conns.read_buffer);
    free(p);
    if (closed != NULL) {
        closed(closed_ctx);
    }
}

static void peers_on_frame(void *ctx, struct conn *c, const struct peer_frame *f)
{
    struct peers *p = ctx;
    struct peer *peer = c->peer;
    peer->stats.frames_received++;
    peer->stats.bytes_received += FRAME_HEADER + f->bytes.len;
    p->callbacks.message(p->callbacks.ctx, peer->id, f->channel, f->bytes);
    peers_settle(p);
}

static const struct conn_events conn_events = {
    .hello = peers_on_hello,
    .age = peers_on_age,
    .frame = peers_on_frame,
    .ended = peers_on_ended,
    .freed = peers_maybe_free,
};

static void peers_on_accepted(void *ctx, struct stream *stream)
{
    struct peers *p = ctx;
    size_t strangers;
    struct conn *oldest = conns_oldest_stranger(&p->conns, &strangers);
    if (strangers >= STRANGERS_MAX) {
        /* A server identifies itself within moments; the oldest connection is probably none. */
        conn_give_up(oldest, "too many connections that do not identify themselves");
    }
    if (p->closing) {
        stream_close(stream);
        return;
    }
    (void)conn_accept(&p->conns, stream); /* out of memory: it is closed */
    p->changed = true;                    /* the new connection has a time limit */
    peers_settle(p);
}

static void peers_on_not_accepted(void *ctx, int error)
{
    /* Out of descriptors or memory: the other side will try again. */
}

/* Begin and end */

static int peers_make_contexts(const struct peers *p, struct slice secret, struct slice other,
                               struct tls_context **ret_server, struct tls_context **ret_client,
                               char why[TLS_TEXT_MAX])
{
    struct tls_settings s = p->certificates;
    struct tls_context *server;
    if (p->security == PEER_SECURITY_NONE) {
        *ret_server = *ret_client = NULL;
        return 0;
    }
    s.secret = secret;
    s.other_secret = other;
    s.peer = TLS_PEER_NEED;
    s.server = true;
    int rc = tls_context_create(&s, &server, why);
    if (rc != 0) {
        return rc;
    }
    s.server = false;
    rc = tls_context_create(&s, ret_client, why);
    if (rc != 0) {
        tls_context_release(server);
        return rc;
    }
    *ret_server = server;
    return 0;
}

/* Makes the contexts from secrets. An eavesdropper can check guesses offline; the costly derivation slows each guess
 * down. */
static int peers_make_secret_contexts(const struct peers *p, struct slice secret,
                                      struct slice other, struct tls_context **ret_server,
                                      struct tls_context **ret_client, char why[TLS_TEXT_MAX])
{
    static const char purpose[] = "conclave: secret of the servers of an ensemble";
    uint8_t key[SCRYPT_KEY_SIZE];
    uint8_t other_key[SCRYPT_KEY_SIZE];
    bool two = !slice_is_null(other);
    if (secret.len < PEER_SECRET_MIN || (two && other.len < PEER_SECRET_MIN)) {
        snprintf(why, TLS_TEXT_MAX,
                 "the secret of the cluster is shorter than %d bytes: use a longer one",
                 PEER_SECRET_MIN);
        return CONCLAVE_EINVAL;
    }
    why[0] = '\0';
    int rc = scrypt_stretch(secret, purpose, key) == 0 &&
                     (!two || scrypt_stretch(other, purpose, other_key) == 0)
                 ? 0
                 : CONCLAVE_ENOMEM;
    if (rc == 0) {
        rc = peers_make_contexts(p, slice_make(key, sizeof key),
                                 two ? slice_make(other_key, sizeof other_key) : SLICE_NULL,
                                 ret_server, ret_client, why);
    }
    explicit_bzero(key, sizeof key);
    explicit_bzero(other_key, sizeof other_key);
    return rc;
}

static int peers_secure(struct peers *p, const struct peer_options *o, char **ret_text)
{
    char why[TLS_TEXT_MAX];
    int rc;
    if (o->security == PEER_SECURITY_CERTIFICATES) {
        p->certificates = *o->certificates;
    }
    if (o->security == PEER_SECURITY_SECRET) {
        rc = peers_make_secret_contexts(p, o->secret, o->other_secret, &p->conns.server,
                                        &p->conns.client, why);
    } else {
        rc =
            peers_make_contexts(p, SLICE_NULL, SLICE_NULL, &p->conns.server, &p->conns.client, why);
    }
    if (rc != 0) {
        return rc == CONCLAVE_ENOMEM ? rc
                                     : text_fail(ret_text, rc, "links between servers: %s", why);
    }
    p->conns.verify_hosts = o->security == PEER_SECURITY_CERTIFICATES && o->verify_hosts;
    return 0;
}

/* New connections use these contexts from now on; those that are up keep theirs. */
static void peers_take_contexts(struct peers *p, struct tls_context *server,
                                struct tls_context *client)
{
    tls_context_release(p->conns.server);
    tls_context_release(p->conns.client);
    p->conns.server = server;
    p->conns.client = client;
}

int peers_reload(struct peers *p, char why[TLS_TEXT_MAX])
{
    struct tls_context *server;
    struct tls_context *client;
    if (p->security != PEER_SECURITY_CERTIFICATES) {
        return 0;
    }
    int rc = peers_make_contexts(p, SLICE_NULL, SLICE_NULL, &server, &client, why);
    if (rc == 0) {
        peers_take_contexts(p, server, client);
    }
    return rc;
}

int peers_set_secrets(struct peers *p, struct slice secret, struct slice other,
                      char why[TLS_TEXT_MAX])
{
    struct tls_context *server;
    struct tls_context *client;
    assert(p->security == PEER_SECURITY_SECRET);
    int rc = peers_make_secret_contexts(p, secret, other, &server, &client, why);
    if (rc == 0) {
        peers_take_contexts(p, server, client);
    }
    return rc;
}

int64_t peers_certificate_until_s(const struct peers *p)
{
    return p->conns.server != NULL ? tls_context_until_s(p->conns.server) : 0;
}

static int peers_listen(struct peers *p, const struct peer_options *o, char **ret_text)
{
    const struct listener_callbacks callbacks = {
        .accepted = peers_on_accepted, .refused = peers_on_not_accepted, .ctx = p};
    for (size_t i = 0; i < o->n_listen; i++) {
        char text[NET_TEXT_MAX];
        int detail;
        struct listener **l = &p->listeners[p->n_listeners];
        int rc = listener_open(p->loop, &o->listen[i], l, &detail);
        if (rc == 0) {
            p->n_listeners++;
            p->handles++;
            rc = listener_start(*l, BACKLOG, &callbacks, &detail);
        }
        if (rc != 0) {
            net_address_format(&o->listen[i], text);
            return text_fail(
                ret_text, rc, "peer port %s: %s: %s", text, uv_strerror(detail),
                rc == CONCLAVE_EBUSY
                    ? "another program uses it: stop that program, or change the server.N line"
                    : "correct the server.N line of this server");
        }
    }
    return 0;
}

int peers_open(uv_loop_t *loop, const struct peer_options *o,
               const struct peer_callbacks *callbacks, struct peers **ret, char **ret_text)
{
    struct peers *p = calloc(1, sizeof *p);
    *ret_text = NULL;
    assert(o->identity.id != 0 && o->n_listen <= PEER_LISTENERS_MAX);
    if (p == NULL || (p->conns.read_buffer = stream_buffer_create()) == NULL ||
        uv_timer_init(loop, &p->timer) != 0) { /* uv_timer_init cannot fail */
        free(p);
        return CONCLAVE_ENOMEM;
    }
    p->loop = loop;
    p->callbacks = *callbacks;
    p->me = o->identity;
    p->security = o->security;
    p->silence_ms = o->silence_ms > 0 ? o->silence_ms : SILENCE_MS;
    p->ping_at_ms = peers_now(p) + p->silence_ms / PEER_PINGS;
    p->conns.loop = loop;
    p->conns.events = &conn_events;
    p->conns.ctx = p;
    p->timer.data = p;
    p->handles = 1;
    list_init(&p->conns.conns);
    list_init(&p->all);
    refusals_init(&p->refusals);
    random_bytes(&p->nonce, sizeof p->nonce);
    snprintf(p->host, sizeof p->host, "%s", o->host != NULL ? o->host : "");
    int rc = peers_secure(p, o, ret_text);
    if (rc == 0 && p->security != PEER_SECURITY_NONE) {
        const struct worker_options options = {.threads = 1, .nice = SECURING_NICE};
        rc = worker_init(&p->worker, loop, &options);
        p->conns.worker = rc == 0 ? &p->worker : NULL;
    }
    if (rc == 0) {
        rc = peers_listen(p, o, ret_text);
    }
    if (rc != 0) {
        peers_close(p, NULL, NULL);
        return rc;
    }
    peers_arm(p);
    *ret = p;
    return 0;
}

static void peers_on_handle_closed(void *ctx)
{
    struct peers *p = ctx;
    p->handles--;
    peers_maybe_free(p);
}

static void peers_on_timer_closed(uv_handle_t *handle)
{
    peers_on_handle_closed(handle->data);
}

void peers_close(struct peers *p, void (*cb)(void *ctx), void *ctx)
{
    if (p == NULL) {
        return;
    }
    assert(!p->closing);
    p->closing = true;
    p->closed = cb;
    p->closed_ctx = ctx;
    for (size_t i = 0; i < p->n_listeners; i++) {
        listener_close(p->listeners[i], peers_on_handle_closed, p);
    }
    uv_close((uv_handle_t *)&p->timer, peers_on_timer_closed);
    conns_abort(&p->conns);
}

/* Calls of the owner */

bool peers_address(const struct peers *p, size_t i, struct net_address *ret)
{
    if (i >= p->n_listeners) {
        return false;
    }
    listener_address(p->listeners[i], ret);
    return true;
}

/* Lets the loop do the rest. */
static void peers_wake(struct peers *p)
{
    p->changed = true;
    if (!p->settling) {
        peers_arm(p);
    }
}

void peers_set_identity(struct peers *p, const struct peer_identity *identity)
{
    assert(identity->id == p->me.id);
    if (p->closing || (identity->age == p->me.age &&
                       memcmp(identity->cluster, p->me.cluster, PEER_CLUSTER_SIZE) == 0)) {
        return;
    }
    p->me = *identity;
    LIST_FOREACH (it, &p->all) {
        struct peer *peer = CONTAINER_OF(it, struct peer, node);
        if (clusters_differ(&p->me, &peer->who)) {
            peer_cut(p, peer);
        }
        if (peer->out_ready) {
            age_append(&peer->out->queue, identity);
        } else {
            peer_drop_out(peer); /* its hello may contain the old identity */
            peer_hurry(p, peer);
        }
    }
    peers_wake(p);
}

static struct net_address *hosts_copy(const struct peer_member *m)
{
    struct net_address *copy = calloc(m->n_hosts, sizeof *copy);
    if (copy != NULL) {
        memcpy(copy, m->hosts, m->n_hosts * sizeof *copy);
    }
    return copy;
}

static int peers_plan_member(struct peers *p, const struct peer_member *m)
{
    struct peer *peer = peers_find(p, m->id);
    if (m->id == 0 || m->n_hosts == 0 || (peer != NULL && peer->next_hosts != NULL)) {
        return CONCLAVE_EINVAL;
    }
    if (peer == NULL && (peer = peers_add(p, m->id)) == NULL) {
        return CONCLAVE_ENOMEM;
    }
    peer->next_hosts = hosts_copy(m);
    if (peer->next_hosts == NULL) {
        return CONCLAVE_ENOMEM;
    }
    peer->next_n_hosts = m->n_hosts;
    return 0;
}

static void peer_take_plan(struct peers *p, struct peer *peer)
{
    if (peer->next_hosts != NULL) {
        free(peer->hosts);
        peer->hosts = peer->next_hosts;
        peer->n_hosts = peer->next_n_hosts;
        peer->next_hosts = NULL;
        if (!peer->out_ready) {
            peer_drop_out(peer); /* it may use an old address */
            peer_hurry(p, peer);
        }
        peer->member = true;
    } else if (peer->member) {
        peer->member = false;
        peer_cut(p, peer);
        peer_drop_out(peer);
    }
}

int peers_set_members(struct peers *p, const struct peer_member *members, size_t n)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (members[i].id != p->me.id) {
            rc = peers_plan_member(p, &members[i]);
        }
    }
    LIST_FOREACH (it, &p->all) {
        struct peer *peer = CONTAINER_OF(it, struct peer, node);
        if (rc == 0) {
            peer_take_plan(p, peer);
        } else {
            free(peer->next_hosts);
            peer->next_hosts = NULL;
        }
    }
    if (!p->closing) {
        peers_wake(p); /* also after an error: it removes peers that were just added */
    }
    return rc;
}

static int peer_queue(struct peer *peer, uint8_t channel, const struct buf *bytes)
{
    struct buf *queue = &peer->out->queue;
    if (bytes->len > PEER_FRAME_MAX) {
        return CONCLAVE_ETOOBIG;
    }
    if (conn_queued(peer->out) >= PEER_QUEUE_MAX) {
        return CONCLAVE_EBUSY;
    }
    if (!buf_ok(bytes) || buf_reserve(queue, FRAME_HEADER + bytes->len) != 0) {
        queue->failed = false; /* the queue still holds whole frames */
        return CONCLAVE_ENOMEM;
    }
    frame_append_header(queue, channel, bytes->len);
    buf_append(queue, bytes->data, bytes->len);
    peer->stats.frames_sent++;
    peer->stats.bytes_sent += FRAME_HEADER + bytes->len;
    return 0;
}

int peers_send(struct peers *p, uint64_t to, uint8_t channel, struct buf *take)
{
    struct peer *peer = peers_find(p, to);
    int rc = CONCLAVE_EDISCONNECTED;
    assert(channel != 0);
    if (peer != NULL && peer->linked && peer->out_ready) {
        rc = peer_queue(peer, channel, take);
    }
    if (peer != NULL && rc != 0) {
        peer->stats.dropped++;
    }
    buf_finish(take);
    return rc;
}

bool peers_turn(struct peers *p)
{
    if (p->closing) {
        return false;
    }
    assert(!p->settling);
    p->settling = true;
    LIST_FOREACH (it, &p->all) {
        struct peer *peer = CONTAINER_OF(it, struct peer, node);
        if (peer->out_ready && peer->out->queue.len > 0) {
            peer->quiet = false;
            conn_flush(peer->out);
        }
    }
    p->settling = false;
    bool told = p->changed;
    peers_settle(p);
    return told;
}

/* Statistics */

bool peers_linked(const struct peers *p, uint64_t id)
{
    const struct peer *peer = peers_find(p, id);
    return peer != NULL && peer->linked;
}

const char *peers_problem(const struct peers *p, uint64_t id)
{
    const struct peer *peer = peers_find(p, id);
    if (peer != NULL && peer->linked) {
        return NULL;
    }
    if (peer != NULL && peer->out_ready) {
        return "it accepts this server's connection, but does not connect back";
    }
    return peer != NULL && peer->problem[0] != '\0' ? peer->problem : "not connected yet";
}

bool peers_refuses(const struct peers *p, uint64_t id)
{
    const struct peer *peer = peers_find(p, id);
    return peer != NULL && !peer->linked && peer->refused;
}

size_t peers_stats(const struct peers *p, struct peer_stats *out, size_t cap)
{
    size_t n = 0;
    LIST_FOREACH (it, &p->all) {
        const struct peer *peer = CONTAINER_OF(it, struct peer, node);
        if (!peer->member) {
            continue;
        }
        if (n < cap) {
            out[n] = peer->stats;
            out[n].id = peer->id;
            out[n].linked = peer->linked;
            out[n].connected = peer->out_ready;
            out[n].accepted = peer->in != NULL;
            out[n].queued = peer->out_ready ? conn_queued(peer->out) : 0;
            out[n].changed_ms = peers_now(p) - peer->changed_ms;
            out[n].problem = peer->problem[0] != '\0' ? peer->problem : NULL;
        }
        n++;
    }
    return n;
}

uint64_t peers_refused(const struct peers *p)
{
    return p->refused;
}
