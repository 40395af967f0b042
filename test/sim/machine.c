#include "sim/machine.h"

#include "sim/inside.h"
#include "sim/loop.h"
#include "sim/sim.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESIGN_MS = 1000, DRAIN_MS = 1200, AGAIN_US = 50, PUMP_MAX = 1000000 };

static const int64_t WALL_2026_MS = 1770000000000;

/* Clocks */

static int64_t monotonic_us(const struct machine *m)
{
    int64_t now = m->sim->world.now_us;
    return m->clock_us + now + now * m->drift_ppm / 1000000;
}

static int64_t monotonic_ns(void *ctx)
{
    return monotonic_us(ctx) * 1000;
}

static int64_t wall_ms(void *ctx)
{
    const struct machine *m = ctx;
    return WALL_2026_MS + m->wall_ms + m->sim->world.now_us / 1000;
}

/* The true time at which the machine's clock reaches this number of ms. */
static int64_t true_us(const struct machine *m, int64_t at_ms)
{
    int64_t local_us = at_ms * 1000 - m->clock_us;
    return local_us - local_us * m->drift_ppm / (1000000 + m->drift_ppm) + 2;
}

bool machine_is_paused(const struct machine *m)
{
    return m->paused_until_us > m->sim->world.now_us;
}

bool machine_listens(const struct machine *m)
{
    return m->stage == MACHINE_SERVING;
}

struct machine *machine_of_loop(uv_loop_t *loop)
{
    return (struct machine *)(void *)loop;
}

/* The node's callbacks */

static void on_serve(void *ctx)
{
    struct machine *m = ctx;
    if (m->stage != MACHINE_STARTING) {
        return;
    }
    if (service_begin(&m->inside->service) != 0) {
        abort();
    }
    m->stage = MACHINE_SERVING;
    world_trace(&m->sim->world, "server %u lets clients in", m->id);
}

static void on_failed(void *ctx, int error, const char *text)
{
    struct machine *m = ctx;
    m->failed = true;
    world_trace(&m->sim->world, "server %u cannot go on: %s: %s", m->id, conclave_errname(error),
                text);
}

/* Waking up */

struct wake {
    struct event event;
    struct machine *machine;
    unsigned incarnation;
};

static void plan(struct machine *m);

static void stop_on(struct machine *m)
{
    bool late = clock_monotonic_ms(&m->clock) >= m->stop_at;
    if (m->stage == MACHINE_RESIGNING && (late || !replica_leads_others(m->inside->node))) {
        m->stage = MACHINE_DRAINING;
        m->stop_at = clock_monotonic_ms(&m->clock) + DRAIN_MS;
    } else if (m->stage == MACHINE_DRAINING && (late || m->inside->service.pipeline.error != 0 ||
                                                list_empty(&m->inside->service.pipeline.flight))) {
        m->stage = MACHINE_CLOSING;
        m->stop_at = INT64_MAX;
    }
}

static void wake_up(struct event *e, bool dropped)
{
    struct wake *a = (struct wake *)(void *)e;
    struct machine *m = a->machine;
    if (!dropped && m->on && m->incarnation == a->incarnation && m->wake_us == e->at_us) {
        if (machine_is_paused(m)) {
            m->wake_us = m->paused_until_us;
            world_after(&m->sim->world, m->paused_until_us - m->sim->world.now_us, e);
            return;
        }
        m->wake_us = INT64_MAX;
        machine_enter(m);
        loop_tick(m);
        replica_tick(m->inside->node);
        if (m->stage == MACHINE_SERVING) {
            service_tick(&m->inside->service);
        }
        stop_on(m);
        machine_leave(m);
    }
    free(a);
}

static void plan(struct machine *m)
{
    struct world *w = &m->sim->world;
    int64_t at_ms = loop_deadline(m);
    int64_t node_ms = replica_deadline(m->inside->node);
    at_ms = node_ms < at_ms ? node_ms : at_ms;
    at_ms = m->stop_at < at_ms ? m->stop_at : at_ms;
    if (m->stage == MACHINE_SERVING) {
        int64_t service_ms = service_deadline(&m->inside->service);
        at_ms = service_ms < at_ms ? service_ms : at_ms;
    }
    int64_t at_us = at_ms == INT64_MAX ? w->now_us + SECOND : true_us(m, at_ms);
    at_us = at_us < w->now_us + AGAIN_US ? w->now_us + AGAIN_US : at_us;
    if (m->wake_us <= at_us && m->wake_us > w->now_us) {
        return; /* earlier than needed does no harm */
    }
    struct wake *a = must_calloc(sizeof *a);
    a->event.fn = wake_up;
    a->machine = m;
    a->incarnation = m->incarnation;
    m->wake_us = at_us;
    world_after(w, at_us - w->now_us, &a->event);
}

