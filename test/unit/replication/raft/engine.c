/* The engine among others: elections, replication, truncation, handing over, loss of a disk. */
#include "unit/replication/raft/cluster.inc"

static void test_elects_one_and_replicates(void **state)
{
    struct cluster *c = cluster_start("vvv");
    uint64_t leader = cluster_elect(c);
    assert_int_equal(c->nodes[leader].barriers, 1);
    submit_many(c, leader, 100);
    cluster_run(c, 100);
    check_same(c);
    assert_int_equal(c->committed, 102);
    for (size_t i = 1; i <= 3; i++) {
        assert_int_equal(engine_leader(c->nodes[i].engine), leader);
        assert_int_equal(engine_match_index(c->nodes[leader].engine, i), 102);
    }
    assert_int_equal(submit(c, leader % 3 + 1, ENTRY_COMMAND, slice_str("x")), CONCLAVE_EBUSY);
    cluster_free(c);
}

/* A leader with nothing uncommitted at all still commits something of its own term. */
static void test_every_leader_adds_a_barrier(void **state)
{
    struct cluster *c = cluster_start("vvv");
    for (unsigned round = 1; round <= 5; round++) {
        uint64_t leader = cluster_elect(c);
        assert_int_equal(engine_term_at(c->nodes[leader].engine, c->committed),
                         engine_term(c->nodes[leader].engine));
        cluster_run(c, 100);
        check_same(c);
        node_crash(c, leader);
        cluster_elect(c);
        node_start(c, leader);
        cluster_run(c, 100);
    }
    cluster_free(c);
}

static void test_cut_off_member_does_not_disturb(void **state)
{
    struct cluster *c = cluster_start("vvv");
    uint64_t leader = cluster_elect(c), other = leader % 3 + 1;
    uint64_t term = engine_term(c->nodes[leader].engine);
    isolate(c, other, true);
    cluster_run(c, 3000);
    assert_true(engine_is_candidate(c->nodes[other].engine));
    assert_int_equal(engine_term(c->nodes[other].engine), term); /* pre-vote */
    assert_int_equal(engine_leader(c->nodes[other].engine), 0);
    isolate(c, other, false);
    cluster_run(c, 1000);
    assert_int_equal(cluster_leader(c), leader);
    assert_int_equal(engine_term(c->nodes[leader].engine), term);
    assert_int_equal(engine_leader(c->nodes[other].engine), leader);
    cluster_free(c);
}

static void test_leader_without_quorum_steps_down_and_loses_its_suffix(void **state)
{
    struct cluster *c = cluster_start("vvv");
    uint64_t old = cluster_elect(c);
    cluster_run(c, 100);
    isolate(c, old, true);
    submit_many(c, old, 20);
    uint64_t lost = c->nodes[old].last;
    cluster_run(c, 600);
    assert_false(engine_is_leader(c->nodes[old].engine));
    assert_int_equal(engine_leader(c->nodes[old].engine), 0);
    uint64_t leader = cluster_elect(c);
    assert_int_not_equal(leader, old);
    submit_many(c, leader, 3);
    cluster_run(c, 100);
    assert_true(c->committed < lost);
    isolate(c, old, false);
    cluster_run(c, 1500);
    assert_true(c->nodes[old].truncations > 0);
    check_same(c);
    cluster_free(c);
}

