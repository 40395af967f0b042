/*
 * Fail-over under chance: servers crash, stand still, come back with and without their data, links are cut, managers are
 * lost at any moment and their last command comes late. One seed is one run; CONCLAVE_SEED=n says which is the
 * first, CONCLAVE_COUNT=n how many, CONCLAVE_TRACE=1 tells every step.
 *
 * Checked at each write of `current`: one master for an epoch; epochs grow; the old master's process takes no more
 * writes when another one is named. At each command: nobody is pointed to a server that has been empty for a while.
 * At the end, when all faults are over: one master, all follow it with all its data.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_manager.inc"

#define FAULTS_MS 90000
#define HEAL_MS 90000

static uint64_t seed_now;

#define CHECK(c, what, text)                                                                       \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fail_msg("seed %" PRIu64 " at %" PRId64 " ms: %s", seed_now, (c)->world.now, text);    \
        }                                                                                          \
    } while (0)

static void check_current(struct cluster *c, const struct redis_current *before)
{
    if (c->current_version == 0) {
        return;
    }
    CHECK(c, c->current.epoch >= before->epoch, "the epoch fell");
    CHECK(c, c->current.master[0] != '\0' || before->master[0] == '\0', "the master was taken out");
    if (c->current.epoch == before->epoch) {
        CHECK(c, strcmp(c->current.master, before->master) == 0, "two masters for one epoch");
        return;
    }
    int old = redis_config_find(&c->config, before->master);
    bool forced = c->plan_there && c->plan.force;
    CHECK(c, c->current.epoch == before->epoch + 1, "an epoch was left out");
    CHECK(c,
          old == REDIS_NONE || strcmp(c->current.master, before->master) == 0 || forced ||
              c->world.servers[old].run != c->old_run || !server_writes(&c->world, old),
          "the old master takes writes when another one is published");
}

static void check_command(struct cluster *c, int server, const struct redis_command *command)
{
    if (strcmp(command->argv[0], "REPLICAOF") != 0 || strcmp(command->argv[1], "NO") == 0 ||
        c->leader != c->acting) {
        return;
    }
    int master = server_of(&c->world, command->argv[1], command->argv[2]);
    const struct server *from = &c->world.servers[master];
    CHECK(c,
          c->world.servers[server].offset == 0 || from->offset > 0 ||
              c->world.now - from->started_ms < 3500 || (c->plan_there && c->plan.force) ||
              c->current.state == REDIS_STATE_DEGRADED || c->current.state == REDIS_STATE_OK,
          "a server with data was pointed to an empty one");
}

static void fault_server(struct cluster *c)
{
    struct world *w = &c->world;
    int i = (int)chance(w, (uint32_t)w->count);
    struct server *s = &w->servers[i];
    if (!s->running) {
        uint32_t kind = chance(w, 10);
        int64_t keep = kind == 0 ? 0 : kind == 1 ? s->offset / 2 : s->offset;
        bool ids = chance(w, 2) == 0;
        say(w, "server %d starts with %" PRId64 " of %" PRId64 "%s", i, keep, s->offset,
            ids ? " and its ids" : "");
        start(w, i, keep, ids);
    } else if (s->hung) {
        say(w, "server %d goes on", i);
        resume(w, i);
    } else if (chance(w, 2) == 0) {
        say(w, "server %d crashes", i);
        crash(w, i);
    } else {
        say(w, "server %d stands still", i);
        s->hung = true;
    }
}

static void fault_manager(struct cluster *c)
{
    struct world *w = &c->world;
    int i = (int)chance(w, MANAGERS);
    struct manager *m = &c->managers[i];
    if (!m->running) {
        manager_start(c, i);
    } else if (m->hung) {
        m->hung = false;
    } else if (chance(w, 2) == 0) {
        m->hung = true;
    } else {
        m->running = false;
    }
    if (c->leader == i && (!m->running || m->hung)) {
        lose_leader(c);
    }
}

static void ask(struct cluster *c, int target, bool force)
{
    static int number;
    memset(&c->request, 0, sizeof c->request);
    c->request.kind = REDIS_REQUEST_FAILOVER;
    snprintf(c->request.name, sizeof c->request.name, "req-%d", ++number);
    if (target >= 0) {
        snprintf(c->request.target, sizeof c->request.target, "127.0.0.1:%d", 7000 + target);
    }
    c->request.force = force;
    c->request.timeout_ms = 2000;
    c->request.expires_ms = c->world.now + 1000000 + 20000;
    c->request_there = true;
}

static void fault(struct cluster *c)
{
    struct world *w = &c->world;
    uint32_t count = (uint32_t)w->count;
    switch (chance(w, 8)) {
    case 0:
    case 1:
    case 2:
        fault_server(c);
        break;
    case 3: {
        int a = (int)chance(w, count);
        int b = (int)chance(w, count);
        w->cut[a][b] = w->cut[b][a] = !w->cut[a][b];
        say(w, "servers %d and %d: %s", a, b, w->cut[a][b] ? "cut" : "healed");
        break;
    }
    case 4: {
        int a = (int)chance(w, MANAGERS);
        int b = (int)chance(w, count);
        c->world.cut_manager[a][b] = !c->world.cut_manager[a][b];
        say(w, "manager %d and server %d: %s", a, b, w->cut_manager[a][b] ? "cut" : "healed");
        break;
    }
    case 5:
        fault_manager(c);
        break;
    case 6:
        lose_leader(c);
        break;
    default:
        if (!c->request_there && chance(w, 2) == 0) {
            ask(c, (int)chance(w, count + 1) - 1, false);
        }
        break;
    }
}

static void heal(struct cluster *c)
{
    struct world *w = &c->world;
    say(w, "all faults end");
    memset(w->cut, 0, sizeof w->cut);
    memset(w->cut_manager, 0, sizeof w->cut_manager);
    for (int i = 0; i < w->count; i++) {
        struct server *s = &w->servers[i];
        if (!s->running) {
            start(w, i, s->offset, true);
        } else if (s->hung) {
            resume(w, i);
        }
    }
    for (int i = 0; i < MANAGERS; i++) {
        if (!c->managers[i].running) {
            manager_start(c, i);
        }
        c->managers[i].hung = false;
    }
}

/* Servers fenced by a method are started again. */
static bool run_healed(struct cluster *c)
{
    for (int64_t end_ms = c->world.now + HEAL_MS; c->world.now < end_ms;) {
        if (run_until_converged(c, 3000)) {
            return true;
        }
        for (int i = 0; i < c->world.count; i++) {
            struct server *s = &c->world.servers[i];
            if (!s->running) {
                start(&c->world, i, s->offset, true);
            }
        }
    }
    return converged(c);
}

