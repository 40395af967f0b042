#include "sim/check_sessions.h"

#include "sim/peek.h"
#include "sim/sim.h"
#include "state/command.h"

#include <inttypes.h>
#include <string.h>

enum { GRANULE_US = 20 * MS, DRIFT_OF_1000 = 3 };

static void look_at_expiry(struct sim *s, const struct client *c)
{
    int64_t now_us = s->world.now_us;
    int64_t timeout_us = client_timeout_us(c);
    int64_t acked_us = client_acked_us(c);
    int64_t pinged_us = acked_us + timeout_us - 2 * s->tick_ms * MS;
    int64_t proved_us = c->proved_us + timeout_us;
    timeout_us = timeout_us * DRIFT_OF_1000 / 1000 + GRANULE_US;
    if (c->proved_us > 0 && now_us < proved_us - timeout_us) {
        world_violation(&s->world,
                        "session 0x%" PRIx64 " of client %u expires %" PRId64
                        " ms after a write that was answered was asked for; its timeout is %d ms",
                        (uint64_t)client_session(c), c->id, (now_us - c->proved_us) / MS,
                        (int)(client_timeout_us(c) / MS));
    } else if (now_us < pinged_us - timeout_us) {
        world_violation(&s->world,
                        "session 0x%" PRIx64 " of client %u expires %" PRId64
                        " ms after something that was answered was sent; its timeout is %d ms",
                        (uint64_t)client_session(c), c->id, (now_us - acked_us) / MS,
                        (int)(client_timeout_us(c) / MS));
    }
}

void check_sessions_entry(struct sim *s, struct slice payload)
{
    struct batch_reader batch;
    struct command command;
    if (batch_open(payload, &batch) != 0) {
        return;
    }
    while (batch_next(&batch, &command) == 1) {
        for (size_t i = 0; i < s->n_clients && command.type == WIRE_CLOSE_SESSION; i++) {
            const struct client *c = s->clients[i];
            if (command.cxid == 0 && command.session_id != 0 &&
                client_session(c) == command.session_id) {
                look_at_expiry(s, c);
            }
        }
    }
}

static bool lists(const struct conclave_reply *reply, const char *name)
{
    for (size_t i = 0; i < reply->children_count; i++) {
        if (strcmp(reply->children[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* An ephemeral that must be there as long as its session. */
static bool is_held(const struct deed *d, int64_t before_us)
{
    return d->kind == DEED_EPHEMERAL && d->answered_us != 0 && d->answered_us <= before_us &&
           d->error == 0 && d->removal == NULL;
}

void check_sessions_answered(struct sim *s, struct client *c, struct deed *d,
                             const struct conclave_reply *reply)
{
    if (d->error != 0) {
        return;
    }
    if (deed_is_write(d)) {
        c->proved_us = d->asked_us > c->proved_us ? d->asked_us : c->proved_us;
    }
    if (d->kind == DEED_EPHEMERAL) {
        d->owner = reply->stat.ephemeral_owner;
        if (d->owner != client_session(c)) {
            world_violation(&s->world, "%s of session 0x%" PRIx64 " belongs to 0x%" PRIx64, d->path,
                            (uint64_t)client_session(c), (uint64_t)d->owner);
        }
    }
    for (size_t i = 0; d->kind == DEED_CHILDREN && i < s->checks.n_deeds; i++) {
        const struct deed *e = s->checks.deeds[i];
        if (is_held(e, d->asked_us) && e->owner == client_session(c) && e->client == c &&
            !lists(reply, e->path + 3)) {
            world_violation(&s->world, "client %u does not see its own %s", c->id, e->path);
        }
    }
}

/* The end */

static void look_at_child(void *ctx, struct machine *m, const char *name)
{
    struct sim *s = ctx;
    uint64_t id = peek_number(slice_str(name));
    if (id == 0 || id > s->checks.n_deeds) {
        world_violation(&s->world, "server %u has /e/%s, which nobody made", m->id, name);
        return;
    }
    const struct deed *d = s->checks.deeds[id - 1];
    bool lives = client_is_up(d->client) && d->owner == client_session(d->client);
    if (!lives && !deed_is_open(d)) {
        world_violation(&s->world, "server %u has %s of session 0x%" PRIx64 ", which is over",
                        m->id, d->path, (uint64_t)d->owner);
    } else if (d->client->gone) {
        world_violation(&s->world, "server %u has %s of client %u, which has died", m->id, d->path,
                        d->client->id);
    }
}

void check_sessions_end(struct sim *s)
{
    static char folder[] = "/e";
    for (unsigned id = 1; id <= s->n_machines; id++) {
        struct machine *m = &s->machines[id];
        peek_children(m, folder, look_at_child, s);
        for (size_t i = 0; i < s->checks.n_deeds; i++) {
            const struct deed *d = s->checks.deeds[i];
            int32_t version;
            uint64_t number;
            if (is_held(d, s->world.now_us) && client_is_up(d->client) &&
                client_session(d->client) == d->owner &&
                !peek_node(m, d->path, &version, &number)) {
                world_violation(&s->world,
                                "server %u lacks %s of session 0x%" PRIx64 ", which lives", m->id,
                                d->path, (uint64_t)d->owner);
            }
        }
    }
}
