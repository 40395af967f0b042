/*
 * Several servers: commits need a majority; what an old leader could not commit is cut; votes
 * survive power cuts; members that are behind catch up from the log; nothing acknowledged is ever
 * lost, whatever crashes, and nobody applies anything else.
 */
#include "unit/replication/ensemble.inc"

static void test_elects_and_commits(void **state)
{
    struct ensemble e;
    ensemble_init(&e, 3, 1);
    ensemble_open(&e);
    unsigned leader = ensemble_elect(&e);
    assert_true(e.now_ms < 1000 + 1500);
    ensemble_work(&e, 200);
    ensemble_settle(&e);
    assert_true(e.acked > 200);
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(e.nodes[i].leader, leader);
        assert_int_equal(e.nodes[i].n_members, 3);
        assert_int_equal(e.nodes[i].warnings, 0);
        assert_int_equal(e.nodes[i].applied, e.acked);
        if (i != leader) {
            assert_int_equal(node_submit(&e, i), CONCLAVE_EBUSY);
        }
    }
    ensemble_finish(&e);
}

static void test_majority(void **state)
{
    struct ensemble e;
    ensemble_init(&e, 3, 2);
    ensemble_open(&e);
    unsigned leader = ensemble_elect(&e);
    ensemble_work(&e, 10);
    ensemble_settle(&e);
    uint64_t acked = e.acked;
    isolate(&e, leader, true, false);
    assert_int_equal(node_submit(&e, leader), 0);
    replication_turn(e.nodes[leader].r);
    ensemble_run(&e, 300);
    assert_int_equal(e.acked, acked);
    assert_int_equal(e.nodes[leader].role, REPLICATION_LEADER);
    ensemble_run(&e, 2000);
    assert_int_equal(e.acked, acked);
    assert_int_not_equal(e.nodes[leader].role, REPLICATION_LEADER);
    assert_int_equal(node_submit(&e, leader), CONCLAVE_EBUSY);
    unsigned other = ensemble_elect(&e);
    assert_int_not_equal(other, leader);
    ensemble_work(&e, 10);
    uint64_t uncommitted = acked + 1;
    isolate(&e, leader, false, true);
    ensemble_settle(&e);
    assert_true(e.acked > uncommitted); /* by another entry, which the old leader has now too */
    ensemble_finish(&e);
}

/* A vote that was given is not given to somebody else after a power cut. */
static void test_votes_survive(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct ensemble e;
        ensemble_init(&e, 5, seed);
        ensemble_open(&e);
        ensemble_work(&e, 5);
        for (int i = 0; i < 15; i++) {
            unsigned leader = ensemble_elect(&e);
            for (unsigned id = 1; id <= 5; id++) {
                e.nodes[id].sync_ms = (int64_t)chance(&e, 60);
            }
            node_end(&e, leader, END_POWER);
            /* In the election that follows others lose their power, too. */
            for (int k = 0; k < 6; k++) {
                unsigned voter = 1 + (unsigned)chance(&e, 5);
                ensemble_run(&e, 1 + (int64_t)chance(&e, 60));
                if (e.nodes[voter].r != NULL) {
                    node_end(&e, voter, END_POWER);
                    assert_int_equal(replica_open(&e, voter), 0);
                }
            }
            assert_int_equal(replica_open(&e, leader), 0);
            ensemble_elect(&e); /* node_role finds two leaders of one term */
            ensemble_work(&e, 3);
        }
        ensemble_settle(&e);
        ensemble_finish(&e);
    }
}

/* A member that was away gets what it missed from the memory or the disk of the leader. */
static void test_catches_up(void **state)
{
    struct ensemble e;
    ensemble_init(&e, 3, 4);
    e.filling = 3000;
    e.options.segment_bytes = 65536;
    ensemble_open(&e);
    unsigned leader = ensemble_elect(&e);
    unsigned away = leader % 3 + 1;
    ensemble_work(&e, 20);
    node_end(&e, away, END_POWER);
    ensemble_work(&e, 1500); /* two megabytes: far more than the cache */
    assert_int_equal(replica_open(&e, away), 0);
    ensemble_settle(&e);
    assert_int_equal(e.nodes[away].restored, 0);

    /* All start again: only a leader knows which entries of the logs count. */
    for (unsigned i = 1; i <= 3; i++) {
        node_end(&e, i, i == 2 ? END_KILL : END_POWER);
    }
    ensemble_open(&e);
    for (unsigned i = 1; i <= 3; i++) {
        assert_true(e.nodes[i].applied <= 1);
    }
    ensemble_settle(&e);
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(e.nodes[i].failed, 0);
    }
    ensemble_finish(&e);
}

