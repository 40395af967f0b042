#include "sim/links.h"

#include "base/map.h"

#include "sim/sim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { POLL_US = 20 * MS, TRY_OF_1000 = 400 };

struct peers {
    struct sim *sim;
    struct machine *machine;
    struct peer_identity me;
    struct peer_callbacks callbacks;
    bool listed[MACHINES_MAX + 1];         /* the peer to connect to */
    bool told[MACHINES_MAX + 1];           /* up, as this side knows */
    uint64_t generation[MACHINES_MAX + 1]; /* of the link that was reported */
};

enum news_kind { NEWS_HELLO, NEWS_UP, NEWS_DOWN, NEWS_FRAME };

/* Something that reaches a server. */
struct news {
    struct event event;
    struct sim *sim;
    enum news_kind kind;
    unsigned from;
    unsigned to;
    unsigned incarnation; /* of `to` */
    uint64_t generation;
    struct peer_identity who;
    uint8_t channel;
    struct buf bytes;
};

static struct pair *pair_of(struct sim *s, unsigned a, unsigned b)
{
    return a < b ? &s->links.pairs[a][b] : &s->links.pairs[b][a];
}

static void deliver(struct news *n, struct peers *p)
{
    struct pair *pair = pair_of(n->sim, n->from, n->to);
    switch (n->kind) {
    case NEWS_HELLO:
        p->callbacks.hello(p->callbacks.ctx, &n->who);
        break;
    case NEWS_UP:
        if (pair->up && pair->generation == n->generation) {
            assert(!p->told[n->from]); /* its end was reported before */
            p->told[n->from] = true;
            p->generation[n->from] = n->generation;
            p->callbacks.link(p->callbacks.ctx, n->from, true);
        }
        break;
    case NEWS_DOWN:
        if (p->told[n->from] && p->generation[n->from] <= n->generation) {
            p->told[n->from] = false;
            p->callbacks.link(p->callbacks.ctx, n->from, false);
        }
        break;
    case NEWS_FRAME:
        if (p->told[n->from] && p->generation[n->from] == n->generation &&
            pair->generation == n->generation && !n->sim->links.cut[n->from][n->to]) {
            world_mix(&n->sim->world, hash_bytes(n->bytes.data, n->bytes.len));
            p->callbacks.message(p->callbacks.ctx, n->from, n->channel, buf_slice(&n->bytes));
        }
        break;
    }
}

static void happen(struct event *e, bool dropped)
{
    struct news *n = (struct news *)(void *)e;
    struct machine *m = &n->sim->machines[n->to];
    if (!dropped && m->on && m->incarnation == n->incarnation && m->peers != NULL) {
        if (machine_is_paused(m)) {
            world_after(&n->sim->world, m->paused_until_us - n->sim->world.now_us, e);
            return;
        }
        machine_enter(m);
        deliver(n, m->peers);
        machine_leave(m);
    }
    buf_finish(&n->bytes);
    free(n);
}

static struct news *news(struct sim *s, enum news_kind kind, unsigned from, unsigned to)
{
    struct news *n = must_calloc(sizeof *n);
    n->event.fn = happen;
    n->sim = s;
    n->kind = kind;
    n->from = from;
    n->to = to;
    n->incarnation = s->machines[to].incarnation;
    n->generation = pair_of(s, from, to)->generation;
    buf_init(&n->bytes, 0);
    return n;
}

/* Behind all that is on its way already. */
static void post(struct news *n)
{
    struct world *w = &n->sim->world;
    int64_t *last_us = &n->sim->links.last_us[n->from][n->to];
    int64_t at_us = w->now_us + world_between(w, 50, n->sim->links.delay_us);
    at_us = at_us > *last_us ? at_us : *last_us;
    *last_us = at_us;
    world_after(w, at_us - w->now_us, &n->event);
}

static void post_hello(struct sim *s, unsigned from, unsigned to)
{
    struct news *n = news(s, NEWS_HELLO, from, to);
    n->who = s->machines[from].peers->me;
    post(n);
}

