#include "sim/deeds.h"
#include "sim/inside.h"
#include "sim/nemesis.h"
#include "sim/sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READY_US = 20 * SECOND,   /* until the first service */
    MENDED_US = 8 * SECOND,   /* the longest that anything goes on after the faults */
    SERVICE_US = 15 * SECOND, /* then every server must answer a write */
    MEMBERS_US = 20 * SECOND, /* until all are members that vote again */
    QUIET_US = 10 * SECOND,   /* until all have applied the same */
    FAULTS_S = 12,
};

static struct sim *running;

struct sim *sim_now(void)
{
    return running;
}

/* Until the time, or a violation. */
static void run_for(struct sim *s, int64_t us)
{
    int64_t end_us = s->world.now_us + us;
    while (!world_violated(&s->world) && world_step(&s->world, end_us)) {}
}

static bool run_until(struct sim *s, int64_t us, bool (*done)(struct sim *s))
{
    int64_t end_us = s->world.now_us + us;
    while (!done(s) && s->world.now_us < end_us && !world_violated(&s->world)) {
        run_for(s, 20 * MS);
    }
    return done(s);
}

/* The parents of all other nodes */

static bool is_set_up(struct sim *s)
{
    size_t made = 0;
    for (size_t i = 0; i < s->checks.n_deeds; i++) {
        const struct deed *d = s->checks.deeds[i];
        made += d->kind == DEED_SETUP && d->answered_us != 0 &&
                (d->error == 0 || d->error == CONCLAVE_NODE_EXISTS);
    }
    if (s->clients[0]->open == 0 && client_is_up(s->clients[0]) && made < 8) {
        client_do(s->clients[0], DEED_SETUP);
    }
    return made >= 8;
}

/* Service */

static bool all_probed(struct sim *s)
{
    for (size_t i = 0; i < s->n_clients; i++) {
        struct client *c = s->clients[i];
        bool done = false;
        for (size_t k = s->checks.n_deeds; k > 0 && c->only != 0; k--) {
            const struct deed *d = s->checks.deeds[k - 1];
            done = done || (d->client == c && d->kind == DEED_PROBE && d->answered_us != 0 &&
                            d->error == 0);
        }
        if (c->only != 0 && !done) {
            if (c->open == 0 && client_is_up(c)) {
                client_do(c, DEED_PROBE);
            }
            return false;
        }
    }
    return true;
}

static bool all_answered(struct sim *s)
{
    for (size_t i = 0; i < s->n_clients; i++) {
        const struct client *c = s->clients[i];
        if (!c->gone && (c->open > 0 || !client_is_up(c) || client_may_only_read(c))) {
            return false;
        }
    }
    return true;
}

/* All have applied the same. */
static bool all_level(struct sim *s)
{
    uint64_t first = 0;
    for (unsigned id = 1; id <= s->n_machines; id++) {
        struct replication_stats stats = {0};
        struct machine *m = &s->machines[id];
        if (!m->on || replica_log(m->inside->node) == NULL) {
            return false;
        }
        replication_stats(replica_log(m->inside->node), &stats);
        first = id == 1 ? stats.applied_index : first;
        if (stats.applied_index != first || stats.last_index != first) {
            return false;
        }
    }
    return true;
}

/* Whether a server knows another, or itself, as a member that votes. */
static bool knows_voter(const struct machine *m, unsigned id)
{
    struct replication_member_stats members[MEMBERS_MAX];
    struct replication *log = m->on ? replica_log(m->inside->node) : NULL;
    size_t n = log != NULL ? replication_members(log, members, MEMBERS_MAX) : 0;
    while (n > 0) {
        n--;
        if (members[n].id == id && members[n].role == MEMBER_VOTER) {
            return true;
        }
    }
    return false;
}

/* The one whose log goes furthest: who was removed may not have heard of it. */
static const struct machine *furthest(struct sim *s)
{
    const struct machine *ret = NULL;
    uint64_t most = 0;
    for (unsigned id = 1; id <= s->n_machines; id++) {
        struct replication_stats stats = {0};
        struct machine *m = &s->machines[id];
        if (m->on && replica_log(m->inside->node) != NULL) {
            replication_stats(replica_log(m->inside->node), &stats);
        }
        if (stats.applied_index > most) {
            most = stats.applied_index;
            ret = m;
        }
    }
    return ret;
}

/* Whether a client still waits for a reconfig, which may remove a server. */
static bool any_reconfigures(const struct sim *s)
{
    for (size_t i = 0; i < s->checks.n_deeds; i++) {
        const struct deed *d = s->checks.deeds[i];
        if (d->kind == DEED_RECONFIG && d->answered_us == 0 && !d->client->gone) {
            return true;
        }
    }
    return false;
}

/* Those who went are asked for, as an operator would. */
static bool all_vote(struct sim *s)
{
    struct client *c = NULL;
    struct state_reconfig asked;
    const struct machine *m = furthest(s);
    bool all =
        m != NULL && !state_reconfig(m->inside->service.state, &asked) && !any_reconfigures(s);
    for (size_t i = 0; i < s->n_clients; i++) {
        if (client_is_up(s->clients[i]) && s->clients[i]->open == 0) {
            c = s->clients[i];
        }
    }
    for (unsigned id = 1; m != NULL && id <= s->n_machines; id++) {
        if (!knows_voter(m, id) && c != NULL) {
            client_join(c, id);
            c = NULL;
        }
        for (unsigned other = 1; other <= s->n_machines; other++) {
            all = all && knows_voter(&s->machines[other], id);
        }
    }
    return all;
}

