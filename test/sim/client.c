#include "sim/client.h"

#include "client/core/core.h"
#include "sim/cable.h"
#include "sim/check_lasting.h"
#include "sim/deeds.h"
#include "sim/sim.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPEN_MAX = 6,
    CONNECT_US = 500 * MS,
    RECONFIG_OF_1000 = 150,
    LEAVES_OF_1000 = 50,
    ANEW_OF_1000 = 25,
    HOME_OF_1000 = 800
};

enum call_kind { CALL_TICK, CALL_CONNECT, CALL_GIVE_UP, CALL_STEP, CALL_LEAVE };

struct call {
    struct event event;
    struct client *client;
    enum call_kind kind;
    const struct cable *cable; /* that is given up if it has not come up by now */
};

int64_t client_clock_ns(const struct client *c)
{
    return (c->sim->world.now_us + SECOND) * 1000;
}

bool deed_is_open(const struct deed *d)
{
    switch (d->error) {
    case CONCLAVE_CONNECTION_LOSS:
    case CONCLAVE_OPERATION_TIMEOUT:
    case CONCLAVE_SESSION_EXPIRED:
    case CONCLAVE_ECLOSED:
        return true;
    default:
        return d->answered_us == 0;
    }
}

bool deed_is_write(const struct deed *d)
{
    return d->kind != DEED_GET && d->kind != DEED_SYNC && d->kind != DEED_CHILDREN &&
           d->kind != DEED_LASTING;
}

bool client_is_up(const struct client *c)
{
    return !c->gone && c->core->link == LINK_UP;
}

bool client_may_only_read(const struct client *c)
{
    return c->core->read_only;
}

int64_t client_session(const struct client *c)
{
    bool lost =
        c->gone || c->core->state == CONCLAVE_STATE_LOST || c->core->state == CONCLAVE_STATE_CLOSED;
    return lost ? 0 : c->core->session_id;
}

/* Events of its own */

static void happen(struct event *e, bool dropped);

static void call_after(struct client *c, enum call_kind kind, int64_t us)
{
    struct call *call = must_calloc(sizeof *call);
    call->event.fn = happen;
    call->client = c;
    call->kind = kind;
    call->cable = c->cable;
    world_after(&c->sim->world, us, &call->event);
}

static void connect_somewhere(struct client *c)
{
    struct sim *s = c->sim;
    unsigned id = c->only;
    c->connecting = false;
    if (c->sits && world_chance(&s->world, HOME_OF_1000)) {
        id = 1 + c->id % (unsigned)s->n_machines;
    } else if (id == 0) {
        id = (unsigned)world_between(&s->world, 1, (int64_t)s->n_machines);
    }
    if (c->cable == NULL && core_wants_link(c->core)) {
        world_trace(&s->world, "client %u connects to server %u", c->id, id);
        c->cable = cable_open(s, c, &s->machines[id]);
        call_after(c, CALL_GIVE_UP, CONNECT_US);
    }
}

/* Something of its own. */
static void step(struct client *c)
{
    struct world *w = &c->sim->world;
    if (c->reads_old && c->sim->faults && world_chance(w, ANEW_OF_1000)) {
        client_anew(c);
    }
    if (!c->silent && c->open < OPEN_MAX) {
        enum deed_kind kind = c->sits ? DEED_GET : (enum deed_kind)world_below(w, DEED_SETUP);
        bool too_often = kind == DEED_RECONFIG && (!c->sim->reconfigures || !c->sim->faults ||
                                                   !world_chance(w, RECONFIG_OF_1000));
        client_do(c, too_often ? DEED_SET : kind);
    }
    call_after(c, CALL_STEP, world_between(w, 5, c->sits ? 300 : 150) * MS);
}

static void happen(struct event *e, bool dropped)
{
    struct call call = *(struct call *)(void *)e;
    struct client *c = call.client;
    free(e);
    if (dropped || c->gone) {
        return;
    }
    struct world *w = &c->sim->world;
    switch (call.kind) {
    case CALL_TICK:
        if (c->wake_us == call.event.at_us) {
            c->wake_us = 0;
            core_tick(c->core, client_clock_ns(c));
        }
        break;
    case CALL_CONNECT:
        connect_somewhere(c);
        break;
    case CALL_GIVE_UP:
        if (c->cable == call.cable && c->cable != NULL && !c->connected) {
            cable_close(c->cable);
            c->cable = NULL;
        }
        break;
    case CALL_STEP:
        step(c);
        break;
    case CALL_LEAVE:
        client_leave(c, world_between(w, c->timeout_ms / 2, 2 * c->timeout_ms) * MS);
        break;
    }
    client_settle(c);
}