/* A new leader replaces entries that are still on their way to the disk: only what took their place is
 * acknowledged, and not before it is there. */
static void test_replaced_under_way(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct ensemble e;
        ensemble_init(&e, 5, seed);
        ensemble_open(&e);
        unsigned old = ensemble_elect(&e);
        unsigned slow = old % 5 + 1;
        ensemble_work(&e, 10);
        ensemble_settle(&e);
        for (unsigned id = 1; id <= 5; id++) {
            if (id != old && id != slow) {
                cut(&e, id, old, true);
                cut(&e, id, slow, true);
            }
        }
        e.nodes[slow].sync_ms = 700;
        for (int i = 0; i < 5; i++) {
            assert_int_equal(node_submit(&e, old), 0);
        }
        replication_turn(e.nodes[old].r);
        ensemble_run(&e, 10); /* under way at the slow one */
        cut(&e, slow, old, true);
        unsigned next = old;
        while (next == old) {
            ensemble_run(&e, 10);
            next = ensemble_leader(&e);
        }
        for (int i = 0; i < 3 + (int)chance(&e, 5); i++) {
            assert_int_equal(node_submit(&e, next), 0);
        }
        for (unsigned id = 1; id <= 5; id++) {
            if (id != old && id != slow) {
                cut(&e, id, slow, false);
            }
        }
        ensemble_run(&e, (int64_t)chance(&e, 1500));
        node_end(&e, slow, END_POWER);
        assert_int_equal(replica_open(&e, slow), 0); /* check_promise */
        e.nodes[slow].sync_ms = 0;
        isolate(&e, old, false, true);
        ensemble_work(&e, 10);
        ensemble_settle(&e);
        ensemble_finish(&e);
    }
}

/* One has the newer term, the other the longer log, of the same last term: the latter must learn of the
 * term before it can be elected. */
static void test_newer_term_shorter_log(void **state)
{
    struct ensemble e;
    ensemble_init(&e, 3, 11);
    ensemble_open(&e);
    unsigned longer = ensemble_elect(&e);
    ensemble_work(&e, 10);
    ensemble_settle(&e);
    isolate(&e, longer, true, true);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(node_submit(&e, longer), 0);
    }
    replication_turn(e.nodes[longer].r);
    e.delay_ms = 20;
    unsigned next = 0;
    for (int i = 0; i < 2; i++) {
        if (next != 0) {
            assert_int_equal(replica_open(&e, next), 0);
        }
        for (next = 0; next == 0;) {
            ensemble_run(&e, 1);
            for (unsigned id = 1; id <= 3; id++) {
                next = id != longer && engine_is_leader(e.nodes[id].r->engine) ? id : next;
            }
        }
        node_end(&e, next, END_POWER); /* its barrier goes with it */
    }
    unsigned newer = 6 - longer - next;
    assert_true(engine_term(e.nodes[newer].r->engine) > engine_term(e.nodes[longer].r->engine) + 1);
    assert_true(running_log_last_index(e.nodes[newer].r) <
                running_log_last_index(e.nodes[longer].r));
    ensemble_run(&e, 1500); /* it has stepped down */
    cut(&e, longer, newer, false);
    assert_int_equal(ensemble_elect(&e), longer);
    ensemble_work(&e, 10);
    ensemble_finish(&e);
}

/* A follower whose disk takes long delays nobody; nor does that of the leader. */
static void test_slow_disk(void **state)
{
    for (int which = 0; which < 2; which++) {
        struct ensemble e;
        ensemble_init(&e, 3, 5);
        ensemble_open(&e);
        unsigned leader = ensemble_elect(&e);
        ensemble_work(&e, 20);
        e.nodes[which == 0 ? leader % 3 + 1 : leader].sync_ms = 300;
        ensemble_run(&e, 1000);
        uint64_t term = e.nodes[leader].term;
        for (int i = 0; i < 100; i++) {
            uint64_t acked = e.acked;
            assert_int_equal(node_submit(&e, leader), 0);
            replication_turn(e.nodes[leader].r);
            ensemble_run(&e, 15);
            assert_true(e.acked > acked);
        }
        assert_int_equal(e.nodes[leader].term, term);
        ensemble_settle(&e);
        ensemble_finish(&e);
    }
}