static void add_client(struct sim *s, unsigned only)
{
    struct client *c = client_create(s, (unsigned)s->n_clients);
    c->only = only;
    s->clients[s->n_clients++] = c;
}

static void finish_well(struct sim *s)
{
    size_t busy = s->n_clients;
    nemesis_end(s);
    run_for(s, MENDED_US);
    for (size_t i = 0; i < busy; i++) {
        s->clients[i]->silent = true;
        client_return(s->clients[i]);
    }
    if (s->n_machines > 1 && !run_until(s, MEMBERS_US, all_vote)) {
        world_violation(&s->world, "not all servers are members that vote %d s after the faults",
                        (int)((MENDED_US + MEMBERS_US) / SECOND));
    }
    for (unsigned id = 1; id <= s->n_machines; id++) {
        add_client(s, id);
    }
    if (!run_until(s, SERVICE_US, all_probed)) {
        world_violation(&s->world, "not every server has answered a write %d s after the faults",
                        (int)((MENDED_US + SERVICE_US) / SECOND));
    }
    if (!run_until(s, SERVICE_US, all_answered)) {
        world_violation(&s->world, "not every client has a session and its answers");
    }
    run_for(s, 12 * s->tick_ms * MS); /* sessions that are over end */
    if (!run_until(s, QUIET_US, all_level)) {
        world_violation(&s->world, "the servers do not come to the same index");
    }
    if (!world_violated(&s->world)) {
        checks_end(s);
    }
}

static void begin(struct sim *s)
{
    struct world *w = &s->world;
    static const unsigned sizes[] = {1, 3, 3, 3, 3, 5};
    s->n_machines = s->options.members != 0 ? s->options.members : sizes[world_below(w, 6)];
    s->tick_ms = world_between(w, 4, 10) * 100;
    s->linearizable = world_chance(w, 200);
    s->reconfigures = world_chance(w, 400);
    s->read_only = s->n_machines > 1 && world_chance(w, 300);
    s->local = s->n_machines > 1 && world_chance(w, 300);
    s->upgrading = s->local && world_chance(w, 700);
    s->links.delay_us = world_between(w, 1, 20) * MS / 2;
    s->links.silence_us = 800 * MS;
    list_init(&s->cables);
    world_trace(w, "seed %" PRIu64 ": %zu servers, tick %d ms%s%s%s%s", s->options.seed,
                s->n_machines, (int)s->tick_ms, s->linearizable ? ", linearizable reads" : "",
                s->read_only ? ", read-only mode" : "", s->local ? ", local sessions" : "",
                s->upgrading ? " that are upgraded" : "");
    for (unsigned id = 1; id <= s->n_machines; id++) {
        machine_init(&s->machines[id], s, id);
    }
    links_begin(s);
    for (int i = 0; i < BUSY_CLIENTS; i++) {
        add_client(s, 0);
    }
    for (int i = 0; i < SITTERS; i++) {
        s->clients[s->n_clients] = client_create_sitter(s, (unsigned)s->n_clients);
        s->n_clients++;
    }
    nemesis_begin(s); /* starts the servers */
}

static void end(struct sim *s)
{
    for (size_t i = 0; i < s->n_clients; i++) {
        client_destroy(s->clients[i]);
    }
    for (unsigned id = 1; id <= s->n_machines; id++) {
        machine_finish(&s->machines[id]);
    }
    world_finish(&s->world);
    struct list *node;
    while ((node = list_pop_front(&s->cables)) != NULL) {
        free(CONTAINER_OF(node, struct cable, node));
    }
    checks_finish(&s->checks);
}

void sim_run(const struct sim_options *options, struct sim_result *ret)
{
    static struct sim s;
    memset(&s, 0, sizeof s);
    running = &s;
    s.options = *options;
    world_init(&s.world, options->seed, options->verbose);
    checks_init(&s.checks);
    begin(&s);
    if (!run_until(&s, READY_US, is_set_up)) {
        world_violation(&s.world, "there is no service %d s after the start",
                        (int)(READY_US / SECOND));
    }
    for (size_t i = 0; i < s.n_clients; i++) {
        client_begin(s.clients[i]);
    }
    if (!world_violated(&s.world)) {
        s.faults = true;
        run_for(&s, (options->seconds != 0 ? options->seconds : FAULTS_S) * SECOND);
    }
    if (!world_violated(&s.world)) {
        finish_well(&s);
    }
    *ret = (struct sim_result){
        .trace = s.world.trace,
        .events = s.world.happened,
        .acknowledged = s.checks.acknowledged,
        .reads = s.checks.reads,
        .end_us = s.world.now_us,
    };
    memcpy(ret->violation, s.world.violation, sizeof ret->violation);
    end(&s);
    running = NULL;
}
