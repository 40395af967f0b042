#include "sim/nemesis.h"

#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

enum ill {
    ILL_KILL,
    ILL_POWER_CUT,
    ILL_POWER_CUT_ALL,
    ILL_WIPE,
    ILL_STOP,
    ILL_PAUSE,
    ILL_ISOLATE,
    ILL_ONE_WAY,
    ILL_CUT_PAIR,
    ILL_HEAL,
    ILL_CUT_CLIENT,
    ILL_BREAK_CABLES,
    ILL_SLOW_DISK,
    ILL_FAIL_DISK,
    ILL_FULL_DISK,
    ILL_LOSS,
    ILL_WALL_CLOCK,
    ILL_CLIENT_DIES,
    ILL_CLIENT_LEAVES,
    ILL_CLIENT_STALLS,
    ILLS,
};

/* Weights beside each other. */
static const unsigned weights[ILLS] = {
    [ILL_KILL] = 14,         [ILL_POWER_CUT] = 12,     [ILL_POWER_CUT_ALL] = 2,
    [ILL_STOP] = 8,          [ILL_WIPE] = 2,           [ILL_PAUSE] = 10,
    [ILL_ISOLATE] = 10,      [ILL_ONE_WAY] = 8,        [ILL_CUT_PAIR] = 8,
    [ILL_HEAL] = 20,         [ILL_CUT_CLIENT] = 8,     [ILL_SLOW_DISK] = 5,
    [ILL_BREAK_CABLES] = 5,  [ILL_FAIL_DISK] = 4,      [ILL_FULL_DISK] = 2,
    [ILL_LOSS] = 5,          [ILL_WALL_CLOCK] = 3,     [ILL_CLIENT_DIES] = 1,
    [ILL_CLIENT_LEAVES] = 6, [ILL_CLIENT_STALLS] = 12,
};

struct nemesis {
    struct event event;
    struct sim *sim;
    int64_t next_us; /* next ill */
    bool wiped;
    int64_t restart_us[MACHINES_MAX + 1]; /* of a machine that is off; 0: not decided */
    int64_t well_us[MACHINES_MAX + 1];    /* its disk is well again */
};

static enum ill choose(struct world *w)
{
    unsigned sum = 0;
    for (int i = 0; i < ILLS; i++) {
        sum += weights[i];
    }
    unsigned at = (unsigned)world_below(w, sum);
    int i = 0;
    while (at >= weights[i]) {
        at -= weights[i++];
    }
    return (enum ill)i;
}

static void cut_off(struct sim *s, unsigned id, bool in, bool out)
{
    for (unsigned other = 1; other <= s->n_machines; other++) {
        s->links.cut[other][id] = s->links.cut[other][id] || (in && other != id);
        s->links.cut[id][other] = s->links.cut[id][other] || (out && other != id);
    }
    world_trace(&s->world, "server %u is cut off%s%s", id, in ? " in" : "", out ? " out" : "");
}

static void heal(struct sim *s)
{
    memset(s->links.cut, 0, sizeof s->links.cut);
    memset(s->cut, 0, sizeof s->cut);
    s->links.loss = s->links.twice = s->breaks = 0;
    world_trace(&s->world, "the network is whole");
}

static void do_disk(struct nemesis *n, struct machine *m, enum ill ill)
{
    struct world *w = &n->sim->world;
    n->well_us[m->id] = w->now_us + world_between(w, 200, 3000) * MS;
    m->excused = true;
    if (ill == ILL_SLOW_DISK) {
        m->disk_us = world_between(w, 50, 500) * MS;
    } else if (ill == ILL_FULL_DISK) {
        disk_set_full(m->disk, true);
    } else {
        disk_fail(m->disk, 1 + world_below(w, 20));
    }
    world_trace(w, "server %u's disk is %s", m->id,
                ill == ILL_SLOW_DISK   ? "slow"
                : ill == ILL_FULL_DISK ? "full"
                                       : "about to fail");
}

static void end_all(struct sim *s)
{
    for (unsigned id = 1; id <= s->n_machines; id++) {
        if (s->machines[id].on) {
            machine_end(&s->machines[id], MACHINE_POWER_CUT);
        }
    }
}

/* One of several servers loses its folder: once in a run, as a majority of the others must have theirs. */
static void wipe(struct nemesis *n, struct machine *m)
{
    if (n->sim->n_machines < 3 || n->wiped || n->sim->reconfigures) {
        return;
    }
    n->wiped = true;
    if (m->on) {
        machine_end(m, MACHINE_KILLED);
    }
    disk_wipe(m->disk);
    world_trace(&n->sim->world, "server %u's folder is gone", m->id);
}