/* The link to the leader ends: somebody leads long before an election timeout is over. */
static void test_hastens(void **state)
{
    int64_t sum = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct ensemble e;
        ensemble_init(&e, 3, seed);
        ensemble_open(&e);
        unsigned leader = ensemble_elect(&e);
        ensemble_work(&e, 10);
        node_end(&e, leader, END_KILL);
        int64_t start = e.now_ms;
        while (ensemble_leader(&e) == 0) {
            ensemble_run(&e, 1);
        }
        sum += e.now_ms - start;
        assert_true(e.now_ms - start < 1000);
        ensemble_finish(&e);
    }
    assert_true(sum / 20 < 200);
}

/* The end of a member's log is torn or gone: missing entries come from the others. */
static void test_torn_tail(void **state)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct ensemble e;
        ensemble_init(&e, 3, seed);
        ensemble_open(&e);
        ensemble_work(&e, 60);
        unsigned leader = ensemble_leader(&e);
        unsigned torn = seed % 2 == 0 ? leader : leader % 3 + 1;
        for (int i = 0; i < 5; i++) {
            (void)!node_submit(&e, leader);
        }
        replication_turn(e.nodes[leader].r);
        ensemble_run(&e, (int64_t)chance(&e, 6));
        node_end(&e, torn, END_POWER);
        if (replica_open(&e, torn) != 0) {
            fail_msg("seed %d: %s", (int)seed, e.nodes[torn].text);
        }
        ensemble_work(&e, 20);
        ensemble_settle(&e);
        ensemble_finish(&e);
    }
}

static void test_read_index(void **state)
{
    struct ensemble e;
    ensemble_init(&e, 3, 6);
    ensemble_open(&e);
    unsigned leader = ensemble_elect(&e);
    ensemble_work(&e, 10);
    for (unsigned i = 1; i <= 3; i++) {
        for (int k = 0; k < 50; k++) {
            node_read(&e, i);
            assert_int_equal(e.nodes[i].confirmed, 0); /* not without a majority */
        }
    }
    uint64_t messages = e.messages;
    ensemble_run(&e, 30);
    assert_true(e.messages - messages < 60); /* shared */
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(e.nodes[i].confirmed, 50);
    }

    /* The old leader does not know that it was followed by another. */
    isolate(&e, leader, true, false);
    node_read(&e, leader);
    ensemble_run(&e, 100);
    assert_int_equal(e.nodes[leader].role, REPLICATION_LEADER);
    unsigned other = leader;
    while (other == leader) {
        ensemble_run(&e, 1);
        other = ensemble_leader(&e);
    }
    ensemble_work(&e, 10);
    node_read(&e, leader);
    ensemble_run(&e, 3000);
    assert_int_equal(e.nodes[leader].confirmed, 50);
    isolate(&e, leader, false, true);
    ensemble_settle(&e);
    ensemble_run(&e, 300);
    assert_int_equal(e.nodes[leader].confirmed, 52);

    /* A lost request is repeated; also when the leader goes. */
    e.loss = 300;
    for (int k = 0; k < 200; k++) {
        node_read(&e, 1 + (unsigned)chance(&e, 3));
        ensemble_run(&e, 20);
    }
    e.loss = 0;
    leader = ensemble_elect(&e);
    for (unsigned i = 1; i <= 3; i++) {
        node_read(&e, i);
    }
    node_end(&e, leader, END_KILL);
    ensemble_run(&e, 2000);
    for (unsigned i = 1; i <= 3; i++) {
        assert_true(i == leader || e.nodes[i].confirmed == e.nodes[i].taken);
    }
    ensemble_finish(&e);
}

/* Only one votes: nobody needs to be asked. */
static void test_read_index_alone(void **state)
{
    struct ensemble e;
    ensemble_init(&e, 1, 7);
    ensemble_open(&e);
    ensemble_work(&e, 10);
    node_read(&e, 1);
    assert_int_equal(e.nodes[1].confirmed, 1);
    assert_int_equal(e.messages, 0);
    ensemble_finish(&e);
}