/* A write that a truncation overtook is not taken for the write of what replaced it. */
static void test_overtaken_write(void **state)
{
    struct engine_result result;
    struct cluster *c = cluster_start("vvv");
    uint64_t old = cluster_elect(c);
    cluster_run(c, 100);
    struct replica *node = &c->nodes[old];
    uint64_t before = node->last;
    isolate(c, old, true);
    node->disk_slow = true;
    submit_many(c, old, 20);
    uint64_t old_term = engine_term(node->engine);
    assert_int_equal(engine_stored(node->engine), before);
    cluster_run(c, 800);
    uint64_t leader = cluster_elect(c);
    submit_many(c, leader, 3);
    cluster_run(c, 100);
    isolate(c, old, false);
    cluster_run(c, 800);
    assert_int_equal(node->truncations, 1);
    assert_true(engine_last_index(node->engine) < before + 20);
    /* Now the first write ends. Nothing of it is there any more. */
    assert_int_not_equal(engine_term_at(node->engine, before + 1), old_term);
    assert_int_equal(engine_persisted(node->engine, c->now_ms, before + 20, &result), 0);
    assert_int_equal(engine_stored(node->engine), before);
    disk_finish(c, old);
    cluster_run(c, 200);
    check_same(c);
    assert_int_equal(engine_persisted(node->engine, c->now_ms, 1, &result), 0);
    assert_int_equal(result.messages, 0);
    cluster_free(c);
}

static void test_acknowledges_only_what_is_durable(void **state)
{
    struct cluster *c = cluster_start("vvv");
    uint64_t leader = cluster_elect(c);
    cluster_run(c, 100);
    uint64_t before = c->committed;
    for (size_t i = 1; i <= 3; i++) {
        c->nodes[i].disk_slow = i != leader;
    }
    submit_many(c, leader, 5);
    cluster_run(c, 100);
    assert_int_equal(c->committed, before);
    disk_finish(c, leader % 3 + 1);
    cluster_run(c, 100);
    assert_int_equal(c->committed, before + 5);
    disk_finish(c, (leader + 1) % 3 + 1);
    cluster_run(c, 100);
    check_same(c);
    cluster_free(c);
}

static void test_hands_over(void **state)
{
    struct engine_result result;
    struct cluster *c = cluster_start("vvvo");
    uint64_t leader = cluster_elect(c), next = leader % 3 + 1;
    cluster_run(c, 100);
    struct engine *e = c->nodes[leader].engine;
    assert_int_equal(engine_transfer(e, c->now_ms, 4, &result), CONCLAVE_EINVAL);
    assert_int_equal(engine_transfer(e, c->now_ms, 9, &result), CONCLAVE_EINVAL);
    assert_int_equal(engine_transfer(e, c->now_ms, leader, &result), CONCLAVE_EINVAL);
    assert_int_equal(engine_transfer(c->nodes[next].engine, c->now_ms, 0, &result), CONCLAVE_EBUSY);
    assert_int_equal(engine_transfer(e, c->now_ms, next, &result), 0);
    process(c, &c->nodes[leader], &result, NULL, SLICE_NULL, 0);
    assert_true(engine_transferring(e));
    assert_int_equal(submit(c, leader, ENTRY_COMMAND, slice_str("x")), CONCLAVE_EBUSY);
    cluster_run(c, 20);
    assert_int_equal(cluster_leader(c), next);
    assert_false(engine_transferring(e));
    cluster_run(c, 100);
    check_same(c);
    cluster_free(c);
}

static void test_hands_over_when_all_is_stored(void **state)
{
    struct engine_result result;
    struct cluster *c = cluster_start("vvv");
    uint64_t leader = cluster_elect(c), next = leader % 3 + 1;
    cluster_run(c, 100);
    struct replica *n = &c->nodes[next];
    n->disk_slow = true;
    submit_many(c, leader, 3);
    cluster_run(c, 100);
    uint64_t last = engine_last_index(n->engine);
    assert_int_equal(engine_transfer(c->nodes[leader].engine, c->now_ms, next, &result), 0);
    process(c, &c->nodes[leader], &result, NULL, SLICE_NULL, 0);
    /* The answer to the first of its writes. */
    assert_int_equal(engine_persisted(n->engine, c->now_ms, last - 1, &result), 0);
    process(c, n, &result, NULL, SLICE_NULL, 0);
    cluster_run(c, 20);
    assert_int_equal(cluster_leader(c), leader);
    disk_finish(c, next);
    cluster_run(c, 20);
    assert_int_equal(cluster_leader(c), next);
    cluster_free(c);
}