static void do_network(struct sim *s, struct machine *m, enum ill ill)
{
    struct world *w = &s->world;
    unsigned other = (unsigned)world_between(w, 1, (int64_t)s->n_machines);
    unsigned client = (unsigned)world_below(w, s->n_clients);
    switch (ill) {
    case ILL_ISOLATE:
        cut_off(s, m->id, true, true);
        break;
    case ILL_ONE_WAY:
        cut_off(s, m->id, other % 2 == 0, other % 2 != 0);
        break;
    case ILL_CUT_PAIR:
        s->links.cut[m->id][other] = true;
        s->links.cut[other][m->id] = world_chance(w, 700);
        world_trace(w, "servers %u and %u are cut", m->id, other);
        break;
    case ILL_CUT_CLIENT:
        s->cut[client][m->id] = true;
        world_trace(w, "client %u and server %u are cut", client, m->id);
        break;
    case ILL_BREAK_CABLES:
        s->breaks = 1 + (unsigned)world_below(w, 40);
        world_trace(w, "cables break: %u of 1,000 arrivals", s->breaks);
        break;
    case ILL_LOSS:
        s->links.loss = (unsigned)world_below(w, 100);
        s->links.twice = (unsigned)world_below(w, 50);
        world_trace(w, "frames: %u lost and %u twice of 1,000", s->links.loss, s->links.twice);
        break;
    default:
        heal(s);
        break;
    }
}

/* For about as long as its session may last. */
static void do_client(struct sim *s, struct client *c, enum ill ill)
{
    int64_t us = world_between(&s->world, c->timeout_ms / 2, 2 * c->timeout_ms) * MS;
    if (c->gone) {
        return;
    }
    if (ill == ILL_CLIENT_STALLS) {
        client_stall(c, us);
        us = 2 * c->timeout_ms * MS;
    }
    client_leave(c, us);
}

static void do_ill(struct nemesis *n)
{
    struct sim *s = n->sim;
    struct world *w = &s->world;
    struct machine *m = &s->machines[world_between(w, 1, (int64_t)s->n_machines)];
    /* This plant shows in few runs otherwise: only when a client is heard again just as its session ends. */
    enum ill ill = planted(PLANT_OVERDUE) && world_chance(w, 700) ? ILL_CLIENT_STALLS : choose(w);
    switch (ill) {
    case ILL_KILL:
    case ILL_POWER_CUT:
        if (m->on) {
            machine_end(m, ill == ILL_KILL ? MACHINE_KILLED : MACHINE_POWER_CUT);
        }
        break;
    case ILL_POWER_CUT_ALL:
        end_all(s);
        break;
    case ILL_WIPE:
        wipe(n, m);
        break;
    case ILL_STOP:
        machine_stop(m);
        break;
    case ILL_PAUSE:
        if (m->on) {
            machine_pause(m, world_between(w, 50, 4000) * MS);
        }
        break;
    case ILL_SLOW_DISK:
    case ILL_FAIL_DISK:
    case ILL_FULL_DISK:
        do_disk(n, m, ill);
        break;
    case ILL_WALL_CLOCK:
        m->wall_ms += world_between(w, -5000, 5000);
        world_trace(w, "server %u's wall clock jumps", m->id);
        break;
    case ILL_CLIENT_DIES:
        if (!s->clients[BUSY_CLIENTS - 1]->gone) {
            client_die(s->clients[BUSY_CLIENTS - 1]);
        }
        break;
    case ILL_CLIENT_LEAVES:
    case ILL_CLIENT_STALLS:
        do_client(s, s->clients[world_below(w, s->n_clients)], ill);
        break;
    default:
        do_network(s, m, ill);
        break;
    }
}

static void make_well(struct nemesis *n, struct machine *m)
{
    disk_set_full(m->disk, false);
    disk_fail(m->disk, 0);
    m->disk_us = world_between(&n->sim->world, 1, 20) * MS / 4;
    n->well_us[m->id] = 0;
}

/* Whoever is off is started again after a while. */
static void look_after(struct nemesis *n, struct machine *m)
{
    struct world *w = &n->sim->world;
    int64_t now = w->now_us;
    if (n->well_us[m->id] != 0 && (now >= n->well_us[m->id] || !n->sim->faults)) {
        make_well(n, m);
    }
    if (m->on) {
        n->restart_us[m->id] = 0;
    } else if (n->restart_us[m->id] == 0) {
        n->restart_us[m->id] = now + world_between(w, 20, 3000) * MS;
    } else if (now >= n->restart_us[m->id] || !n->sim->faults) {
        n->restart_us[m->id] = 0;
        machine_start(m);
    }
}

static void look(struct event *e, bool dropped)
{
    struct nemesis *n = (struct nemesis *)(void *)e;
    struct sim *s = n->sim;
    struct world *w = &s->world;
    if (dropped) {
        free(n);
        return;
    }
    if (s->faults && w->now_us >= n->next_us) {
        n->next_us = w->now_us + world_between(w, 50, 1200) * MS;
        do_ill(n);
    }
    for (unsigned id = 1; id <= s->n_machines; id++) {
        look_after(n, &s->machines[id]);
    }
    world_after(w, 20 * MS, e);
}

void nemesis_begin(struct sim *s)
{
    struct nemesis *n = must_calloc(sizeof *n);
    n->event.fn = look;
    n->sim = s;
    world_after(&s->world, 0, &n->event);
}

void nemesis_end(struct sim *s)
{
    s->faults = false;
    heal(s);
    for (unsigned id = 1; id <= s->n_machines; id++) {
        if (machine_is_paused(&s->machines[id])) {
            /* It wakes at the time that its events know. */
            int64_t left_us = s->machines[id].paused_until_us - s->world.now_us;
            world_trace(&s->world, "server %u sleeps on for %lld ms", id, (long long)left_us / MS);
        }
    }
}
