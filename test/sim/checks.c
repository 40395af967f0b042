#include "sim/checks.h"

#include "sim/check_lasting.h"
#include "sim/check_modes.h"
#include "sim/check_order.h"
#include "sim/check_replicas.h"
#include "sim/check_sessions.h"
#include "sim/check_watches.h"
#include "sim/check_writes.h"
#include "sim/sim.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const kinds[] = {
    "sets",    "sets if", "creates",           "creates in sequence",
    "multi",   "deletes", "creates ephemeral", "gets",
    "syncs",   "lists",   "watches all",       "reconfigures",
    "sets up", "probes"};

void checks_init(struct checks *c)
{
    *c = (struct checks){0};
}

void checks_finish(struct checks *c)
{
    for (size_t i = 0; i < c->n_deeds; i++) {
        free(c->deeds[i]);
    }
    for (int k = 0; k < KEYS; k++) {
        free(c->versions[k].deeds);
    }
    free(c->deeds);
    free(c->sessions);
    free(c->replicas);
    free(c->leaders);
}

struct deed *checks_deed(struct checks *c, struct client *client, enum deed_kind kind)
{
    struct deed *d = must_calloc(sizeof *d);
    if ((c->n_deeds & (c->n_deeds - 1)) == 0) {
        size_t cap = c->n_deeds == 0 ? 1 : 2 * c->n_deeds;
        c->deeds = realloc(c->deeds, cap * sizeof *c->deeds);
        if (c->deeds == NULL) {
            abort();
        }
    }
    c->deeds[c->n_deeds++] = d;
    d->id = c->n_deeds;
    d->kind = kind;
    d->client = client;
    d->asked_us = client->sim->world.now_us;
    d->floor_zxid = c->acked_zxid;
    d->expected = -1;
    d->version = -1;
    return d;
}

void checks_applied(struct sim *s, struct machine *m, uint64_t index, struct slice payload)
{
    if (check_replicas_applied(s, m, index, payload)) {
        check_sessions_entry(s, payload);
    }
}

void checks_role(struct sim *s, struct machine *m, enum replication_role role, uint64_t term)
{
    if (role == REPLICATION_LEADER) {
        check_replicas_leader(s, m, term);
    }
}

void checks_answered(struct sim *s, struct client *c, struct deed *d,
                     const struct conclave_reply *reply)
{
    bool write = deed_is_write(d);
    world_trace(&s->world, "client %u %s %s%u as %" PRIu64 ": %s zxid %" PRId64, c->id,
                kinds[d->kind], d->path, d->key, d->id,
                d->error == 0 ? "ok" : conclave_errname(d->error), d->zxid);
    if (d->error == 0) {
        s->checks.acknowledged += write;
        s->checks.reads += !write;
    }
    check_writes_answered(s, d, reply);
    if (!write || !d->again) { /* else it is the first answer, come late: it shows nothing of now */
        check_order_answered(s, c, d, reply);
        check_watches_answered(s, c, d);
        check_lasting_answered(s, c, d, reply);
    }
    check_sessions_answered(s, c, d, reply);
    check_modes_answered(s, c, d);
    if (write && d->error == 0 && d->zxid > s->checks.acked_zxid) {
        s->checks.acked_zxid = d->zxid;
    }
}

void checks_event(struct sim *s, struct client *c, unsigned key, enum conclave_event_type type)
{
    world_trace(&s->world, "client %u is told %s of key %u", c->id, conclave_event_name(type), key);
    check_watches_event(s, c, key, type);
}

void checks_end(struct sim *s)
{
    check_replicas_end(s);
    check_writes_end(s);
    check_sessions_end(s);
    check_modes_end(s);
    check_watches_end(s);
    check_lasting_end(s);
}