static bool all_vote(const struct ensemble *e)
{
    for (unsigned id = 1; id <= e->n; id++) {
        if (e->nodes[id].r == NULL || !join_votes(e->nodes[id].r)) {
            return false;
        }
    }
    return true;
}

/* Whatever happens, in any order. */
static void chaos(uint64_t seed, size_t n)
{
    struct ensemble e;
    ensemble_init(&e, n, seed);
    e.options.segment_bytes = 4096u << chance(&e, 4);
    e.filling = chance(&e, 3) == 0 ? 2000 : 60;
    e.delay_ms = (int64_t)chance(&e, 20);
    e.options.cache_bytes = chance(&e, 2) == 0 ? 1000 : 100000;
    e.options.snapshot_entries = chance(&e, 2) == 0 ? 0 : 10 + chance(&e, 100);
    e.options.trailing_entries = chance(&e, 60);
    e.snapshot_filling = chance(&e, 3) == 0 ? 700000 : 100;
    ensemble_open(&e);
    for (int round = 0; round < 40; round++) {
        unsigned id = 1 + (unsigned)chance(&e, n);
        struct replica *node = &e.nodes[id];
        switch (chance(&e, 9)) {
        case 0:
        case 1:
            if (node->r != NULL) {
                node_end(&e, id, (enum ending)chance(&e, 3));
            }
            break;
        case 2:
            isolate(&e, id, true, chance(&e, 2) == 0);
            break;
        case 3:
            isolate(&e, id, false, true);
            break;
        case 4:
            e.loss = (unsigned)chance(&e, 100);
            break;
        case 5:
            e.nodes[id].sync_ms = (int64_t)chance(&e, 100);
            break;
        case 6:
            /* Not before the last one that lost its folder has what was lost. */
            if (all_vote(&e)) {
                node_end(&e, id, END_KILL);
                node_wipe(&e, id);
            }
            break;
        default:
            if (node->r == NULL && replica_open(&e, id) != 0) {
                fail_msg("seed %d: server %u refuses: %s", (int)seed, id, node->text);
            }
            break;
        }
        for (int i = 0; i < 20; i++) {
            for (unsigned to = 1; to <= n; to++) {
                /* Old leaders get writes as well. */
                if (e.nodes[to].r != NULL && e.nodes[to].role == REPLICATION_LEADER) {
                    (void)!node_submit(&e, to);
                    replication_turn(e.nodes[to].r);
                }
            }
            unsigned reader = 1 + (unsigned)chance(&e, n);
            if (e.nodes[reader].r != NULL) {
                node_read(&e, reader);
            }
            ensemble_run(&e, (int64_t)chance(&e, 40));
        }
    }
    e.loss = 0;
    for (unsigned id = 1; id <= n; id++) {
        isolate(&e, id, false, true);
        e.nodes[id].sync_ms = 0;
        if (e.nodes[id].r == NULL) {
            assert_int_equal(replica_open(&e, id), 0);
        }
    }
    ensemble_work(&e, 20);
    ensemble_settle(&e);
    ensemble_run(&e, 500);
    for (unsigned id = 1; id <= n; id++) {
        assert_int_equal(e.nodes[id].failed, 0);
        assert_int_equal(e.nodes[id].confirmed, e.nodes[id].taken);
    }
    ensemble_finish(&e);
}

static void test_chaos(void **state)
{
    const char *only = getenv("SEED");
    const char *many = getenv("SEEDS");
    uint64_t first = only != NULL ? strtoull(only, NULL, 10) : 1;
    uint64_t count = many != NULL ? strtoull(many, NULL, 10) : only != NULL ? 1 : 60;
    for (uint64_t seed = first; seed < first + count; seed++) {
        chaos(seed, seed % 4 == 0 ? 5 : 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elects_and_commits),
        cmocka_unit_test(test_majority),
        cmocka_unit_test(test_votes_survive),
        cmocka_unit_test(test_catches_up),
        cmocka_unit_test(test_slow_disk),
        cmocka_unit_test(test_replaced_under_way),
        cmocka_unit_test(test_newer_term_shorter_log),
        cmocka_unit_test(test_hastens),
        cmocka_unit_test(test_torn_tail),
        cmocka_unit_test(test_read_index),
        cmocka_unit_test(test_read_index_alone),
        cmocka_unit_test(test_chaos),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
