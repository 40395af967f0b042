#include "sim/check_watches.h"

#include "sim/peek.h"
#include "sim/sim.h"

void check_watches_answered(struct sim *s, struct client *c, struct deed *d)
{
    struct watching *w = &c->watching[d->key];
    if (d->error == 0 && w->set && c->versions[d->key] > w->version) {
        world_violation(&s->world,
                        "client %u sees version %d of key %u before its watch, set on version %d, "
                        "is told",
                        c->id, c->versions[d->key], d->key, w->version);
    }
    if (d->watched) {
        w->asked = false;
        if (d->error == 0) {
            w->set = true;
            w->version = c->versions[d->key];
        }
    }
}

void check_watches_event(struct sim *s, struct client *c, unsigned key,
                         enum conclave_event_type type)
{
    struct watching *w = &c->watching[key];
    if (!w->set) {
        world_violation(&s->world, "client %u is told %s of key %u without a watch", c->id,
                        conclave_event_name(type), key);
    }
    w->set = false;
}

void check_watches_end(struct sim *s)
{
    for (size_t i = 0; i < s->n_clients; i++) {
        const struct client *c = s->clients[i];
        for (unsigned key = 0; key < KEYS && client_is_up(c); key++) {
            int32_t version = peek_version(&s->machines[1], key);
            if (c->watching[key].set && c->watching[key].version != version) {
                world_violation(&s->world,
                                "client %u was never told of key %u: watched version %d, there is "
                                "%d",
                                c->id, key, c->watching[key].version, version);
            }
        }
    }
}