static void test_gives_up_handing_over(void **state)
{
    struct engine_result result;
    struct cluster *c = cluster_start("vvv");
    uint64_t leader = cluster_elect(c), next = leader % 3 + 1;
    cluster_run(c, 100);
    isolate(c, next, true);
    submit_many(c, leader, 1);
    assert_int_equal(engine_transfer(c->nodes[leader].engine, c->now_ms, next, &result), 0);
    process(c, &c->nodes[leader], &result, NULL, SLICE_NULL, 0);
    cluster_run(c, 400);
    assert_false(engine_transferring(c->nodes[leader].engine));
    submit_many(c, leader, 1);
    cluster_free(c);
}

static void test_haste_shortens_the_gap(void **state)
{
    for (unsigned hasten = 0; hasten < 2; hasten++) {
        struct cluster *c = cluster_start("vvv");
        uint64_t leader = cluster_elect(c);
        cluster_run(c, 1000 + 7);
        node_crash(c, leader);
        int64_t since = c->now_ms;
        for (size_t i = 1; i <= 3 && hasten; i++) {
            if (i != leader) {
                engine_hasten(c->nodes[i].engine, c->now_ms, 20);
            }
        }
        while (cluster_leader(c) == 0) {
            cluster_run(c, 1);
        }
        if (hasten) {
            assert_true(c->now_ms - since < 150);
        } else {
            assert_true(c->now_ms - since >= 160);
        }
        /* Back to the usual patience. */
        leader = cluster_elect(c);
        cluster_run(c, 300);
        uint64_t term = engine_term(c->nodes[leader].engine);
        isolate(c, leader, true);
        cluster_run(c, 120);
        isolate(c, leader, false);
        cluster_run(c, 300);
        assert_int_equal(cluster_leader(c), leader);
        assert_int_equal(engine_term(c->nodes[leader].engine), term);
        cluster_free(c);
    }
}

static void test_commit_is_announced(void **state)
{
    struct engine_result result;
    struct cluster *c = cluster_start("vvo");
    uint64_t leader = cluster_elect(c);
    cluster_run(c, 200);
    struct replica *node = &c->nodes[leader];
    submit_many(c, leader, 1);
    uint64_t index = node->last;
    while (engine_commit_index(node->engine) < index) {
        cluster_run(c, 1);
    }
    cluster_run(c, 3); /* all answers are there */
    assert_int_equal(engine_announce(node->engine, c->now_ms, &result), 0);
    assert_int_equal(result.messages, 2);
    process(c, node, &result, NULL, SLICE_NULL, 0);
    cluster_run(c, 2);
    check_same(c);
    assert_int_equal(engine_announce(node->engine, c->now_ms, &result), 0);
    assert_int_equal(result.messages, 0);
    assert_int_equal(engine_announce(c->nodes[3].engine, c->now_ms, &result), 0);
    assert_int_equal(result.messages, 0);
    cluster_free(c);
}

static bool lose_results_of_three(struct cluster *c, const struct wire_item *item)
{
    return item->from == 3 && item->m.kind == ENGINE_APPEND_RESULT;
}

/* The leader hears nothing of 3, which has long trimmed its log when it is heard again. */
static void test_follower_trimmed_what_the_leader_still_probes(void **state)
{
    struct cluster *c = cluster_start("vvv");
    uint64_t leader = cluster_elect(c);
    if (leader == 3) {
        struct engine_result result;
        assert_int_equal(engine_transfer(c->nodes[3].engine, c->now_ms, 1, &result), 0);
        process(c, &c->nodes[3], &result, NULL, SLICE_NULL, 0);
        cluster_run(c, 50);
        leader = cluster_elect(c);
    }
    cluster_run(c, 100);
    c->filter = lose_results_of_three;
    for (int i = 0; i < 10; i++) {
        submit_many(c, leader, 6);
        cluster_run(c, 15);
    }
    cluster_run(c, 60);
    assert_true(c->nodes[3].applied > 50);
    snapshot(c, 3, 2);
    uint64_t applied = c->nodes[3].applied;
    cluster_run(c, 2000); /* the leader takes the pipeline for broken and goes back */
    assert_true(c->nodes[3].applied >= applied);
    c->filter = NULL;
    submit_many(c, cluster_elect(c), 10);
    cluster_run(c, 1000);
    check_same(c);
    assert_int_equal(c->nodes[3].installs, 0);
    assert_int_equal(engine_match_index(c->nodes[cluster_leader(c)].engine, 3), c->committed);
    cluster_free(c);
}