/* Turns */

void machine_enter(struct machine *m)
{
    assert(m->sim->current == NULL);
    m->sim->current = m;
}

static void turn(struct machine *m)
{
    do {
        if (m->stage == MACHINE_SERVING) {
            service_turn(&m->inside->service);
        } else if (m->stage == MACHINE_RESIGNING || m->stage == MACHINE_DRAINING) {
            pipeline_turn(&m->inside->service.pipeline, true);
        }
        replica_turn(m->inside->node);
        doors_turn(m);
    } while (m->stage == MACHINE_SERVING && service_has_work(&m->inside->service));
    if (m->stage == MACHINE_RESIGNING || m->stage == MACHINE_DRAINING) {
        stop_on(m);
    }
}

void machine_leave(struct machine *m)
{
    assert(m->sim->current == m);
    turn(m);
    bool over = m->failed || m->stage == MACHINE_CLOSING;
    if (!over) {
        plan(m);
    }
    m->sim->current = NULL;
    if (over) {
        machine_end(m, MACHINE_KILLED);
    }
}

void machine_pause(struct machine *m, int64_t us)
{
    int64_t until_us = m->sim->world.now_us + us;
    m->paused_until_us = until_us > m->paused_until_us ? until_us : m->paused_until_us;
    world_trace(&m->sim->world, "server %u stands still for %lld ms", m->id, (long long)us / MS);
}

/* Start and end */

static void make_options(struct machine *m)
{
    struct sim *s = m->sim;
    struct server_options *o = &m->inside->options;
    *o = server_options_default();
    o->data_dir = "data";
    o->server_id = m->id;
    o->clock = &m->clock;
    o->segment_bytes = 32 << 10;
    o->snapshot_writes = 120;
    o->snapshots_kept = 2;
    o->limits.tick_ms = (int32_t)s->tick_ms;
    o->limits.session_min_ms = 2 * (int32_t)s->tick_ms;
    o->limits.session_max_ms = 20 * (int32_t)s->tick_ms;
    o->limits.address_max = 0;
    o->skip_acl = true; /* anybody may reconfigure */
    o->command_options = COMMAND_RECONFIG | (s->n_machines > 1 ? COMMAND_ENSEMBLE : 0);
    o->ensemble.enabled = s->n_machines > 1;
    o->ensemble.members = m->inside->lines;
    o->ensemble.n_members = s->n_machines;
    o->ensemble.me = m->id - 1;
    o->ensemble.election_ms = 400;
    o->ensemble.heartbeat_ms = 80;
    o->ensemble.linearizable_reads = s->linearizable;
}

void machine_line(unsigned id, bool votes, char *text, size_t size)
{
    snprintf(text, size, "server.%u=127.0.0.%u:2888:3888:%s;127.0.0.%u:2181", id, id,
             votes ? "participant" : "observer", id);
}

void machine_init(struct machine *m, struct sim *s, unsigned id)
{
    struct world *w = &s->world;
    const char *why = NULL;
    m->sim = s;
    m->id = id;
    m->inside = must_calloc(sizeof *m->inside);
    m->disk = disk_create(prng_next(&w->prng));
    m->disk_us = world_between(w, 1, 20) * MS / 4;
    m->clock = (struct clock_source){monotonic_ns, wall_ms, m};
    m->clock_us = world_between(w, 1, 1000) * SECOND;
    m->drift_ppm = world_between(w, -500, 500);
    m->wall_ms = world_between(w, -400, 400);
    m->wake_us = INT64_MAX;
    m->stop_at = INT64_MAX;
    list_init(&m->doors);
    for (size_t i = 0; i < s->n_machines; i++) {
        char text[96];
        machine_line((unsigned)i + 1, true, text, sizeof text);
        if (server_line_parse(strchr(text, '=') + 1, &m->inside->lines[i], &why) != 0) {
            abort();
        }
        m->inside->lines[i].id = i + 1;
    }
}

