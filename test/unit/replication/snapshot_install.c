/*
 * Members that are too far behind get a snapshot: whole or not at all, whatever crashes on the way,
 * and the log goes on behind it.
 */
#include "unit/replication/ensemble.inc"

static void with_snapshots(struct ensemble *e, size_t n, uint64_t seed)
{
    ensemble_init(e, n, seed);
    e->options.snapshot_entries = 100;
    e->options.trailing_entries = 20;
    e->options.segment_bytes = 8192;
    e->snapshot_filling = 5 * 256 * 1024 + 77;
}

static bool is_behind(struct ensemble *e, unsigned id)
{
    struct replication_stats stats;
    unsigned leader = ensemble_elect(e);
    replication_stats(e->nodes[leader].r, &stats);
    return stats.snapshot_index > e->nodes[id].applied + 20;
}

/* Server `away` misses so much that only a snapshot can help. */
static unsigned leave_one_behind(struct ensemble *e)
{
    ensemble_open(e);
    unsigned away = ensemble_elect(e) % 3 + 1;
    ensemble_work(e, 20);
    node_end(e, away, END_KILL);
    for (int i = 0; i < 20; i++) {
        ensemble_work(e, 150);
        ensemble_run(e, 200);
    }
    assert_true(is_behind(e, away));
    return away;
}

static void test_far_behind(void **state)
{
    struct ensemble e;
    with_snapshots(&e, 3, 1);
    unsigned away = leave_one_behind(&e);
    assert_int_equal(replica_open(&e, away), 0);
    ensemble_settle(&e);
    struct replica *n = &e.nodes[away];
    assert_true(n->restored >= 1);
    assert_int_equal(n->failed, 0);
    assert_int_equal(n->n_members, 3);
    assert_int_equal(n->warnings, 0);
    ensemble_work(&e, 300);
    ensemble_settle(&e);

    /* It starts from what it got, and can lead. */
    for (int how = END_CLEAN; how <= END_POWER; how++) {
        node_end(&e, away, (enum ending)how);
        assert_int_equal(replica_open(&e, away), 0);
        ensemble_settle(&e);
    }
    for (unsigned i = 1; i <= 3; i++) {
        if (i != away) {
            node_end(&e, i, END_POWER);
            ensemble_run(&e, 500);
            assert_int_equal(replica_open(&e, i), 0);
            ensemble_work(&e, 20);
        }
    }
    ensemble_settle(&e);
    ensemble_finish(&e);
}

/* The power of the receiver goes at each of its calls to the disk. */
static void test_crash_at_every_point(void **state)
{
    unsigned installed = 0;
    for (unsigned stop = 1; stop < 60; stop++) {
        struct ensemble e;
        with_snapshots(&e, 3, stop);
        unsigned away = leave_one_behind(&e);
        struct replica *n = &e.nodes[away];
        n->disk.stop_at = n->disk.calls + stop;
        int rv = replica_open(&e, away);
        for (int i = 0; rv == 0 && i < 300 && !n->disk.stopped; i++) {
            ensemble_run(&e, 10);
        }
        if (rv == 0) {
            node_end(&e, away, END_POWER);
        } else {
            sim_power_cut(&n->disk);
        }
        unsigned restored = n->restored;
        if (replica_open(&e, away) != 0) {
            fail_msg("call %u: %s", stop, n->text);
        }
        installed += n->restored > restored;
        ensemble_work(&e, 5);
        ensemble_settle(&e);
        assert_int_equal(n->failed, 0);
        ensemble_finish(&e);
    }
    assert_true(installed > 5 && installed < 59);
}

/* Links break and leaders die while it is on its way. */
static void test_broken_on_the_way(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct ensemble e;
        with_snapshots(&e, 3, seed);
        unsigned away = leave_one_behind(&e);
        assert_int_equal(replica_open(&e, away), 0);
        for (int i = 0; i < 6; i++) {
            unsigned leader = ensemble_leader(&e);
            ensemble_run(&e, (int64_t)chance(&e, 25));
            if (seed % 2 == 0 || leader == 0) {
                isolate(&e, away, true, true);
                ensemble_run(&e, (int64_t)chance(&e, 100));
                isolate(&e, away, false, true);
            } else if (i < 2) {
                node_end(&e, leader, END_POWER);
                ensemble_run(&e, (int64_t)chance(&e, 100));
                assert_int_equal(replica_open(&e, leader), 0);
            }
        }
        ensemble_work(&e, 30);
        ensemble_settle(&e);
        assert_int_equal(e.nodes[away].failed, 0);
        ensemble_finish(&e);
    }
}

/* Whatever happens, in any order, with snapshots taken and sent all the time. */
static void chaos(uint64_t seed)
{
    struct ensemble e;
    size_t n = seed % 3 == 0 ? 5 : 3;
    with_snapshots(&e, n, seed);
    e.options.snapshot_entries = 10 + chance(&e, 40);
    e.options.trailing_entries = chance(&e, 10);
    e.snapshot_filling = chance(&e, 3) == 0 ? 600000 : 3000;
    ensemble_open(&e);
    for (int round = 0; round < 40; round++) {
        unsigned id = 1 + (unsigned)chance(&e, n);
        switch (chance(&e, 6)) {
        case 0:
            if (e.nodes[id].r != NULL) {
                node_end(&e, id, (enum ending)chance(&e, 3));
            }
            break;
        case 1:
            isolate(&e, id, true, chance(&e, 2) == 0);
            break;
        case 2:
            isolate(&e, id, false, true);
            break;
        case 3:
            e.loss = (unsigned)chance(&e, 100);
            break;
        default:
            if (e.nodes[id].r == NULL && replica_open(&e, id) != 0) {
                fail_msg("seed %d: server %u refuses: %s", (int)seed, id, e.nodes[id].text);
            }
        }
        for (int i = 0; i < 20; i++) {
            unsigned leader = ensemble_leader(&e);
            for (unsigned k = 0; leader != 0 && k < 5; k++) {
                (void)!node_submit(&e, leader);
            }
            if (leader != 0) {
                replication_turn(e.nodes[leader].r);
            }
            ensemble_run(&e, (int64_t)chance(&e, 30));
        }
    }
    e.loss = 0;
    for (unsigned id = 1; id <= n; id++) {
        isolate(&e, id, false, true);
        if (e.nodes[id].r == NULL) {
            assert_int_equal(replica_open(&e, id), 0);
        }
    }
    ensemble_work(&e, 20);
    ensemble_settle(&e);
    for (unsigned id = 1; id <= n; id++) {
        assert_int_equal(e.nodes[id].failed, 0);
    }
    ensemble_finish(&e);
}

static void test_chaos(void **state)
{
    const char *only = getenv("SEED");
    const char *many = getenv("SEEDS");
    uint64_t first = only != NULL ? strtoull(only, NULL, 10) : 1;
    uint64_t count = many != NULL ? strtoull(many, NULL, 10) : only != NULL ? 1 : 30;
    for (uint64_t seed = first; seed < first + count; seed++) {
        chaos(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_far_behind),
        cmocka_unit_test(test_crash_at_every_point),
        cmocka_unit_test(test_broken_on_the_way),
        cmocka_unit_test(test_chaos),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
