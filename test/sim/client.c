#include "sim/client.h"

#include "client/core.h"
#include "sim/cable.h"
#include "sim/sim.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_MAX = 6, FILLING_MAX = 300, CONNECT_US = 500 * MS, RECONFIG_OF_1000 = 150 };

enum call_kind { CALL_TICK, CALL_CONNECT, CALL_GIVE_UP, CALL_STEP };

struct call {
    struct event event;
    struct client *client;
    enum call_kind kind;
    const struct cable *cable; /* that is given up if it has not come up by now */
};

static void settle(struct client *c);

static int64_t now_ns(const struct client *c)
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

bool client_is_up(const struct client *c)
{
    return !c->gone && c->core->link == LINK_UP;
}

int64_t client_session(const struct client *c)
{
    bool lost =
        c->gone || c->core->state == CONCLAVE_STATE_LOST || c->core->state == CONCLAVE_STATE_CLOSED;
    return lost ? 0 : c->core->session_id;
}

int64_t client_timeout_us(const struct client *c)
{
    return c->core->timeout_ns / 1000;
}

int64_t client_acked_us(const struct client *c)
{
    return c->core->acked_ns / 1000 - SECOND; /* the core's clock begins at a second */
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
    if (id == 0) {
        id = (unsigned)world_between(&s->world, 1, (int64_t)s->n_machines);
    }
    if (c->cable == NULL && core_wants_link(c->core)) {
        world_trace(&s->world, "client %u connects to server %u", c->id, id);
        c->cable = cable_open(s, c, &s->machines[id]);
        call_after(c, CALL_GIVE_UP, CONNECT_US);
    }
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
            core_tick(c->core, now_ns(c));
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
        if (!c->silent && c->open < OPEN_MAX) {
            enum deed_kind kind = (enum deed_kind)world_below(w, DEED_SETUP);
            bool too_often = kind == DEED_RECONFIG &&
                             (!c->sim->reconfigures || !world_chance(w, RECONFIG_OF_1000));
            client_do(c, too_often ? DEED_SET : kind);
        }
        call_after(c, CALL_STEP, world_between(w, 5, 150) * MS);
        break;
    }
    settle(c);
}

/* Brings the link in line with the core. */
static void settle(struct client *c)
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
        call_after(c, CALL_CONNECT, world_between(&s->world, 5, 120) * MS);
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

/* What the cable brings */

void client_connected(struct client *c)
{
    c->connected = true;
    core_link_up(c->core, now_ns(c), 4 * c->sim->tick_ms);
    settle(c);
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
        core_received(c->core, len, now_ns(c));
        bytes.data += len;
        bytes.len -= len;
    }
    core_tick(c->core, now_ns(c));
    settle(c);
}

void client_disconnected(struct client *c)
{
    if (c->cable != NULL) {
        cable_close(c->cable);
        c->cable = NULL;
    }
    if (c->connected) {
        c->connected = false;
        core_link_down(c->core, now_ns(c), CONCLAVE_EDISCONNECTED);
    }
    core_tick(c->core, now_ns(c));
    settle(c);
}

/* What the core tells */

static void on_state(void *ctx, enum conclave_state state)
{
    struct client *c = ctx;
    world_trace(&c->sim->world, "client %u %s, session 0x%" PRIx64, c->id,
                conclave_state_name(state), (uint64_t)c->core->session_id);
    if (state == CONCLAVE_STATE_LOST || state == CONCLAVE_STATE_NEW_SESSION ||
        state == CONCLAVE_STATE_CONNECTED) {
        c->seen_zxid = 0;
        c->proved_us = 0;
        for (int k = 0; k < KEYS; k++) {
            c->versions[k] = -1;
        }
    }
}

static void on_reply(void *ctx, struct request *r)
{
    struct client *c = ctx;
    struct deed *d = r->ctx;
    c->open--;
    d->answered_us = c->sim->world.now_us;
    d->error = r->reply.error;
    d->zxid = r->reply.zxid;
    checks_answered(c->sim, c, d, &r->reply);
    world_mix(&c->sim->world, (uint64_t)d->zxid);
    request_unref(r);
}

