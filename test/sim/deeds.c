#include "sim/deeds.h"

#include "client/core/core.h"
#include "sim/sim.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILLING_MAX = 300, REMOVED_OF_1000 = 300, TAKEN_BACK_OF_1000 = 300 };

static const char *const lasting_paths[LASTING] = {
    "/r/0", "/r/1", "/r/2", "/r/3", [LASTING_ALL] = "/r", [LASTING_NODES] = "/e",
};

unsigned lasting_index(const char *path)
{
    unsigned i = 0;
    while (strcmp(lasting_paths[i], path) != 0) {
        i++;
        assert(i < LASTING);
    }
    return i;
}

static void watch_fn(struct conclave_client *client, enum conclave_event_type type,
                     const char *path, void *ctx)
{
    (void)ctx; /* the core tells by on_watch */
}

static void lasting_fn(struct conclave_client *client, enum conclave_event_type type,
                       const char *path, void *ctx)
{
    watch_fn(client, type, path, ctx); /* told apart when one is taken back */
}

static void submit(struct client *c, struct deed *d, const struct conclave_op *op)
{
    struct client_request *r;
    int rc = op_check(op);
    if (rc == 0) {
        rc = request_create(op, &r);
    }
    if (rc != 0) {
        abort();
    }
    r->ctx = d;
    r->counted = true; /* an application's */
    c->open++;
    rc = core_submit(c->core, op, r, client_clock_ns(c));
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

/* A persistent watch, or none any more where it has one. */
static void do_lasting(struct client *c, struct deed *d)
{
    struct world *w = &c->sim->world;
    d->lasting = (unsigned)world_below(w, LASTING);
    struct lasting *l = &c->lasting[d->lasting];
    const char *path = lasting_paths[d->lasting];
    if (l->asked || l->set) {
        d->answered_us = w->now_us;
        d->error = CONCLAVE_ECANCELED;
    }
    if (l->set && world_chance(w, TAKEN_BACK_OF_1000)) {
        l->set = l->hears = false;
        free(core_forget_watch(c->core, path, lasting_fn, NULL, false));
        world_trace(w, "client %u takes back its watch of all at %s", c->id, path);
    } else if (d->answered_us == 0) {
        struct conclave_op op = conclave_op_add_watch(
            path, d->lasting < KEYS ? CONCLAVE_WATCH_PERSISTENT : CONCLAVE_WATCH_RECURSIVE,
            lasting_fn, NULL);
        l->asked = true;
        submit(c, d, &op);
    }
}

static void reconfigure(struct client *c, struct deed *d, const char *joining, const char *leaving)
{
    struct conclave_reconfig change = {
        .size = sizeof change, .joining = joining, .leaving = leaving, .config_version = -1};
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_RECONFIG, NULL, 0);
    op.reconfig = &change;
    world_trace(&c->sim->world, "client %u wants %s%s", c->id, joining != NULL ? joining : "no ",
                leaving != NULL ? leaving : "");
    submit(c, d, &op);
}

static void do_reconfig(struct client *c, struct deed *d)
{
    struct world *w = &c->sim->world;
    unsigned id = (unsigned)world_between(w, 1, (int64_t)c->sim->n_machines);
    char text[96];
    if (world_chance(w, REMOVED_OF_1000)) {
        snprintf(text, sizeof text, "%u", id);
        reconfigure(c, d, NULL, text);
    } else {
        machine_line(id, world_chance(w, 500), text, sizeof text);
        reconfigure(c, d, text, NULL);
    }
}

void client_join(struct client *c, unsigned id)
{
    char text[96];
    machine_line(id, true, text, sizeof text);
    reconfigure(c, checks_deed(&c->sim->checks, c, DEED_RECONFIG), text, NULL);
    client_settle(c);
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
    case DEED_LASTING:
        do_lasting(c, d);
        break;
    default:
        do_write(c, d);
        break;
    }
    client_settle(c);
    return d;
}
