/* Accepts connections from other servers, and decides by the hello which of them may have a link. */
#include "cluster/links/peer_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { NEWCOMERS_MAX = 64 /* servers that connected, but are not members */ };

static bool cluster_is_known(const struct peer_identity *who)
{
    static const uint8_t zero[PEER_CLUSTER_SIZE];
    return memcmp(who->cluster, zero, sizeof zero) != 0;
}

/* Two servers that both have a cluster must have the same one. */
bool clusters_differ(const struct peer_identity *a, const struct peer_identity *b)
{
    return cluster_is_known(a) && cluster_is_known(b) &&
           memcmp(a->cluster, b->cluster, PEER_CLUSTER_SIZE) != 0;
}

/* Tells the owner about a hello. The callback may change everything, also free the peer. */
static void peers_tell_hello(struct peers *p, struct peer *peer, const struct peer_identity *who)
{
    struct peer_identity copy = *who;
    if (peer != NULL) {
        peer->who = copy;
    }
    p->callbacks.hello(p->callbacks.ctx, &copy);
}

/* Ends a connection of ours because its answer is not acceptable. */
static void peer_reject(struct peers *p, struct peer *peer, const char *why)
{
    struct conn *out = peer->out;
    peer_note(peer, why);
    peer->refused = true;
    peer_plan_retry(p, peer, true);
    peers_tell_refused(p, out, why);
    if (peer->out == out) {
        peer_drop_out(peer);
    }
}

static void peers_on_answer(struct peers *p, struct conn *c, const struct hello *h)
{
    struct peer *peer = c->peer;
    char why[PEER_PROBLEM_MAX];
    if (h->version != HELLO_VERSION) {
        snprintf(why, sizeof why, "it uses version %u of the link protocol, this server uses %u",
                 h->version, (unsigned)HELLO_VERSION);
        peer_reject(p, peer, why);
        return;
    }
    if (h->from.id != peer->id || h->to != p->me.id) {
        snprintf(why, sizeof why, "server %llu answers there, not %llu: server.N lines differ",
                 (unsigned long long)h->from.id, (unsigned long long)peer->id);
        peer_reject(p, peer, why);
        return;
    }
    peers_tell_hello(p, peer, &h->from);
    if (p->closing || peer->out != c) {
        return;
    }
    if (clusters_differ(&p->me, &h->from)) {
        peer_reject(p, peer, hello_reason_text(HELLO_BAD_CLUSTER));
        return;
    }
    assert(c->stage == CONN_READY && !peer->out_ready);
    peer->out_ready = true;
    peer->quiet = true;
    peer->problem[0] = '\0';
    peer->refused = false;
    peer->retry_ms = PEER_RETRY_MIN_MS;
    p->changed = true;
}

/* Whether the certificate of the other side is for the server that its hello names. */
static bool peers_host_fits(const struct peers *p, const struct peer *peer, const struct conn *c,
                            const struct hello *h)
{
    if (!p->conns.verify_hosts) {
        return true;
    }
    if (peer == NULL || !peer->member) {
        return conn_is_for(c, h->host);
    }
    for (size_t i = 0; i < peer->n_hosts; i++) {
        if (conn_is_for(c, peer->hosts[i].host)) {
            return true;
        }
    }
    return false;
}

static size_t peers_count_newcomers(const struct peers *p)
{
    size_t n = 0;
    LIST_FOREACH (it, &p->all) {
        n += !CONTAINER_OF(it, struct peer, node)->member;
    }
    return n;
}

/* The reason to refuse a hello, found before the owner learns of it. */
static enum hello_reason peers_judge(const struct peers *p, const struct conn *c,
                                     const struct hello *h)
{
    const struct peer *peer = peers_find(p, h->from.id);
    if (h->version != HELLO_VERSION) {
        return HELLO_BAD_VERSION;
    }
    if (h->to != p->me.id) {
        return HELLO_BAD_TO;
    }
    if (h->from.id == p->me.id) {
        return HELLO_BAD_SELF;
    }
    if (!peers_host_fits(p, peer, c, h)) {
        return HELLO_BAD_HOST;
    }
    /* Another nonce is another run of that server. It is accepted only after the previous run has been silent. */
    if (peer != NULL && peer->in != NULL && peer->nonce != h->nonce &&
        peers_now(p) - peer->in->heard_ms < p->silence_ms) {
        return HELLO_BAD_TWICE;
    }
    if (peer == NULL && peers_count_newcomers(p) >= NEWCOMERS_MAX) {
        return HELLO_BAD_CROWD;
    }
    return HELLO_BAD_NONE;
}

static void peers_refuse(struct peers *p, struct conn *c, enum hello_reason reason)
{
    peers_tell_refused(p, c, hello_reason_text(reason));
    conn_refuse(c, reason);
}

static void peers_on_caller(struct peers *p, struct conn *c, const struct hello *h)
{
    enum hello_reason reason = peers_judge(p, c, h);
    if (reason == HELLO_BAD_NONE) {
        peers_tell_hello(p, peers_find(p, h->from.id), &h->from);
        if (p->closing) {
            return;
        }
        reason = clusters_differ(&p->me, &h->from) ? HELLO_BAD_CLUSTER : HELLO_BAD_NONE;
    }
    if (reason != HELLO_BAD_NONE) {
        peers_refuse(p, c, reason);
        return;
    }
    struct peer *peer = peers_find(p, h->from.id);
    if (peer == NULL && (peer = peers_add(p, h->from.id)) == NULL) {
        conn_close(c);
        return;
    }
    if (peer->in != NULL) {
        peer_cut(p, peer); /* it connects again only because its side of the link ended */
    }
    struct hello answer = {
        .version = HELLO_VERSION, .from = p->me, .to = h->from.id, .nonce = p->nonce};
    memcpy(answer.host, p->host, sizeof answer.host);
    assert(peer->in == NULL && c->peer == NULL);
    c->peer = peer;
    peer->in = c;
    peer->nonce = h->nonce;
    peer->who = h->from;
    if (!peer->out_ready) {
        peer_hurry(p, peer);
    }
    p->changed = true;
    conn_welcome(c, &answer);
}

void peers_on_hello(void *ctx, struct conn *c, const struct hello *h)
{
    struct peers *p = ctx;
    if (c->out) {
        peers_on_answer(p, c, h);
    } else {
        peers_on_caller(p, c, h);
    }
    peers_settle(p);
}

void peers_on_age(void *ctx, struct conn *c, const struct peer_identity *now)
{
    struct peers *p = ctx;
    struct peer *peer = c->peer;
    struct peer_identity who = *now;
    who.id = peer->id;
    peers_tell_hello(p, peer, &who);
    if (!p->closing && peer->in == c && clusters_differ(&p->me, &who)) {
        peers_tell_refused(p, c, hello_reason_text(HELLO_BAD_CLUSTER));
        peer_cut(p, peer);
    }
    peers_settle(p);
}