/* Brings the link in line with the core. */
void client_settle(struct client *c)
{
    struct sim *s = c->sim;
    if (c->cable != NULL && c->connected && c->core->link == LINK_NONE) {
        cable_close(c->cable);
        c->cable = NULL;
        c->connected = false;
    }
    if (c->cable != NULL && c->connected) {
        struct slice out = core_output(c->core);
        if (out.len > 0) {
            cable_send(c->cable, out);
            core_sent(c->core, out.len);
        }
    }
    if (c->cable == NULL && !c->connecting && core_wants_link(c->core)) {
        c->connecting = true;
        int64_t away_us = c->away_us - s->world.now_us;
        call_after(c, CALL_CONNECT,
                   (away_us > 0 ? away_us : 0) + world_between(&s->world, 5, 120) * MS);
    }
    int64_t at_ns = core_deadline_ns(c->core);
    if (at_ns != INT64_MAX) {
        int64_t at_us = at_ns / 1000 - SECOND + 1;
        at_us = at_us > s->world.now_us ? at_us : s->world.now_us + 1;
        if (c->wake_us <= s->world.now_us || at_us < c->wake_us) {
            c->wake_us = at_us;
            call_after(c, CALL_TICK, at_us - s->world.now_us);
        }
    }
}

/* The frames from the cable */

void client_connected(struct client *c)
{
    c->connected = true;
    core_link_up(c->core, client_clock_ns(c), 4 * c->sim->tick_ms);
    client_settle(c);
}

void client_receive(struct client *c, struct slice bytes)
{
    while (bytes.len > 0 && c->connected && c->core->link != LINK_NONE) {
        uint8_t *room;
        size_t len;
        if (core_input(c->core, bytes.len, &room, &len) != 0) {
            abort();
        }
        len = len < bytes.len ? len : bytes.len;
        memcpy(room, bytes.data, len);
        core_received(c->core, len, client_clock_ns(c));
        bytes.data += len;
        bytes.len -= len;
    }
    core_tick(c->core, client_clock_ns(c));
    client_settle(c);
}

void client_disconnected(struct client *c)
{
    if (c->cable != NULL) {
        cable_close(c->cable);
        c->cable = NULL;
    }
    if (c->connected) {
        c->connected = false;
        core_link_down(c->core, client_clock_ns(c), CONCLAVE_EDISCONNECTED);
    }
    core_tick(c->core, client_clock_ns(c));
    client_settle(c);
}

/* The core's callbacks */

static void on_state(void *ctx, enum conclave_state state)
{
    struct client *c = ctx;
    world_trace(&c->sim->world, "client %u %s, session 0x%" PRIx64, c->id,
                conclave_state_name(state), (uint64_t)c->core->session_id);
    /* Without a session, and refused for what it has seen again and again, a core begins from nothing. */
    bool forgets = state == CONCLAVE_STATE_READ_ONLY && c->core->last_zxid == 0;
    if (state == CONCLAVE_STATE_LOST || state == CONCLAVE_STATE_NEW_SESSION ||
        state == CONCLAVE_STATE_CONNECTED || forgets) {
        c->seen_zxid = 0;
        for (int k = 0; k < KEYS; k++) {
            c->versions[k] = -1;
        }
    }
    if (state == CONCLAVE_STATE_SUSPENDED || state == CONCLAVE_STATE_LOST) {
        check_lasting_unlinked(c);
    }
}

static void on_reply(void *ctx, struct client_request *r)
{
    struct client *c = ctx;
    struct deed *d = r->ctx;
    c->open--;
    d->answered_us = c->sim->world.now_us;
    d->error = r->reply.error;
    if (c->ending) { /* it gets no more answers: its requests stay open */
        request_unref(r);
        return;
    }
    d->zxid = r->reply.zxid;
    d->again = r->kept;
    checks_answered(c->sim, c, d, &r->reply);
    if (c->sits && c->sim->faults && world_chance(&c->sim->world, LEAVES_OF_1000)) {
        call_after(c, CALL_LEAVE, world_between(&c->sim->world, 1, 30) * MS);
    }
    world_mix(&c->sim->world, (uint64_t)d->zxid);
    request_unref(r);
}

