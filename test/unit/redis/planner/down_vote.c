/* One server in the eyes of one manager, and all managers' votes. */
#include "redis/planner/down_vote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct redis_config three_nodes(void)
{
    struct redis_config config;
    const char *bad;
    redis_config_init(&config);
    assert_int_equal(redis_config_nodes(&config, "a:1, b:2,[::1]", &bad), 0);
    config.managers = 3;
    return config;
}

static void addresses_are_read(void **state)
{
    struct redis_config config = three_nodes();
    const char *bad = NULL;
    assert_int_equal(config.node_count, 3);
    assert_string_equal(config.nodes[1].address, "b:2");
    assert_string_equal(config.nodes[2].address, "[::1]:6379");
    assert_string_equal(config.nodes[2].host, "::1");
    assert_int_equal(redis_config_find(&config, "A:1"), 0);
    assert_int_equal(redis_config_find(&config, "a:2"), REDIS_NONE);
    static const char *const wrong[] = {"",      ",",         "a:0",   "a:65536", "a:1,a:1", "a:x",
                                        "a:1,,", "[::1:6379", "a b:1", "a:1:2",   ":1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(redis_config_nodes(&config, wrong[i], &bad), CONCLAVE_EINVAL);
        assert_int_equal(config.node_count, 3);
    }
}

static enum redis_node_state after(struct redis_node *node, const struct redis_config *config,
                                   enum redis_probe probe, int64_t now_ms)
{
    (void)redis_node_probed(node, config, probe, NULL, now_ms, now_ms);
    return node->state;
}

static void E119_a_node_that_fails_two_times_of_three_is_never_down(void **state)
{
    struct redis_config config = three_nodes();
    struct redis_node node;
    redis_node_init(&node);
    for (int i = 0; i < 300; i++) {
        enum redis_probe probe = i % 3 == 0 ? REDIS_PROBE_OK : REDIS_PROBE_TIMEOUT;
        assert_int_not_equal(after(&node, &config, probe, i * 1000), REDIS_NODE_DOWN);
    }
}

static void E119_down_takes_failures_and_time_up_takes_successes(void **state)
{
    struct redis_config config = three_nodes();
    struct redis_node node;
    redis_node_init(&node);
    assert_int_equal(after(&node, &config, REDIS_PROBE_OK, 0), REDIS_NODE_UP);
    for (int i = 0; i < 5; i++) { /* many at once are not long enough */
        assert_int_equal(after(&node, &config, REDIS_PROBE_REFUSED, 1000 + i), REDIS_NODE_SUSPECT);
    }
    assert_int_equal(after(&node, &config, REDIS_PROBE_REFUSED, 1000 + config.min_down_ms),
                     REDIS_NODE_DOWN);
    assert_int_equal(after(&node, &config, REDIS_PROBE_OK, 3000), REDIS_NODE_DOWN);
    assert_int_equal(after(&node, &config, REDIS_PROBE_CUT, 4000), REDIS_NODE_DOWN);
    assert_int_equal(after(&node, &config, REDIS_PROBE_OK, 5000), REDIS_NODE_DOWN);
    assert_int_equal(after(&node, &config, REDIS_PROBE_OK, 6000), REDIS_NODE_UP);
    assert_false(redis_node_probed(&node, &config, REDIS_PROBE_CUT, NULL, 5500, 6500));
    assert_int_equal(node.state, REDIS_NODE_UP); /* that one was overtaken */
}

static void who_answers_with_an_error_is_not_dead(void **state)
{
    struct redis_config config = three_nodes();
    struct redis_node node;
    redis_node_init(&node);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(after(&node, &config, REDIS_PROBE_NOAUTH, i * 1000), REDIS_NODE_NOAUTH);
    }
    assert_int_equal(after(&node, &config, REDIS_PROBE_BUSY, 30000), REDIS_NODE_BUSY);
    assert_int_equal(after(&node, &config, REDIS_PROBE_LOADING, 31000), REDIS_NODE_LOADING);
    assert_int_equal(after(&node, &config, REDIS_PROBE_MASTERDOWN, 32000), REDIS_NODE_UP);
    int64_t now = 40000;
    while (after(&node, &config, REDIS_PROBE_BUSY, now) == REDIS_NODE_BUSY) {
        now += 1000;
        assert_true(now < 100000); /* for ever it is not */
    }
    assert_true(now - 40000 >= config.busy_down_ms);
    assert_int_equal(redis_probe_of_error("LOADING Redis is loading the dataset in memory"),
                     REDIS_PROBE_LOADING);
    assert_int_equal(redis_probe_of_error("NOAUTH Authentication required."), REDIS_PROBE_NOAUTH);
    assert_int_equal(redis_probe_of_error("BUSYGROUP x"), REDIS_PROBE_ERROR);
}