static void on_watch(void *ctx, struct watch *w)
{
    struct client *c = ctx;
    unsigned key = (unsigned)(w->path[3] - '0');
    c->events++;
    checks_event(c->sim, c, key, w->type);
    free(w);
}

static void on_event(void *ctx, struct watch_event *e)
{
    (void)ctx;
    free(e); /* no persistent watches are asked for */
}

static const struct core_events core_events = {
    .state = on_state,
    .reply = on_reply,
    .watch = on_watch,
    .event = on_event,
};

static void watch_fn(struct conclave_client *client, enum conclave_event_type type,
                     const char *path, void *ctx)
{
    (void)client;
    (void)type;
    (void)path;
    (void)ctx; /* the core tells by on_watch */
}

/* Deeds */

static void submit(struct client *c, struct deed *d, const struct conclave_op *op)
{
    struct request *r;
    int rc = op_check(op);
    if (rc == 0) {
        rc = request_create(op, &r);
    }
    if (rc != 0) {
        abort();
    }
    r->ctx = d;
    c->open++;
    rc = core_submit(c->core, op, r, now_ns(c));
    if (rc != 0) {
        request_unref(r);
        c->open--;
        d->error = rc;
        d->answered_us = c->sim->world.now_us;
    }
}

static size_t fill(struct client *c, const struct deed *d, char *data, size_t size)
{
    int n = snprintf(data, size, "%" PRIu64 ":", d->id);
    size_t len = (size_t)n + world_below(&c->sim->world, size - (size_t)n);
    memset(data + n, 'x', len - (size_t)n);
    return len;
}

static void do_write(struct client *c, struct deed *d)
{
    char data[FILLING_MAX];
    char key[16];
    size_t len = fill(c, d, data, sizeof data);
    snprintf(key, sizeof key, "/r/%u", d->key);
    struct conclave_op op;
    struct conclave_op parts[2];
    switch (d->kind) {
    case DEED_SET_IF:
        d->expected = c->versions[d->key];
        op = conclave_op_set(key, data, len, d->expected);
        break;
    case DEED_UNIQUE:
        snprintf(d->path, sizeof d->path, "/u/%" PRIu64, d->id);
        op = conclave_op_create(d->path, data, len, CONCLAVE_PERSISTENT);
        break;
    case DEED_PROBE:
        snprintf(d->path, sizeof d->path, "/u/%" PRIu64, d->id);
        op = conclave_op_create(d->path, data, len, CONCLAVE_PERSISTENT);
        break;
    case DEED_SEQUENCE:
        snprintf(d->path, sizeof d->path, "/q/%" PRIu64 "-", d->id);
        op = conclave_op_create(d->path, data, len, CONCLAVE_PERSISTENT_SEQUENTIAL);
        break;
    case DEED_EPHEMERAL:
        snprintf(d->path, sizeof d->path, "/e/%" PRIu64, d->id);
        op = conclave_op_create(d->path, data, len, CONCLAVE_EPHEMERAL);
        break;
    case DEED_MULTI:
        snprintf(d->path, sizeof d->path, "/u/%" PRIu64, d->id);
        parts[0] = conclave_op_set(key, data, len, -1);
        parts[1] = conclave_op_create(d->path, data, len, CONCLAVE_PERSISTENT);
        op = conclave_op_multi(parts, 2);
        break;
    default:
        op = conclave_op_set(key, data, len, -1);
        break;
    }
    submit(c, d, &op);
}

/* A node that this client has made. */
static struct deed *victim(struct client *c)
{
    const struct checks *k = &c->sim->checks;
    for (int i = 0; i < 20 && k->n_deeds > 0; i++) {
        struct deed *d = k->deeds[world_below(&c->sim->world, k->n_deeds)];
        if (d->client == c && d->removal == NULL && d->answered_us != 0 && d->error == 0 &&
            (d->kind == DEED_UNIQUE || d->kind == DEED_EPHEMERAL || d->kind == DEED_SEQUENCE)) {
            return d;
        }
    }
    return NULL;
}

