/* Connects to the other members, with a pause after each failure, and reports links that come up or go down. */
#include "cluster/links/peer_internal.h"

#include "base/backoff.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HANDSHAKE_MS = 2000 };

static void peers_on_timer(uv_timer_t *timer);

int64_t peers_now(const struct peers *p)
{
    return (int64_t)uv_now(p->loop);
}

struct peer *peers_find(const struct peers *p, uint64_t id)
{
    LIST_FOREACH (it, &p->all) {
        struct peer *peer = CONTAINER_OF(it, struct peer, node);
        if (peer->id == id) {
            return peer;
        }
    }
    return NULL;
}

struct peer *peers_add(struct peers *p, uint64_t id)
{
    struct peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL) {
        return NULL;
    }
    peer->id = id;
    peer->retry_ms = PEER_RETRY_MIN_MS;
    peer->changed_ms = peers_now(p);
    struct list *at = p->all.next;
    while (at != &p->all && CONTAINER_OF(at, struct peer, node)->id < id) {
        at = at->next;
    }
    assert(at == &p->all || CONTAINER_OF(at, struct peer, node)->id > id); /* each once */
    list_push_back(at, &peer->node);
    return peer;
}

void peer_free(struct peer *peer)
{
    list_remove(&peer->node);
    free(peer->hosts);
    free(peer);
}

/* Refusals */

static void peers_on_untold(void *ctx, const char *address, unsigned long long untold)
{
    struct peers *p = ctx;
    if (!p->closing) {
        p->callbacks.refused(p->callbacks.ctx, address, NULL, untold);
    }
}

void peers_tell_refused(struct peers *p, const struct conn *c, const char *why)
{
    const struct net_address *a = &c->address;
    char text[NET_TEXT_MAX];
    if (p->closing) {
        return;
    }
    p->refused += !c->out;
    if (c->out) {
        net_address_format(a, text);
    } else {
        snprintf(text, sizeof text, "%s", a->host); /* without the port, which changes each time */
    }
    if (refusals_add(&p->refusals, text, why, peers_now(p), peers_on_untold, p)) {
        p->callbacks.refused(p->callbacks.ctx, text, why, 1);
    }
}

/* Ends */

void peer_note(struct peer *peer, const char *why)
{
    snprintf(peer->problem, sizeof peer->problem, "%s", why);
}

void peer_drop_out(struct peer *peer)
{
    struct conn *out = peer->out;
    peer->out = NULL;
    peer->out_ready = false;
    if (out != NULL) {
        conn_close(out);
    }
}

/* Ends both directions, because one alone would look alive to one side only. An attempt to connect continues. */
void peer_cut(struct peers *p, struct peer *peer)
{
    struct conn *in = peer->in;
    peer->in = NULL;
    if (in != NULL) {
        conn_close(in);
    }
    if (peer->out_ready) {
        peer_drop_out(peer);
        peer->retry_at_ms = peers_now(p);
    }
    p->changed = true;
}

/* When to try again: with growing pauses, and with jitter so that servers do not try at the same time. */
void peer_plan_retry(struct peers *p, struct peer *peer, bool foul)
{
    int64_t wait = foul ? PEER_RETRY_MAX_MS : peer->retry_ms;
    peer->retry_at_ms = peers_now(p) + backoff_jitter(wait);
    peer->retry_ms = backoff_next(peer->retry_ms, PEER_RETRY_MAX_MS);
    p->changed = true;
}

/* There is a sign that the peer is up: tries now. */
void peer_hurry(struct peers *p, struct peer *peer)
{
    if (peer->out != NULL && peer->out->stage == CONN_CONNECTING) {
        peer_drop_out(peer); /* the kernel may wait long before its next SYN */
    }
    peer->retry_ms = PEER_RETRY_MIN_MS;
    peer->retry_at_ms = peers_now(p);
    p->changed = true;
}

/* Reports to the owner */

static void peer_tell(struct peers *p, struct peer *peer)
{
    bool up = peer->out_ready && peer->in != NULL;
    assert(!peer->out_ready || peer->out->stage == CONN_READY);
    if (up == peer->linked) {
        return;
    }
    peer->linked = up;
    peer->changed_ms = peers_now(p);
    peer->stats.links += up;
    p->callbacks.link(p->callbacks.ctx, peer->id, up);
    if (up && peer->in != NULL) {
        conn_let_through(peer->in);
    }
}

static void peers_sweep(struct peers *p)
{
    LIST_FOREACH (it, &p->all) {
        struct peer *peer = CONTAINER_OF(it, struct peer, node);
        if (!peer->member && peer->in == NULL && peer->out == NULL && !peer->linked) {
            peer_free(peer);
        }
    }
}

