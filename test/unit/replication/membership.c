/*
 * Who belongs to the ensemble: from one to three and back while it serves; leadership handed over;
 * and members that lost their folder, which must not vote as if they had promised nothing.
 */
#include "unit/replication/ensemble.inc"

/* Acknowledged by two, of which one loses its folder: with the third it must not lead, or what was
 * acknowledged would be lost. */
static void test_wiped(void **state)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct ensemble e;
        ensemble_init(&e, 3, seed);
        ensemble_open(&e);
        unsigned leader = ensemble_elect(&e);
        unsigned wiped = leader % 3 + 1;
        unsigned third = wiped % 3 + 1;
        ensemble_work(&e, 10);
        isolate(&e, third, true, true);
        ensemble_work(&e, 30);
        ensemble_run(&e, 50);
        uint64_t acked = e.acked;
        node_end(&e, wiped, END_KILL);
        isolate(&e, leader, true, seed % 2 == 0);
        node_wipe(&e, wiped);
        cut(&e, third, wiped, false);
        assert_int_equal(replica_open(&e, wiped), 0);
        ensemble_run(&e, 10000);
        assert_int_equal(ensemble_leader(&e), 0);
        assert_int_equal(e.acked, acked);
        isolate(&e, leader, false, true); /* node_apply would find another entry */
        ensemble_work(&e, 20);
        ensemble_settle(&e);
        ensemble_run(&e, 300);

        /* It has its vote again, also after a restart. */
        node_end(&e, wiped, END_POWER);
        assert_int_equal(replica_open(&e, wiped), 0);
        assert_true(join_votes(e.nodes[wiped].r));
        ensemble_settle(&e);
        leader = ensemble_leader(&e);
        node_end(&e, leader == wiped ? third : leader, END_KILL);
        ensemble_work(&e, 10);
        ensemble_finish(&e);
    }
}

/* Two of three are there, but one of them does not know any more what it promised. */
static void test_wiped_is_silent(void **state)
{
    struct ensemble e;
    ensemble_init(&e, 3, 8);
    ensemble_open(&e);
    unsigned leader = ensemble_elect(&e);
    ensemble_work(&e, 10);
    ensemble_settle(&e);
    unsigned wiped = leader % 3 + 1;
    unsigned third = wiped % 3 + 1;
    node_end(&e, third, END_KILL);
    node_end(&e, wiped, END_KILL);
    node_wipe(&e, wiped);
    assert_int_equal(replica_open(&e, wiped), 0);
    uint64_t acked = e.acked;
    for (int i = 0; i < 20; i++) {
        if (e.nodes[leader].role == REPLICATION_LEADER) {
            (void)!node_submit(&e, leader);
        }
        ensemble_run(&e, 200);
    }
    assert_int_equal(e.acked, acked); /* the wiped one acknowledges nothing */
    assert_int_equal(e.nodes[wiped].applied, 0);
    assert_int_equal(replica_open(&e, third), 0);
    ensemble_settle(&e);
    ensemble_run(&e, 500);
    assert_true(join_votes(e.nodes[wiped].r));
    ensemble_finish(&e);
}

static void test_transfer(void **state)
{
    struct ensemble e;
    ensemble_init(&e, 3, 9);
    ensemble_open(&e);
    for (int i = 0; i < 10; i++) {
        unsigned leader = ensemble_elect(&e);
        unsigned to = i % 2 == 0 ? 0 : leader % 3 + 1;
        ensemble_work(&e, 5);
        ensemble_settle(&e);
        assert_int_equal(replication_transfer(e.nodes[leader % 3 + 1].r, 0), CONCLAVE_EBUSY);
        assert_int_equal(replication_transfer(e.nodes[leader].r, leader), CONCLAVE_EINVAL);
        assert_int_equal(replication_transfer(e.nodes[leader].r, to), 0);
        assert_int_equal(node_submit(&e, leader), CONCLAVE_EBUSY);
        replication_turn(e.nodes[leader].r);
        ensemble_run(&e, 60);
        unsigned next = ensemble_leader(&e);
        assert_true(next != 0 && next != leader && (to == 0 || next == to));
    }
    ensemble_settle(&e);
    ensemble_finish(&e);
}

