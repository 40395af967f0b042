/* A master that comes back with its data while it is being replaced: whatever the moment, somebody with data is master in
 * the end, and no operator is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_manager.inc"

enum { WRITES = 50, SEEDS = 2 }; /* per moment; 12 took half a minute and found nothing more */

struct come_back {
    const char *step; /* that the leader is at */
    enum flight when;
    int64_t keep; /* writes on the disk of the old master */
    bool ids;     /* and of which history they are */
    int64_t sync_ms;
    bool stays_away; /* a replica is down all the while */
    uint64_t seed;
};

/* A master, its replicas, and writes that all of them have. */
static struct cluster *ready(int count, uint64_t seed)
{
    struct cluster *c = cluster_create(count, seed);
    c->world.trace = getenv("CONCLAVE_TRACE") != NULL;
    assert_true(run_until_converged(c, 20000));
    for (int i = 0; i < WRITES; i++) {
        assert_true(client_write(c));
    }
    assert_true(run_until_converged(c, 20000));
    return c;
}

static bool is_at(const struct cluster *c, const struct come_back *what)
{
    const struct manager *m = c->leader < 0 ? NULL : &c->managers[c->leader];
    return m != NULL && m->flight == what->when && strcmp(m->action.step, what->step) == 0;
}

static bool comes_back(const struct come_back *what)
{
    struct cluster *c = ready(3, what->seed);
    c->world.sync_time_ms = what->sync_ms;
    if (what->stays_away) {
        crash(&c->world, 2);
        run_for(c, 4000);
    }
    crash(&c->world, 0);
    for (int i = 0; i < 500 && !is_at(c, what); i++) {
        cluster_tick(c);
    }
    start(&c->world, 0, what->keep, what->ids);
    run_for(c, 8000);
    if (what->stays_away) {
        start(&c->world, 2, WRITES, true);
    }
    bool good = run_until_converged(c, 60000);
    int master = redis_config_find(&c->config, c->current.master);
    good = good && c->world.servers[master].offset >= what->keep;
    if (!good) {
        print_message(
            "seed %" PRIu64 ", back at '%s' (%d) with %" PRId64 " of %d writes%s, copies take "
            "%" PRId64 " ms: %s: %s\n",
            what->seed, what->step, what->when, what->keep, WRITES, what->ids ? " and its ids" : "",
            what->sync_ms, redis_state_name(c->current.state), c->current.reason);
    }
    cluster_destroy(c);
    return good;
}

static int failures(bool stays_away)
{
    static const int64_t sync_ms[] = {0, 40, 500, 5000};
    static const int64_t keep[] = {WRITES, WRITES / 2};
    int failed = 0;
    struct come_back what = {.stays_away = stays_away};
    for (const char *const *step = redis_step_names(); *step != NULL; step++) {
        what.step = *step;
        for (int i = 0; i < 2 * 2 * 2 * 4; i++) {
            what.when = i % 2 == 0 ? FLIGHT_BEFORE : FLIGHT_AFTER;
            what.ids = i / 2 % 2 == 0;
            what.keep = keep[i / 4 % 2];
            what.sync_ms = sync_ms[i / 8];
            for (what.seed = 1; what.seed <= SEEDS; what.seed++) {
                failed += !comes_back(&what);
            }
        }
    }
    return failed;
}

static void a_master_that_returns_during_its_plan_leaves_no_cluster_without_one(void **state)
{
    assert_int_equal(failures(false), 0);
}

static void nor_while_a_replica_is_away(void **state)
{
    assert_int_equal(failures(true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_master_that_returns_during_its_plan_leaves_no_cluster_without_one),
        cmocka_unit_test(nor_while_a_replica_is_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