static void peer_connect(struct peers *p, struct peer *peer)
{
    assert(peer->out == NULL && !peer->out_ready && peer->n_hosts > 0);
    const struct net_address *to = &peer->hosts[peer->attempt % peer->n_hosts];
    unsigned first = peer->attempt / (unsigned)peer->n_hosts;
    struct hello h = {.version = HELLO_VERSION, .from = p->me, .to = peer->id, .nonce = p->nonce};
    memcpy(h.host, p->host, sizeof h.host);
    peer->attempt++;
    peer->out = conn_connect(&p->conns, to, first, &h);
    if (peer->out == NULL) {
        peer_plan_retry(p, peer, false);
    } else {
        peer->out->peer = peer;
    }
}

static void peers_connect_due(struct peers *p)
{
    /* The analyzer does not see list_remove. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    LIST_FOREACH (it, &p->all) {
        struct peer *peer = CONTAINER_OF(it, struct peer, node);
        if (peer->member && peer->out == NULL && peer->retry_at_ms <= peers_now(p)) {
            peer_connect(p, peer);
        }
    }
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void peers_arm(struct peers *p)
{
    const struct conn *oldest = conns_oldest(&p->conns);
    int64_t at = earlier(p->ping_at_ms, refusals_deadline(&p->refusals));
    if (oldest != NULL) {
        at = earlier(at, oldest->begun_ms + HANDSHAKE_MS);
    }
    LIST_FOREACH (it, &p->all) {
        const struct peer *peer = CONTAINER_OF(it, struct peer, node);
        if (peer->member && peer->out == NULL) {
            at = earlier(at, peer->retry_at_ms);
        }
    }
    if (p->changed) {
        at = peers_now(p);
    }
    int64_t wait = at > peers_now(p) ? at - peers_now(p) : 0;
    p->timer_at_ms = peers_now(p) + wait;
    if (uv_timer_start(&p->timer, peers_on_timer, (uint64_t)wait, 0) != 0) {
        abort(); /* fails only for a closing timer */
    }
}

/* Reports changes to the owner and does what follows from them. Called at the end of each event. */
void peers_settle(struct peers *p)
{
    if (p->settling || !p->changed || p->closing) {
        return;
    }
    p->settling = true;
    while (p->changed && !p->closing) {
        p->changed = false;
        /* A callback may change links again, so the loop runs until nothing changes. */
        LIST_FOREACH (it, &p->all) {
            if (!p->closing) {
                peer_tell(p, CONTAINER_OF(it, struct peer, node));
            }
        }
    }
    p->settling = false;
    if (!p->closing) {
        peers_sweep(p);
        peers_connect_due(p);
        peers_arm(p);
    }
}

/* Connections that end */

void peers_on_ended(void *ctx, struct conn *c, const char *why, bool foul)
{
    struct peers *p = ctx;
    struct peer *peer = c->peer;
    if (peer != NULL && c == peer->in) {
        peer->in = NULL;
        peer_cut(p, peer);
    } else if (peer != NULL && c == peer->out) {
        bool established = peer->out_ready;
        peer->out = NULL;
        peer->out_ready = false;
        peer_note(peer, why);
        peer->refused = foul;
        peer_plan_retry(p, peer, foul);
        if (established) {
            peer_cut(p, peer);
        }
    }
    if (foul) {
        peers_tell_refused(p, c, why);
    }
    peers_settle(p);
}

/* Time */

static void peer_ping(struct peer *peer)
{
    if (peer->out_ready && peer->quiet && conn_queued(peer->out) == 0) {
        ping_append(&peer->out->queue);
        conn_flush(peer->out);
    }
    peer->quiet = true;
}

static void peers_tick(struct peers *p, bool late)
{
    LIST_FOREACH (it, &p->all) {
        struct peer *peer = CONTAINER_OF(it, struct peer, node);
        if (peer->in != NULL && late) {
            peer->in->heard_ms =
                peers_now(p); /* this server did not run, so the peer may have sent */
        }
        if (peer->in != NULL && peers_now(p) - peer->in->heard_ms > p->silence_ms) {
            peer_note(peer, "it was silent for too long");
            peer_cut(p, peer);
        }
        peer_ping(peer);
    }
}

static void peers_expire(struct peers *p)
{
    struct conn *c;
    while (!p->closing && (c = conns_oldest(&p->conns)) != NULL &&
           c->begun_ms + HANDSHAKE_MS <= peers_now(p)) {
        conn_give_up(c, "it did not identify itself in time");
    }
}

static void peers_on_timer(uv_timer_t *timer)
{
    struct peers *p = timer->data;
    bool late = peers_now(p) - p->timer_at_ms > p->silence_ms / 2;
    p->changed = true; /* so that peers_settle always sets the timer again */
    if (late || p->ping_at_ms <= peers_now(p)) {
        p->ping_at_ms = peers_now(p) + p->silence_ms / PEER_PINGS;
        p->settling = true;
        peers_tick(p, late);
        p->settling = false;
    }
    peers_expire(p);
    refusals_tick(&p->refusals, peers_now(p), peers_on_untold, p);
    peers_settle(p);
}
