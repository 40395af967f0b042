#include "sim/check_sessions.h"

#include "sim/peek.h"
#include "sim/sim.h"
#include "state/entry/command.h"
#include "wire/codec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDING_US = 3 * MS, DRIFT_OF_1000 = 1, EVENT_XID = -1 };

/* The record of a session, made at its first answer. */
static struct session_record *find_record(struct checks *c, int64_t id)
{
    for (size_t i = c->n_sessions; i > 0; i--) {
        if (c->sessions[i - 1].id == id) {
            return &c->sessions[i - 1];
        }
    }
    return NULL;
}

static struct session_record *add_record(struct checks *c, int64_t id)
{
    if ((c->n_sessions & (c->n_sessions - 1)) == 0) {
        size_t cap = c->n_sessions == 0 ? 1 : 2 * c->n_sessions;
        c->sessions = realloc(c->sessions, cap * sizeof *c->sessions);
        if (c->sessions == NULL) {
            abort();
        }
    }
    c->sessions[c->n_sessions] = (struct session_record){.id = id};
    return &c->sessions[c->n_sessions++];
}

static bool has_answer(struct slice frames)
{
    struct slice frame;
    int32_t len;
    while (wire_frame_cut(frames, INT32_MAX, &frame, &len) == 1) {
        struct wire_reader r = wire_reader_make(frame);
        if (wire_read_i32(&r) != EVENT_XID) {
            return true;
        }
        frames = slice_make(frames.data + 4 + frame.len, frames.len - 4 - frame.len);
    }
    return false;
}

void check_sessions_sent(struct sim *s, int64_t session, int32_t timeout_ms, struct slice frames)
{
    if (session == 0 || !has_answer(frames)) {
        return;
    }
    struct session_record *r = find_record(&s->checks, session);
    if (r == NULL) {
        r = add_record(&s->checks, session);
    }
    if (r->expired_us != 0) {
        world_violation(&s->world,
                        "session 0x%" PRIx64 " gets an answer %" PRId64 " ms after it expired",
                        (uint64_t)session, (s->world.now_us - r->expired_us) / MS);
    }
    r->answered_us = s->world.now_us;
    r->timeout_us = (int64_t)timeout_ms * MS;
}

static void look_at_expiry(struct sim *s, int64_t session)
{
    struct session_record *r = find_record(&s->checks, session);
    if (r == NULL) {
        r = add_record(&s->checks, session);
    }
    int64_t passed_us = s->world.now_us - r->answered_us;
    if (r->timeout_us - r->timeout_us * DRIFT_OF_1000 / 1000 - ROUNDING_US > passed_us) {
        world_violation(&s->world,
                        "session 0x%" PRIx64 " expires %" PRId64
                        " ms after an answer was sent to it; its timeout is %" PRId64 " ms",
                        (uint64_t)session, passed_us / MS, r->timeout_us / MS);
    }
    r->expired_us = s->world.now_us;
}

void check_sessions_local_end(struct sim *s, int64_t session)
{
    look_at_expiry(s, session);
}

void check_sessions_entry(struct sim *s, struct slice payload)
{
    struct batch_reader batch;
    struct command command;
    if (batch_open(payload, &batch) != 0) {
        return;
    }
    while (batch_next(&batch, &command) == 1) {
        if (command.type == WIRE_CLOSE_SESSION && command.cxid == 0 && command.session_id != 0) {
            look_at_expiry(s, command.session_id);
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