void machine_finish(struct machine *m)
{
    if (m->on) {
        machine_end(m, MACHINE_KILLED);
    }
    for (size_t i = 0; i < m->sim->n_machines; i++) {
        server_line_finish(&m->inside->lines[i]);
    }
    free(m->inside);
    disk_destroy(m->disk);
}

void machine_start(struct machine *m)
{
    struct service_options options = {
        .server_id = m->id,
        .clock = &m->clock,
        .read_only_mode = m->sim->read_only,
        .local_sessions = m->sim->local,
        .local_upgrading = m->sim->upgrading,
    };
    struct replica_callbacks callbacks = {m, on_serve, on_failed};
    char *text = NULL;
    assert(!m->on);
    world_trace(&m->sim->world, "server %u starts", m->id);
    disk_set_lying(m->disk, m->sim->options.plant == PLANT_SKIP_FSYNC);
    m->on = true;
    m->incarnation++;
    m->stage = MACHINE_STARTING;
    m->failed = false;
    m->node_closed = false;
    m->stop_at = m->wake_us = INT64_MAX;
    m->paused_until_us = 0;
    machine_enter(m);
    make_options(m);
    m->inside->node = replica_create((uv_loop_t *)(void *)m, &m->inside->options,
                                     &m->inside->service, &callbacks);
    options.limits = m->inside->options.limits;
    options.skip_acl = m->inside->options.skip_acl;
    options.command_options = m->inside->options.command_options;
    options.collector = m->inside->options.collector;
    options.sink = replica_sink(m->inside->node);
    if (service_init(&m->inside->service, &options) != 0) {
        abort();
    }
    int rc = replica_open(m->inside->node, &text);
    if (rc != 0) {
        const char *why = text != NULL ? text : "";
        world_trace(&m->sim->world, "server %u does not start: %s", m->id, why);
        if (!m->excused || (rc != CONCLAVE_EIO && rc != CONCLAVE_ENOSPACE)) {
            world_violation(&m->sim->world, "server %u does not start: %s: %s", m->id,
                            conclave_errname(rc), why);
        }
        free(text);
        m->sim->current = NULL;
        machine_end(m, MACHINE_KILLED);
        return;
    }
    machine_leave(m);
}

static void on_node_closed(void *ctx)
{
    struct machine *m = ctx;
    m->node_closed = true;
    m->inside->node = NULL;
}

/* The process dies in the middle of what its disk is doing; then its memory is given back, unheard. */
void machine_end(struct machine *m, enum machine_ending how)
{
    struct world *w = &m->sim->world;
    bool seen = how == MACHINE_KILLED;
    assert(m->on && m->sim->current == NULL);
    world_trace(w, "server %u %s", m->id,
                m->stage == MACHINE_CLOSING ? "stops"
                : m->failed                 ? "ends"
                : seen                      ? "is killed"
                                            : "loses power");
    m->sim->current = m;
    if (world_chance(w, 300)) {
        disk_stop(m->disk, 1 + world_below(w, 4));
        m->on = false; /* nobody hears it any more */
        loop_do_job(m);
    }
    m->on = false;
    disk_stop(m->disk, 0);
    doors_end(m, seen);
    links_ended(m->sim, m->id, seen);
    replica_close(m->inside->node, on_node_closed, m);
    for (int i = 0; !m->node_closed || m->loop != NULL; i++) {
        assert(i < PUMP_MAX); /* it does not come to its end */
        if (!loop_do_job(m)) {
            loop_tick(m);
        }
    }
    service_finish(&m->inside->service);
    m->sim->current = NULL;
    disk_restart(m->disk, how == MACHINE_POWER_CUT);
    if (how == MACHINE_POWER_CUT) {
        m->clock_us = world_between(w, 1, 100) * SECOND - w->now_us; /* counts from the boot */
    }
}

void machine_stop(struct machine *m)
{
    if (!m->on || m->stage != MACHINE_SERVING || machine_is_paused(m)) {
        return;
    }
    world_trace(&m->sim->world, "server %u is asked to stop", m->id);
    machine_enter(m);
    if (replica_resign(m->inside->node)) {
        m->stage = MACHINE_RESIGNING;
        m->stop_at = clock_monotonic_ms(&m->clock) + RESIGN_MS;
    } else {
        m->stage = MACHINE_DRAINING;
        m->stop_at = clock_monotonic_ms(&m->clock) + DRAIN_MS;
    }
    machine_leave(m);
}