/* Its disk was replaced while the leader goes on: the acknowledged entries are gone. */
static void test_wiped_member_is_filled_again(void **state)
{
    struct cluster *c = cluster_start("vvv");
    uint64_t leader = cluster_elect(c), wiped = leader % 3 + 1;
    submit_many(c, leader, 50);
    cluster_run(c, 200);
    uint64_t term = engine_term(c->nodes[leader].engine);
    node_wipe(c, wiped);
    cluster_run(c, 500);
    node_start(c, wiped);
    engine_set_voting(c->nodes[wiped].engine, false);
    cluster_run(c, 500);
    submit_many(c, leader, 5);
    cluster_run(c, 500);
    check_same(c);
    assert_int_equal(engine_term(c->nodes[leader].engine), term);
    assert_int_equal(engine_match_index(c->nodes[leader].engine, wiped), c->committed);
    cluster_free(c);
}

/* Two of three remain, one of which has lost its disk: it must not help to elect. */
static void test_no_votes_without_memory(void **state)
{
    struct cluster *c = cluster_start("vvv");
    uint64_t leader = cluster_elect(c), wiped = leader % 3 + 1;
    cluster_run(c, 100);
    node_wipe(c, wiped);
    node_start(c, wiped);
    engine_set_voting(c->nodes[wiped].engine, false);
    cluster_run(c, 100);
    node_crash(c, leader);
    cluster_run(c, 3000);
    assert_int_equal(cluster_leader(c), 0);
    assert_int_equal(engine_next_timeout_ms(c->nodes[wiped].engine), INT64_MAX);
    engine_set_voting(c->nodes[wiped].engine, true);
    cluster_elect(c);
    cluster_free(c);
}

static void test_time_does_not_go_back(void **state)
{
    struct engine_result result;
    struct cluster *c = cluster_start("vvv");
    uint64_t leader = cluster_elect(c);
    cluster_run(c, 100);
    struct replica *node = &c->nodes[leader];
    for (int64_t t = c->now_ms; t > c->now_ms - 5000; t -= 500) {
        assert_int_equal(engine_timeout(node->engine, t, &result), 0);
        process(c, node, &result, NULL, SLICE_NULL, 0);
        assert_int_equal(engine_submit(node->engine, t, ENTRY_COMMAND, slice_str("x"), &result), 0);
        process(c, node, &result, NULL, slice_str("x"), ENTRY_COMMAND);
    }
    cluster_run(c, 100);
    check_same(c);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elects_one_and_replicates),
        cmocka_unit_test(test_every_leader_adds_a_barrier),
        cmocka_unit_test(test_cut_off_member_does_not_disturb),
        cmocka_unit_test(test_leader_without_quorum_steps_down_and_loses_its_suffix),
        cmocka_unit_test(test_overtaken_write),
        cmocka_unit_test(test_acknowledges_only_what_is_durable),
        cmocka_unit_test(test_hands_over),
        cmocka_unit_test(test_hands_over_when_all_is_stored),
        cmocka_unit_test(test_gives_up_handing_over),
        cmocka_unit_test(test_haste_shortens_the_gap),
        cmocka_unit_test(test_commit_is_announced),
        cmocka_unit_test(test_follower_trimmed_what_the_leader_still_probes),
        cmocka_unit_test(test_wiped_member_is_filled_again),
        cmocka_unit_test(test_no_votes_without_memory),
        cmocka_unit_test(test_time_does_not_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