static void break_link(struct sim *s, unsigned a, unsigned b)
{
    struct pair *pair = pair_of(s, a, b);
    if (!pair->up) {
        return;
    }
    pair->up = false;
    if (s->machines[a].on) {
        post(news(s, NEWS_DOWN, b, a));
    }
    if (s->machines[b].on) {
        post(news(s, NEWS_DOWN, a, b));
    }
    pair->generation++;
    world_trace(&s->world, "link %u-%u breaks", a, b);
}

static bool cluster_is_known(const struct peer_identity *who)
{
    static const uint8_t zero[PEER_CLUSTER_SIZE];
    return memcmp(who->cluster, zero, sizeof zero) != 0;
}

static bool clusters_differ(const struct peer_identity *a, const struct peer_identity *b)
{
    return cluster_is_known(a) && cluster_is_known(b) &&
           memcmp(a->cluster, b->cluster, PEER_CLUSTER_SIZE) != 0;
}

static void try_link(struct sim *s, unsigned a, unsigned b)
{
    struct peers *p = s->machines[a].peers;
    struct peers *q = s->machines[b].peers;
    struct pair *pair = pair_of(s, a, b);
    if (!p->listed[b] && !q->listed[a]) {
        return;
    }
    post_hello(s, a, b);
    post_hello(s, b, a);
    if (p->listed[b] && q->listed[a] && !clusters_differ(&p->me, &q->me)) {
        pair->up = true;
        post(news(s, NEWS_UP, a, b));
        post(news(s, NEWS_UP, b, a));
        world_trace(&s->world, "link %u-%u is made", a, b);
    }
}

static bool is_awake(const struct machine *m)
{
    return m->on && m->peers != NULL && !machine_is_paused(m);
}

static void look_at(struct sim *s, unsigned a, unsigned b)
{
    struct pair *pair = pair_of(s, a, b);
    bool fine = is_awake(&s->machines[a]) && is_awake(&s->machines[b]) && !s->links.cut[a][b] &&
                !s->links.cut[b][a];
    if (fine) {
        pair->fine_us = s->world.now_us;
    }
    if (pair->up && s->world.now_us - pair->fine_us > s->links.silence_us) {
        break_link(s, a, b);
    } else if (!pair->up && fine && world_chance(&s->world, TRY_OF_1000)) {
        try_link(s, a, b);
    }
}

struct poll {
    struct event event;
    struct sim *sim;
};

static void poll_links(struct event *e, bool dropped)
{
    struct poll *p = (struct poll *)(void *)e;
    struct sim *s = p->sim;
    if (dropped) {
        free(p);
        return;
    }
    for (unsigned a = 1; a <= s->n_machines; a++) {
        for (unsigned b = a + 1; b <= s->n_machines; b++) {
            look_at(s, a, b);
        }
    }
    world_after(&s->world, POLL_US, e);
}

void links_begin(struct sim *s)
{
    struct poll *p = must_calloc(sizeof *p);
    p->event.fn = poll_links;
    p->sim = s;
    world_after(&s->world, POLL_US, &p->event);
}

void links_ended(struct sim *s, unsigned id, bool seen)
{
    for (unsigned other = 1; other <= s->n_machines; other++) {
        if (other != id && seen) {
            break_link(s, id, other);
        }
    }
}

/* cluster/links/peer.h */

int peers_open(uv_loop_t *loop, const struct peer_options *options,
               const struct peer_callbacks *callbacks, struct peers **ret, char **ret_text)
{
    struct machine *m = machine_of_loop(loop);
    struct peers *p = must_calloc(sizeof *p);
    p->sim = m->sim;
    p->machine = m;
    p->me = options->identity;
    p->callbacks = *callbacks;
    for (unsigned other = 1; other <= m->sim->n_machines; other++) {
        if (other != m->id) {
            break_link(m->sim, m->id, other); /* of the process before it */
        }
    }
    m->peers = p;
    *ret = p;
    return 0;
}