/* Changes the members, and runs until everybody that is up has applied that. */
static void change(struct ensemble *e, const struct configuration_member *members, size_t n)
{
    int rv = CONCLAVE_EBUSY;
    for (int i = 0; rv == CONCLAVE_EBUSY && i < 1000; i++) {
        unsigned leader = ensemble_elect(e);
        rv = replication_change(e->nodes[leader].r, members, n);
        replication_turn(e->nodes[leader].r);
        ensemble_run(e, 5);
    }
    assert_int_equal(rv, 0);
    ensemble_settle(e);
    assert_int_equal(e->nodes[ensemble_leader(e)].n_members, n);
}

/* An observer that gets what it lacks, then its vote. */
static void add(struct ensemble *e, struct configuration_member *members, unsigned id)
{
    struct replication *leader = e->nodes[ensemble_leader(e)].r;
    e->nodes[id].joins = true;
    assert_int_equal(replica_open(e, id), 0);
    ensemble_run(e, 1000);
    assert_int_equal(e->nodes[id].applied, 0);
    assert_int_equal(replication_catch_up(leader, id), CONCLAVE_EINVAL);
    members[id - 1] = (struct configuration_member){id, MEMBER_OBSERVER, addresses[id]};
    change(e, members, id);
    ensemble_work(e, 30);
    assert_int_equal(replication_catch_up(leader, id), 0);
    for (int i = 0; i < 100 && !replication_caught_up(leader, id); i++) {
        ensemble_run(e, 20);
    }
    assert_true(replication_caught_up(leader, id));
    members[id - 1].role = MEMBER_VOTER;
    change(e, members, id);
    assert_true(e->nodes[id].restored > 0); /* from a snapshot */
}

static void test_one_to_three_to_one(void **state)
{
    struct configuration_member members[3] = {{1, MEMBER_VOTER, addresses[1]}};
    struct replication_member_stats stats[5];
    struct ensemble e;
    ensemble_init(&e, 1, 10);
    e.options.snapshot_entries = 40;
    e.options.trailing_entries = 5;
    ensemble_open(&e);
    ensemble_work(&e, 200);
    add(&e, members, 2);
    add(&e, members, 3);
    assert_int_equal(replication_members(e.nodes[1].r, stats, 5), 3);
    assert_true(stats[0].self && stats[1].linked && stats[2].linked);
    assert_true(stats[2].match_index > 200);
    assert_string_equal(stats[2].address, addresses[3]);
    node_end(&e, 1, END_POWER); /* two of three go on */
    ensemble_work(&e, 30);
    assert_int_equal(replica_open(&e, 1), 0);
    ensemble_settle(&e);

    /* Back to one, which is not the first. */
    for (int i = 0; i < 20 && ensemble_leader(&e) != 3; i++) {
        (void)!replication_transfer(e.nodes[ensemble_leader(&e)].r, 3);
        replication_turn(e.nodes[ensemble_leader(&e)].r);
        ensemble_run(&e, 500);
    }
    assert_int_equal(ensemble_leader(&e), 3);
    assert_int_equal(replication_change(e.nodes[3].r, members, 2), CONCLAVE_EINVAL); /* itself */
    node_end(&e, 1, END_CLEAN);
    change(&e, members + 1, 2);
    node_end(&e, 2, END_CLEAN);
    assert_int_equal(replication_change(e.nodes[3].r, members + 2, 1), 0);
    replication_turn(e.nodes[3].r);
    ensemble_run(&e, 300);
    assert_int_equal(e.nodes[3].n_members, 1);
    ensemble_work(&e, 30);
    node_end(&e, 3, END_POWER);
    assert_int_equal(replica_open(&e, 3), 0);
    ensemble_work(&e, 30);
    ensemble_settle(&e);
    ensemble_finish(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wiped),
        cmocka_unit_test(test_wiped_is_silent),
        cmocka_unit_test(test_transfer),
        cmocka_unit_test(test_one_to_three_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