struct hall {
    struct redis_config config;
    struct redis_node own[3];
    struct redis_managers *managers;
    struct redis_report reports[4];
    struct redis_verdict verdicts[3];
    int64_t now;
};

static void hall_open(struct hall *h)
{
    memset(h, 0, sizeof *h);
    h->config = three_nodes();
    h->managers = calloc(1, sizeof *h->managers);
    assert_non_null(h->managers);
    for (int i = 0; i < 3; i++) {
        redis_node_init(&h->own[i]);
        h->own[i].state = REDIS_NODE_UP;
    }
    for (int i = 0; i < 4; i++) {
        snprintf(h->reports[i].id, sizeof h->reports[i].id, "m%d", i);
        snprintf(h->reports[i].incarnation, sizeof h->reports[i].incarnation, "1");
    }
}

/* Manager i reports this state of node 0 again. */
static void say(struct hall *h, int i, enum redis_node_state state)
{
    redis_report_make(&h->reports[i], &h->config, h->own, h->now);
    h->reports[i].nodes[0].state = state;
    h->reports[i].seq++;
    assert_int_equal(redis_managers_saw(h->managers, &h->reports[i], h->now), 0);
}

static enum redis_verdict_kind judge(struct hall *h)
{
    (void)redis_verdicts(h->managers, &h->config, h->own, 0, h->now, h->verdicts);
    return h->verdicts[0].kind;
}

static void E108_votes_are_counted_by_the_strategy(void **state)
{
    for (int down = 0; down <= 3; down++) {
        struct hall h;
        hall_open(&h);
        h.own[0].state = down > 0 ? REDIS_NODE_DOWN : REDIS_NODE_UP;
        for (int round = 0; round < 2; round++) {
            say(&h, 1, down > 1 ? REDIS_NODE_DOWN : REDIS_NODE_UP);
            say(&h, 2, down > 2 ? REDIS_NODE_DOWN : REDIS_NODE_UP);
        }
        h.config.strategy = REDIS_STRATEGY_MAJORITY;
        assert_int_equal(judge(&h) == REDIS_VERDICT_DOWN, down >= 2);
        h.config.strategy = REDIS_STRATEGY_CONSENSUS;
        assert_int_equal(judge(&h) == REDIS_VERDICT_DOWN, down >= 3);
        h.config.strategy = REDIS_STRATEGY_SINGLE;
        assert_int_equal(judge(&h) == REDIS_VERDICT_DOWN, down >= 1);
        free(h.managers);
    }
}

/* After a lost link the group may not say yet that a node is this manager's. */
static void E109_the_own_report_has_no_second_vote(void **state)
{
    struct hall h;
    hall_open(&h);
    snprintf(h.managers->own, sizeof h.managers->own, "2");
    h.own[0].state = REDIS_NODE_DOWN;
    for (int round = 0; round < 2; round++) {
        snprintf(h.reports[1].incarnation, sizeof h.reports[1].incarnation, "2");
        say(&h, 1, REDIS_NODE_DOWN);
    }
    assert_int_equal(judge(&h), REDIS_VERDICT_UNDECIDED);
    assert_int_equal(h.managers->count, 0);
    for (int round = 0; round < 2; round++) { /* another process with that id */
        snprintf(h.reports[1].incarnation, sizeof h.reports[1].incarnation, "1");
        say(&h, 1, REDIS_NODE_DOWN);
    }
    assert_int_equal(judge(&h), REDIS_VERDICT_DOWN);
    free(h.managers);
}

static void E109_the_configured_managers_are_the_denominator(void **state)
{
    struct hall h;
    hall_open(&h);
    h.own[0].state = REDIS_NODE_DOWN;
    h.config.managers = 4;
    say(&h, 1, REDIS_NODE_DOWN);
    say(&h, 1, REDIS_NODE_DOWN);
    assert_int_equal(judge(&h), REDIS_VERDICT_UNDECIDED); /* two of four */
    h.config.managers = 3;
    assert_int_equal(judge(&h), REDIS_VERDICT_DOWN);
    h.config.required_managers = 3;
    assert_int_equal(judge(&h), REDIS_VERDICT_UNDECIDED);
    assert_non_null(strstr(h.verdicts[0].why, "only 2 managers report"));
    free(h.managers);
}