static void on_watch(void *ctx, struct client_watch *w)
{
    struct client *c = ctx;
    c->events++;
    if (c->ending) {
        free(w);
        return;
    }
    if (watch_kind_is_persistent(w->kind)) {
        check_lasting_lost(c->sim, c, lasting_index(w->path), w->type);
    } else {
        checks_event(c->sim, c, (unsigned)(w->path[3] - '0'), w->type);
    }
    free(w);
}

static void on_event(void *ctx, struct client_event *e)
{
    struct client *c = ctx;
    c->events++;
    if (c->ending) {
        free(e);
        return;
    }
    check_lasting_event(c->sim, c, lasting_index(e->watch->path), e->type, e->path);
    free(e);
}

static const struct core_events core_events = {
    .state = on_state,
    .reply = on_reply,
    .watch = on_watch,
    .event = on_event,
};

/* Begin and end */

static void begin_core(struct client *c)
{
    struct core_options options = {
        .chroot = slice_str(""),
        .session_timeout_ms = c->timeout_ms,
        .request_timeout_ms = CONCLAVE_FOREVER,
        .max_request = 1 << 20,
        .max_reply = 16 << 20,
        .new_session = true,
        .exactly_once = c->id % 2 == 0,
        .read_only = c->reads_old,
    };
    for (int k = 0; k < KEYS; k++) {
        c->versions[k] = -1;
    }
    if (core_init(c->core, &options, &core_events, c) != 0) {
        abort();
    }
}

static struct client *create(struct sim *s, unsigned id, bool sits)
{
    struct client *c = must_calloc(sizeof *c);
    c->core = must_calloc(sizeof *c->core);
    c->sim = s;
    c->id = id;
    c->sits = sits;
    c->timeout_ms = s->tick_ms * world_between(&s->world, sits ? 2 : 4, sits ? 4 : 10);
    c->reads_old = s->read_only && world_chance(&s->world, 600);
    begin_core(c);
    client_settle(c);
    return c;
}

static void end_core(struct client *c)
{
    c->ending = true;
    if (c->core->link != LINK_NONE) {
        core_link_down(c->core, client_clock_ns(c), CONCLAVE_ECLOSED);
    }
    core_close(c->core, client_clock_ns(c), 0);
    core_tick(c->core, client_clock_ns(c));
    core_finish(c->core);
    c->ending = false;
}

void client_anew(struct client *c)
{
    world_trace(&c->sim->world, "client %u begins anew, session 0x%" PRIx64, c->id,
                (uint64_t)c->core->session_id);
    if (c->cable != NULL) {
        cable_close(c->cable);
        c->cable = NULL;
        c->connected = false;
    }
    end_core(c);
    memset(c->watching, 0, sizeof c->watching);
    memset(c->lasting, 0, sizeof c->lasting);
    c->nodes.based = false;
    c->seen_zxid = 0;
    begin_core(c);
    client_settle(c);
}

struct client *client_create(struct sim *s, unsigned id)
{
    return create(s, id, false);
}

struct client *client_create_sitter(struct sim *s, unsigned id)
{
    return create(s, id, true);
}

void client_begin(struct client *c)
{
    call_after(c, CALL_STEP, world_between(&c->sim->world, 1, 100) * MS);
}

void client_leave(struct client *c, int64_t us)
{
    world_trace(&c->sim->world, "client %u leaves for %d ms, session 0x%" PRIx64, c->id,
                (int)(us / MS), (uint64_t)c->core->session_id);
    c->away_us = c->sim->world.now_us + us;
    client_disconnected(c);
}

void client_return(struct client *c)
{
    c->away_us = 0;
    if (!c->gone && c->connecting) {
        c->connecting = false; /* the planned attempt may be due only after the absence */
        client_settle(c);
    }
}

void client_stall(struct client *c, int64_t us)
{
    if (client_is_up(c)) {
        world_trace(&c->sim->world, "client %u is not heard for %d ms", c->id, (int)(us / MS));
        cable_stall(c->cable, us);
        client_do(c, DEED_GET);
        client_settle(c);
    }
}

void client_die(struct client *c)
{
    world_trace(&c->sim->world, "client %u dies, session 0x%" PRIx64, c->id,
                (uint64_t)c->core->session_id);
    c->gone = true;
    if (c->cable != NULL) {
        cable_close(c->cable);
        c->cable = NULL;
        c->connected = false;
    }
}

void client_destroy(struct client *c)
{
    c->gone = true;
    end_core(c);
    free(c->core);
    free(c->nodes.there);
    free(c);
}
