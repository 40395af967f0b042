#include "sim/check_order.h"

#include "sim/sim.h"

#include <inttypes.h>

static void see_version(struct sim *s, struct client *c, unsigned key, int32_t version)
{
    if (version < c->versions[key]) {
        world_violation(&s->world, "client %u sees version %d of key %u after %d", c->id, version,
                        key, c->versions[key]);
    }
    c->versions[key] = version;
}

void check_order_answered(struct sim *s, struct client *c, struct deed *d,
                          const struct conclave_reply *reply)
{
    if (deed_is_open(d) || d->zxid <= 0) {
        return;
    }
    if (d->zxid < c->seen_zxid) {
        world_violation(&s->world,
                        "client %u is answered with zxid %" PRId64 " after %" PRId64
                        " in one session (deed %" PRIu64 ")",
                        c->id, d->zxid, c->seen_zxid, d->id);
    }
    c->seen_zxid = d->zxid;
    if (d->error != 0) {
        return;
    }
    if (d->kind == DEED_GET || d->kind == DEED_SET || d->kind == DEED_SET_IF) {
        see_version(s, c, d->key, reply->stat.version);
    } else if (d->kind == DEED_MULTI) {
        see_version(s, c, d->key, reply->results[0]->stat.version);
    }
    bool read = d->kind == DEED_GET || d->kind == DEED_CHILDREN;
    bool synced = d->behind == NULL || d->behind->error == 0;
    if (client_may_only_read(c)) {
        return; /* old data are what it asked for */
    }
    if (read && d->fresh && (synced || s->linearizable) && d->zxid < d->floor_zxid) {
        world_violation(&s->world,
                        "client %u reads at zxid %" PRId64 " (deed %" PRIu64 "%s), but %" PRId64
                        " was acknowledged before it asked",
                        c->id, d->zxid, d->id, d->behind != NULL ? ", synced" : "", d->floor_zxid);
    }
}
