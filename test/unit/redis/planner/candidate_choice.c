/* Who becomes master, and why not the others. */
#include "redis/planner/candidate_choice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ID_A "d2c348db5c3b2083d4aeb097cf0ecaad9071e364"
#define ID_B "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd"

struct field {
    struct redis_config config;
    struct redis_node nodes[4]; /* 0 is the old master */
    struct redis_plan plan;
    struct redis_choice_case what;
    struct redis_choice choice;
};

static void field_open(struct field *f)
{
    const char *bad;
    memset(f, 0, sizeof *f);
    redis_config_init(&f->config);
    assert_int_equal(redis_config_nodes(&f->config, "m:1,a:1,b:1,c:1", &bad), 0);
    for (int i = 0; i < 4; i++) {
        struct redis_node *node = &f->nodes[i];
        redis_node_init(node);
        node->facts_ms = 100000;
        node->facts = (struct redis_facts){.role = REDIS_ROLE_REPLICA,
                                           .replid = ID_A,
                                           .second_offset = -1,
                                           .offset = 100,
                                           .priority = 100,
                                           .link_down_ms = 1000};
        snprintf(node->facts.run_id, sizeof node->facts.run_id, "%040d", i);
    }
    f->nodes[0].facts.role = REDIS_ROLE_MASTER;
    snprintf(f->plan.old, sizeof f->plan.old, "m:1");
    memcpy(f->plan.old_replid, ID_A, sizeof ID_A);
    f->plan.old_second_offset = -1;
    f->plan.old_offset = 200;
    f->what = (struct redis_choice_case){
        .plan = &f->plan, .fresh_ms = 90000, .down_ms = 99000, .only = REDIS_NONE};
}

static int choose(struct field *f)
{
    redis_choose(&f->config, f->nodes, &f->what, &f->choice);
    return f->choice.node;
}

static void E111_most_data_wins_and_priority_goes_before(void **state)
{
    struct field f;
    field_open(&f);
    f.nodes[2].facts.offset = 200;
    assert_int_equal(choose(&f), 2);
    assert_int_equal(f.choice.lag_bytes, 0);
    assert_non_null(strstr(f.choice.reasons[1], "not the best"));
    f.nodes[3].facts.priority = 50;
    assert_int_equal(choose(&f), 3);
    assert_int_equal(f.choice.lag_bytes, 100);
    f.nodes[3].facts.priority = 0;
    assert_int_equal(choose(&f), 2);
    assert_string_equal(f.choice.reasons[3], "has priority 0");
}

static void E111_another_history_is_never_chosen(void **state)
{
    struct field f;
    field_open(&f);
    for (int i = 1; i < 4; i++) {
        memcpy(f.nodes[i].facts.replid, ID_B, sizeof ID_B);
        f.nodes[i].facts.offset = 5000;
    }
    f.config.allow_data_loss = true;
    assert_int_equal(choose(&f), REDIS_NONE);
    assert_false(f.choice.held);
    assert_non_null(strstr(f.choice.why, "another history"));
    memcpy(f.nodes[3].facts.replid2, ID_A, sizeof ID_A); /* went on from it */
    f.nodes[3].facts.second_offset = 151;
    assert_int_equal(choose(&f), 3);
    assert_int_equal(f.choice.lag_bytes, 50); /* only what is of the old history counts */
}

static void E111_who_is_too_far_behind_is_held_back(void **state)
{
    struct field f;
    field_open(&f);
    f.config.max_lag_bytes = 99;
    assert_int_equal(choose(&f), REDIS_NONE);
    assert_true(f.choice.held);
    f.config.allow_data_loss = true;
    assert_int_not_equal(choose(&f), REDIS_NONE);
    f.config.allow_data_loss = false;
    f.config.max_lag_bytes = 100;
    assert_int_not_equal(choose(&f), REDIS_NONE);
    for (int i = 1; i < 4; i++) {
        f.nodes[i].facts.link_down_ms = 60000; /* long before the master was gone */
    }
    assert_int_equal(choose(&f), REDIS_NONE);
    f.nodes[2].facts.link_up = true;
    assert_int_equal(choose(&f), 2);
}

static void who_is_not_there_or_not_ready_is_passed_over(void **state)
{
    struct field f;
    field_open(&f);
    f.nodes[1].facts_ms = 80000;
    f.nodes[2].facts.loading = true;
    snprintf(f.plan.tried[f.plan.tried_count++], REDIS_ADDRESS_SIZE, "c:1");
    assert_int_equal(choose(&f), REDIS_NONE);
    assert_string_equal(f.choice.reasons[0], "is the old master");
    assert_string_equal(f.choice.reasons[1], "does not answer");
    assert_string_equal(f.choice.reasons[2], "is loading its data");
    assert_string_equal(f.choice.reasons[3], "was tried already");
    f.nodes[0].facts.role = REDIS_ROLE_REPLICA; /* it came back as a replica, with its data */
    assert_int_equal(choose(&f), 0);
}

static void the_fastest_by_option_and_one_only_by_wish(void **state)
{
    struct field f;
    field_open(&f);
    for (int i = 1; i < 4; i++) {
        f.nodes[i].latency_us = 1000 - i;
        f.nodes[i].facts.offset = 200 - i;
    }
    assert_int_equal(choose(&f), 1);
    f.config.preference = REDIS_PREFER_LATENCY;
    assert_int_equal(choose(&f), 3);
    f.what.only = 2;
    assert_int_equal(choose(&f), 2);
    assert_string_equal(f.choice.reasons[3], "not the one asked for");
}

static void before_4_0_a_replica_of_the_master_has_to_do(void **state)
{
    struct field f;
    field_open(&f);
    f.plan.old_replid[0] = '\0';
    for (int i = 1; i < 4; i++) {
        f.nodes[i].facts.replid[0] = '\0';
        snprintf(f.nodes[i].facts.master, REDIS_ADDRESS_SIZE, i == 2 ? "m:1" : "other:1");
    }
    assert_int_equal(choose(&f), 2);
    f.nodes[2].facts.offset = 0;
    assert_int_equal(choose(&f), REDIS_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(E111_most_data_wins_and_priority_goes_before),
        cmocka_unit_test(E111_another_history_is_never_chosen),
        cmocka_unit_test(E111_who_is_too_far_behind_is_held_back),
        cmocka_unit_test(who_is_not_there_or_not_ready_is_passed_over),
        cmocka_unit_test(the_fastest_by_option_and_one_only_by_wish),
        cmocka_unit_test(before_4_0_a_replica_of_the_master_has_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