static void E110_the_vote_of_a_manager_that_hangs_ends(void **state)
{
    struct hall h;
    hall_open(&h);
    h.own[0].state = REDIS_NODE_DOWN;
    say(&h, 1, REDIS_NODE_DOWN);
    assert_int_equal(judge(&h), REDIS_VERDICT_UNDECIDED); /* it may be an old report */
    h.now = 500;
    say(&h, 1, REDIS_NODE_DOWN);
    assert_int_equal(judge(&h), REDIS_VERDICT_DOWN);
    for (h.now = 600; h.now <= 3500; h.now += 100) { /* the same one, read again and again */
        assert_int_equal(redis_managers_saw(h.managers, &h.reports[1], h.now), 0);
        assert_int_equal(judge(&h), REDIS_VERDICT_DOWN);
    }
    assert_int_equal(redis_managers_saw(h.managers, &h.reports[1], h.now), 0);
    assert_int_equal(judge(&h), REDIS_VERDICT_UNDECIDED);
    say(&h, 1, REDIS_NODE_DOWN);
    assert_int_equal(judge(&h), REDIS_VERDICT_DOWN);
    redis_managers_gone(h.managers, "m1");
    assert_int_equal(judge(&h), REDIS_VERDICT_UNDECIDED);
    free(h.managers);
}

/* By the time that the report states: another version, or a slow ensemble, states another one. */
static void E190_the_lead_of_a_manager_that_does_not_report_ends(void **state)
{
    struct hall h;
    hall_open(&h);
    h.reports[1].lead_ms = 1000;
    assert_true(redis_lead_until_ms(redis_managers_find(h.managers, "m1"), 0) == INT64_MAX);
    h.now = 5000;
    say(&h, 1, REDIS_NODE_UP);
    const struct redis_manager_view *view = redis_managers_find(h.managers, "m1");
    assert_int_equal(redis_lead_until_ms(view, 0), 5000 + 1250);
    assert_int_equal(redis_lead_until_ms(view, 5100), 5100 + 1250);
    h.now = 5500; /* the same one again */
    assert_int_equal(redis_managers_saw(h.managers, &h.reports[1], h.now), 0);
    assert_int_equal(redis_lead_until_ms(view, 0), 5000 + 1250);
    say(&h, 1, REDIS_NODE_UP);
    assert_int_equal(redis_lead_until_ms(view, 0), 5500 + 1250);
    h.reports[1].lead_ms = 4000;
    say(&h, 1, REDIS_NODE_UP);
    assert_int_equal(redis_lead_until_ms(view, 0), 5500 + 5000);
    h.reports[1].lead_ms = 0; /* of a version that does not wait */
    h.reports[1].seq++;
    assert_int_equal(redis_managers_saw(h.managers, &h.reports[1], h.now), 0);
    assert_true(redis_lead_until_ms(view, 0) == INT64_MAX);
    h.reports[1].lead_ms = INT64_MAX;
    assert_int_equal(redis_managers_saw(h.managers, &h.reports[1], h.now), 0);
    assert_true(redis_lead_until_ms(view, 0) == INT64_MAX);
    free(h.managers);
}

/* Two managers that are cut off from the master together are not enough while judge and replicas see it. */
static void a_majority_needs_one_view_more(void **state)
{
    struct hall h;
    hall_open(&h);
    for (int round = 0; round < 2; round++) {
        say(&h, 1, REDIS_NODE_DOWN);
        say(&h, 2, REDIS_NODE_DOWN);
    }
    for (int i = 1; i < 3; i++) {
        h.own[i].facts.role = REDIS_ROLE_REPLICA;
        h.own[i].facts.link_up = true;
        snprintf(h.own[i].facts.master, sizeof h.own[i].facts.master, "a:1");
        h.own[i].facts_ms = 0;
    }
    assert_int_not_equal(judge(&h), REDIS_VERDICT_DOWN);
    h.own[1].facts.link_up = false;
    assert_int_not_equal(judge(&h), REDIS_VERDICT_DOWN); /* one of two is no majority */
    h.own[2].facts.link_up = false;
    assert_int_equal(judge(&h), REDIS_VERDICT_DOWN);
    free(h.managers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read),
        cmocka_unit_test(E119_a_node_that_fails_two_times_of_three_is_never_down),
        cmocka_unit_test(E119_down_takes_failures_and_time_up_takes_successes),
        cmocka_unit_test(who_answers_with_an_error_is_not_dead),
        cmocka_unit_test(E108_votes_are_counted_by_the_strategy),
        cmocka_unit_test(E109_the_configured_managers_are_the_denominator),
        cmocka_unit_test(E109_the_own_report_has_no_second_vote),
        cmocka_unit_test(E110_the_vote_of_a_manager_that_hangs_ends),
        cmocka_unit_test(E190_the_lead_of_a_manager_that_does_not_report_ends),
        cmocka_unit_test(a_majority_needs_one_view_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
