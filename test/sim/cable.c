#include "sim/cable.h"

#include "base/map.h"

#include "sim/check_sessions.h"
#include "sim/inside.h"
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>

enum { DELAY_US = 1500, GIVE_UP_US = 500 * MS, TO_SERVER = 0, TO_CLIENT = 1 };

enum parcel_kind { PARCEL_CONNECT, PARCEL_ACCEPTED, PARCEL_REFUSED, PARCEL_BYTES, PARCEL_END };

struct parcel {
    struct event event;
    struct cable *cable;
    enum parcel_kind kind;
    int direction;
    struct buf bytes;
};

static void send_parcel(struct cable *k, int direction, enum parcel_kind kind, struct slice bytes);

static bool is_cut(const struct cable *k)
{
    struct sim *s = k->sim;
    for (size_t i = 0; i < s->n_clients; i++) {
        if (s->clients[i] == k->client) {
            return s->cut[i][k->machine->id];
        }
    }
    return false;
}

/* The server's end */

static void door_open(struct cable *k)
{
    struct machine *m = k->machine;
    struct door *d = must_calloc(sizeof *d);
    d->cable = k;
    buf_init(&d->in, 0);
    list_push_back(&m->doors, &d->node);
    k->door = d;
    snprintf(k->peer, sizeof k->peer, "10.0.0.9:1");
    if (connection_init(&d->connection, &m->inside->service, "10.0.0.9", k->peer) != 0) {
        abort();
    }
}

static void door_close(struct door *d, bool tell)
{
    struct cable *k = d->cable;
    connection_finish(&d->connection);
    list_remove(&d->node);
    buf_finish(&d->in);
    free(d);
    k->door = NULL;
    if (tell) {
        send_parcel(k, TO_CLIENT, PARCEL_END, SLICE_NULL);
    }
}

static void door_read(struct door *d)
{
    struct connection *c = &d->connection;
    if (d->in.len > 0 && c->stage != CONNECTION_CLOSED && c->stage != CONNECTION_CLOSING &&
        connection_ready(c)) {
        buf_consume(&d->in, connection_input(c, buf_slice(&d->in)));
    }
}

static void door_update(struct door *d)
{
    struct connection *c = &d->connection;
    if (c->stage != CONNECTION_CLOSED && c->out.len > 0 && leadership_may_send(c->service, c)) {
        check_sessions_sent(d->cable->sim, c->mapped ? c->session_id : 0, c->timeout_ms,
                            buf_slice(&c->out));
        send_parcel(d->cable, TO_CLIENT, PARCEL_BYTES, buf_slice(&c->out));
        buf_reset(&c->out);
        connection_count_output(c);
    }
    if (c->stage == CONNECTION_CLOSED || (c->stage == CONNECTION_CLOSING && c->out.len == 0)) {
        door_close(d, true);
        return;
    }
    door_read(d);
}

void doors_turn(struct machine *m)
{
    struct list *node;
    while ((node = list_pop_front(&m->inside->service.dirty)) != NULL) {
        struct connection *c = CONTAINER_OF(node, struct connection, dirty);
        door_update(CONTAINER_OF(c, struct door, connection));
    }
}

void doors_end(struct machine *m, bool seen)
{
    LIST_FOREACH (it, &m->doors) {
        struct door *d = CONTAINER_OF(it, struct door, node);
        struct cable *k = d->cable;
        door_close(d, seen);
        k->silent = k->silent || !seen;
    }
}

static void reach_server(struct cable *k, struct parcel *p)
{
    struct machine *m = k->machine;
    bool there = m->on && m->incarnation == k->incarnation;
    if (p->kind == PARCEL_CONNECT) {
        if (there && machine_listens(m)) {
            machine_enter(m);
            door_open(k);
            machine_leave(m);
            send_parcel(k, TO_CLIENT, PARCEL_ACCEPTED, SLICE_NULL);
        } else {
            send_parcel(k, TO_CLIENT, PARCEL_REFUSED, SLICE_NULL);
        }
        return;
    }
    if (!there || k->door == NULL) {
        return;
    }
    machine_enter(m);
    if (p->kind == PARCEL_BYTES) {
        buf_append_slice(&k->door->in, buf_slice(&p->bytes));
        door_read(k->door);
    } else if (p->kind == PARCEL_END) {
        list_remove(&k->door->connection.dirty);
        door_close(k->door, false);
    }
    machine_leave(m);
}