/* Where the data are gone, or nobody can say who has them, an operator decides. */
static bool operator_decides(struct cluster *c)
{
    int best = 0;
    if (c->current.state != REDIS_STATE_NO_CANDIDATE &&
        c->current.state != REDIS_STATE_NEEDS_OPERATOR) {
        return false;
    }
    for (int i = 1; i < c->world.count; i++) {
        best = c->world.servers[i].offset > c->world.servers[best].offset ? i : best;
    }
    say(&c->world, "an operator decides for %d", best);
    ask(c, best, true);
    return run_healed(c);
}

static void one_run(uint64_t seed, int *decided, int *publications)
{
    seed_now = seed;
    struct cluster *c = cluster_create(2 + (int)(seed % 4), seed);
    struct world *w = &c->world;
    w->trace = getenv("CONCLAVE_TRACE") != NULL;
    c->on_current = check_current;
    c->on_command = check_command;
    c->methods = (int)chance(w, 3);
    c->config.fence_methods = c->methods != 0;
    c->config.min_replicas = (int)chance(w, 2);
    c->config.min_replicas_lag_s = 3;
    c->config.parallel_syncs = 1 + (int)chance(w, 2);
    c->config.cooldown_ms = 5000;
    w->sync_time_ms = 500 + chance(w, 6000);
    CHECK(c, run_until_converged(c, 30000), "it did not come up");
    uint32_t pace = 50 + chance(w, 3000);
    for (int64_t end_ms = w->now + FAULTS_MS; w->now < end_ms;) {
        if (chance(w, pace) < TICK_MS) {
            fault(c);
        }
        (void)client_write(c);
        cluster_tick(c);
    }
    heal(c);
    bool good = run_healed(c);
    if (!good && operator_decides(c)) {
        good = true;
        ++*decided;
    }
    CHECK(c, good, "it does not become whole again");
    *publications += c->publications;
    cluster_destroy(c);
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void seeds(void **state)
{
    uint64_t first = from_environment("CONCLAVE_SEED", 1);
    uint64_t count = from_environment("CONCLAVE_COUNT", 60);
    int decided = 0;
    int publications = 0;
    for (uint64_t i = 0; i < count; i++) {
        one_run(first + i, &decided, &publications);
    }
    print_message("%d masters published, %d decided by an operator\n", publications, decided);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(seeds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