static void do_read(struct client *c, struct deed *d)
{
    char key[16];
    struct conclave_op op;
    snprintf(key, sizeof key, "/r/%u", d->key);
    if (d->kind == DEED_CHILDREN) {
        op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, "/e", 0);
    } else if (d->kind == DEED_SYNC) {
        op = conclave_op_path(CONCLAVE_OP_SYNC, key, 0);
    } else {
        struct watching *w = &c->watching[d->key];
        op = conclave_op_path(CONCLAVE_OP_GET, key, 0);
        if (!w->set && !w->asked && world_chance(&c->sim->world, 500)) {
            d->watched = w->asked = true;
            op.watch = watch_fn;
        }
    }
    submit(c, d, &op);
}

static void do_reconfig(struct client *c, struct deed *d)
{
    struct world *w = &c->sim->world;
    unsigned id = (unsigned)world_between(w, 1, (int64_t)c->sim->n_machines);
    char joining[96];
    machine_line(id, world_chance(w, 500), joining, sizeof joining);
    struct conclave_reconfig change = {.joining = joining, .config_version = -1};
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_RECONFIG, NULL, 0);
    op.reconfig = &change;
    world_trace(w, "client %u wants %s", c->id, joining);
    submit(c, d, &op);
}

struct deed *client_do(struct client *c, enum deed_kind kind)
{
    static const char *const nodes[] = {"/r", "/u", "/q", "/e", "/r/0", "/r/1", "/r/2", "/r/3"};
    struct sim *s = c->sim;
    struct deed *d = checks_deed(&s->checks, c, kind);
    struct conclave_op op;
    d->key = (unsigned)world_below(&s->world, KEYS);
    d->fresh = s->linearizable;
    switch (kind) {
    case DEED_SETUP:
        for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
            d = i == 0 ? d : checks_deed(&s->checks, c, kind);
            op = conclave_op_create(nodes[i], "0:", 2, CONCLAVE_PERSISTENT);
            submit(c, d, &op);
        }
        break;
    case DEED_DELETE:
        d->removal = victim(c);
        if (d->removal != NULL) {
            struct deed *made = d->removal;
            made->removal = d;
            op = conclave_op_path(CONCLAVE_OP_DELETE, made->path, -1);
            submit(c, d, &op);
        } else {
            d->answered_us = s->world.now_us;
            d->error = CONCLAVE_NO_NODE;
        }
        break;
    case DEED_SYNC: {
        struct deed *get = checks_deed(&s->checks, c, DEED_GET);
        get->key = d->key;
        get->fresh = true;
        get->behind = d;
        do_read(c, d);
        do_read(c, get);
        break;
    }
    case DEED_GET:
    case DEED_CHILDREN:
        do_read(c, d);
        break;
    case DEED_RECONFIG:
        do_reconfig(c, d);
        break;
    default:
        do_write(c, d);
        break;
    }
    settle(c);
    return d;
}

/* Begin and end */

struct client *client_create(struct sim *s, unsigned id)
{
    struct client *c = must_calloc(sizeof *c);
    c->core = must_calloc(sizeof *c->core);
    c->sim = s;
    c->id = id;
    c->timeout_ms = s->tick_ms * world_between(&s->world, 4, 10);
    struct core_options options = {
        .chroot = slice_str(""),
        .session_timeout_ms = c->timeout_ms,
        .request_timeout_ms = CONCLAVE_FOREVER,
        .max_request = 1 << 20,
        .max_reply = 16 << 20,
        .new_session = true,
    };
    for (int k = 0; k < KEYS; k++) {
        c->versions[k] = -1;
    }
    if (core_init(c->core, &options, &core_events, c) != 0) {
        abort();
    }
    settle(c);
    return c;
}

void client_begin(struct client *c)
{
    call_after(c, CALL_STEP, world_between(&c->sim->world, 1, 100) * MS);
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
    if (c->core->link != LINK_NONE) {
        core_link_down(c->core, now_ns(c), CONCLAVE_ECLOSED);
    }
    core_close(c->core, now_ns(c), 0);
    core_tick(c->core, now_ns(c));
    core_finish(c->core);
    free(c->core);
    free(c);
}