/* Both ends */

static void reach_client(struct cable *k, struct parcel *p)
{
    if (k->client == NULL) {
        return;
    }
    switch (p->kind) {
    case PARCEL_ACCEPTED:
        client_connected(k->client);
        break;
    case PARCEL_BYTES:
        client_receive(k->client, buf_slice(&p->bytes));
        break;
    default:
        client_disconnected(k->client);
        break;
    }
}

/* A part of the bytes arrives, nothing more, and both ends hear that it is over. */
static void break_cable(struct cable *k, struct parcel *p)
{
    p->bytes.len = (size_t)world_below(&k->sim->world, p->bytes.len + 1);
    k->broken = true;
    send_parcel(k, TO_SERVER, PARCEL_END, SLICE_NULL);
    send_parcel(k, TO_CLIENT, PARCEL_END, SLICE_NULL);
}

static void arrive(struct event *e, bool dropped)
{
    struct parcel *p = (struct parcel *)(void *)e;
    struct cable *k = p->cable;
    struct machine *m = k->machine;
    if (!dropped) {
        k->silent = k->silent || (k->client != NULL && is_cut(k));
        if (p->direction == TO_SERVER && machine_is_paused(m) && m->on) {
            world_after(&k->sim->world, m->paused_until_us - k->sim->world.now_us, e);
            return;
        }
        bool over = k->broken && p->kind == PARCEL_BYTES;
        if (!over && p->kind == PARCEL_BYTES && world_chance(&k->sim->world, k->sim->breaks)) {
            break_cable(k, p);
        }
        if (over) {
            /* It was on its way when the cable broke. */
        } else if (!k->silent || (p->kind == PARCEL_END && p->direction == TO_SERVER)) {
            world_mix(&k->sim->world, hash_bytes(p->bytes.data, p->bytes.len));
            p->direction == TO_SERVER ? reach_server(k, p) : reach_client(k, p);
        }
    }
    buf_finish(&p->bytes);
    free(p);
}

static void send_parcel(struct cable *k, int direction, enum parcel_kind kind, struct slice bytes)
{
    struct world *w = &k->sim->world;
    struct parcel *p = must_calloc(sizeof *p);
    int64_t at_us = w->now_us + world_between(w, 100, DELAY_US);
    p->event.fn = arrive;
    p->cable = k;
    p->kind = kind;
    p->direction = direction;
    buf_init(&p->bytes, 0);
    buf_append_slice(&p->bytes, bytes);
    at_us = at_us > k->last_us[direction] ? at_us : k->last_us[direction];
    k->last_us[direction] = at_us;
    world_after(w, at_us - w->now_us, &p->event);
}

struct cable *cable_open(struct sim *s, struct client *c, struct machine *m)
{
    struct cable *k = must_calloc(sizeof *k);
    k->sim = s;
    k->client = c;
    k->machine = m;
    k->incarnation = m->incarnation;
    list_push_back(&s->cables, &k->node);
    send_parcel(k, TO_SERVER, PARCEL_CONNECT, SLICE_NULL);
    return k;
}

void cable_send(struct cable *k, struct slice bytes)
{
    if (!k->silent) {
        send_parcel(k, TO_SERVER, PARCEL_BYTES, bytes);
    }
}

void cable_close(struct cable *k)
{
    if (k->silent) {
        k->last_us[TO_SERVER] = k->sim->world.now_us + 20 * SECOND; /* the kernel's patience */
    }
    k->client = NULL;
    send_parcel(k, TO_SERVER, PARCEL_END, SLICE_NULL);
}

void cable_stall(struct cable *k, int64_t us)
{
    int64_t at_us = k->sim->world.now_us + us;
    k->last_us[TO_SERVER] = at_us > k->last_us[TO_SERVER] ? at_us : k->last_us[TO_SERVER];
}