void peers_set_identity(struct peers *p, const struct peer_identity *identity)
{
    unsigned id = p->machine->id;
    p->me = *identity;
    for (unsigned other = 1; other <= p->sim->n_machines; other++) {
        const struct machine *m = &p->sim->machines[other];
        if (other == id || !pair_of(p->sim, id, other)->up || m->peers == NULL) {
            continue;
        }
        if (clusters_differ(&p->me, &m->peers->me)) {
            break_link(p->sim, id, other);
        } else {
            post_hello(p->sim, id, other);
        }
    }
}

int peers_set_members(struct peers *p, const struct peer_member *members, size_t n)
{
    memset(p->listed, 0, sizeof p->listed);
    for (size_t i = 0; i < n; i++) {
        if (members[i].id != p->me.id && members[i].id <= MACHINES_MAX) {
            p->listed[members[i].id] = true;
        }
    }
    for (unsigned other = 1; other <= p->sim->n_machines; other++) {
        if (other != p->machine->id && !p->listed[other]) {
            break_link(p->sim, p->machine->id, other);
        }
    }
    return 0;
}

static void send_frame(struct peers *p, unsigned to, uint8_t channel, struct slice bytes)
{
    struct news *n = news(p->sim, NEWS_FRAME, p->machine->id, to);
    n->channel = channel;
    n->generation = p->generation[to];
    buf_append_slice(&n->bytes, bytes);
    post(n);
}

int peers_send(struct peers *p, uint64_t to, uint8_t channel, struct buf *take)
{
    struct sim *s = p->sim;
    int rc = CONCLAVE_EDISCONNECTED;
    if (to >= 1 && to <= MACHINES_MAX && p->told[to] && p->machine->on) {
        rc = 0;
        s->links.frames++;
        if (!s->links.cut[p->machine->id][to] && !world_chance(&s->world, s->links.loss)) {
            send_frame(p, (unsigned)to, channel, buf_slice(take));
            if (world_chance(&s->world, s->links.twice)) {
                send_frame(p, (unsigned)to, channel, buf_slice(take));
            }
        }
    }
    buf_finish(take);
    return rc;
}

bool peers_turn(struct peers *p)
{
    (void)p; /* frames left when they were sent */
    return false;
}

bool peers_linked(const struct peers *p, uint64_t id)
{
    return id <= MACHINES_MAX && p->told[id];
}

const char *peers_problem(const struct peers *p, uint64_t id)
{
    return peers_linked(p, id) ? NULL : "cut by the simulation";
}

bool peers_refuses(const struct peers *p, uint64_t id)
{
    return false;
}

size_t peers_stats(const struct peers *p, struct peer_stats *out, size_t cap)
{
    size_t n = 0;
    for (unsigned other = 1; other <= p->sim->n_machines; other++) {
        if (other != p->machine->id && n++ < cap) {
            out[n - 1] = (struct peer_stats){.id = other, .linked = p->told[other]};
        }
    }
    return n;
}

int64_t peers_certificate_until_s(const struct peers *p)
{
    return 0;
}

uint64_t peers_refused(const struct peers *p)
{
    return 0; /* there are no strangers */
}

int peers_set_secrets(struct peers *p, struct slice secret, struct slice other,
                      char why[TLS_TEXT_MAX])
{
    return 0;
}

int peers_reload(struct peers *p, char why[TLS_TEXT_MAX])
{
    return 0;
}

void peers_close(struct peers *p, void (*cb)(void *ctx), void *ctx)
{
    if (p == NULL) {
        return;
    }
    for (unsigned other = 1; other <= p->sim->n_machines && p->machine->on; other++) {
        if (other != p->machine->id) {
            break_link(p->sim, p->machine->id, other);
        }
    }
    p->machine->peers = NULL;
    free(p);
    cb(ctx);
}
