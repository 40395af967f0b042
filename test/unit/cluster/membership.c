/* From one set of members to another in safe steps, who may found an ensemble, and when the others heal one. */
#include "cluster/bootstrap.h"
#include "cluster/membership_step.h"
#include "cluster/reconfig.h"
#include "cluster/repair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { IDS = 7 };

static const char *const addresses[IDS] = {"a:1:2", "b:1:2", "c:1:2", "d:1:2",
                                           "e:1:2", "f:1:2", "g:1:2"};

static uint32_t seed = 7;

static uint32_t dice(uint32_t sides)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 16) % sides;
}

/* A random ensemble with at least one voter. */
static size_t some_members(struct configuration_member *out)
{
    size_t n = 0;
    size_t voters = 0;
    while (voters == 0) {
        n = 0;
        for (uint64_t id = 1; id <= IDS; id++) {
            if (dice(2) == 0) {
                enum configuration_role role = dice(3) == 0 ? MEMBER_OBSERVER : MEMBER_VOTER;
                voters += role == MEMBER_VOTER;
                out[n++] = (struct configuration_member){id, role, addresses[id - 1]};
            }
        }
    }
    return n;
}

static bool bit(void *ctx, uint64_t id)
{
    const unsigned *bits = ctx;
    return (*bits >> id & 1) != 0;
}

/* The answers to the callbacks, as bits by id. */
struct known {
    unsigned caught_up;
    unsigned may_go;
};

static bool caught_up(void *ctx, uint64_t id)
{
    return bit(&((struct known *)ctx)->caught_up, id);
}

static bool may_go(void *ctx, uint64_t id)
{
    return bit(&((struct known *)ctx)->may_go, id);
}

/* How many members of `now` are to go and do not vote. */
static size_t leaving(const struct configuration_member *now, size_t n_now,
                      const struct configuration_member *target, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n_now; i++) {
        count += now[i].role != MEMBER_VOTER && configuration_find(target, n, now[i].id) == NULL;
    }
    return count;
}

/* The first of them may go from now on. */
static void let_go(struct known *known, const struct configuration_member *now, size_t n_now,
                   const struct configuration_member *target, size_t n)
{
    for (size_t i = 0; i < n_now; i++) {
        if (configuration_find(target, n, now[i].id) == NULL && now[i].role != MEMBER_VOTER) {
            known->may_go |= 1u << now[i].id;
            return;
        }
    }
    fail_msg("the steps end before the target, and nobody is to go");
}

/* Each step changes one member, makes nobody a voter who has not caught up, leaves somebody who
 * votes, removes nobody who votes or must not go yet, and in the end all is as wanted; the leader loses its
 * vote last. */
static void test_steps_are_safe(void **state)
{
    for (int round = 0; round < 20000; round++) {
        struct configuration_member now[MEMBERS_MAX];
        struct configuration_member target[MEMBERS_MAX];
        struct membership_step step;
        size_t n_now = some_members(now);
        size_t n_target = some_members(target);
        struct known known = {.caught_up = 0};
        struct membership_facts facts = {.caught_up = caught_up, .may_go = may_go, .ctx = &known};
        uint64_t self = now[dice((uint32_t)n_now)].id;
        int steps = 0;
        for (;; steps++) {
            assert_true(steps < 64);
            membership_step_next(now, n_now, target, n_target, self, &facts, &step);
            if (step.action == TRANSITION_DONE) {
                if (configuration_equal(now, n_now, target, n_target)) {
                    break;
                }
                let_go(&known, now, n_now, target, n_target);
                continue;
            }
            if (step.action == TRANSITION_CATCH_UP) {
                assert_false(bit(&known.caught_up, step.id));
                known.caught_up |= 1u << step.id;
                continue;
            }
            assert_int_equal(configuration_differences(now, n_now, step.members, step.count), 1);
            assert_true(configuration_voters(step.members, step.count) > 0);
            const struct configuration_member *before = configuration_find(now, n_now, step.id);
            const struct configuration_member *after =
                configuration_find(step.members, step.count, step.id);
            if (after != NULL && after->role == MEMBER_VOTER &&
                (before == NULL || before->role != MEMBER_VOTER)) {
                assert_true(bit(&known.caught_up, step.id));
            }
            if (after == NULL) {
                assert_true(before->role != MEMBER_VOTER && bit(&known.may_go, step.id));
            }
            if (step.id == self && after != NULL && after->role != before->role &&
                before->role == MEMBER_VOTER) {
                assert_int_equal(
                    configuration_differences(step.members, step.count, target, n_target),
                    leaving(step.members, step.count, target, n_target));
            }
            memcpy(now, step.members, step.count * sizeof now[0]);
            n_now = step.count;
        }
        assert_true(configuration_equal(now, n_now, target, n_target));
    }
}

/* A member that moved keeps its vote. */
static void test_address_changes(void **state)
{
    struct known known = {.caught_up = 0};
    struct membership_facts facts = {.caught_up = caught_up, .may_go = may_go, .ctx = &known};
    struct membership_step step;
    struct configuration_member now[] = {{1, MEMBER_VOTER, "self"}};
    struct configuration_member target[] = {{1, MEMBER_VOTER, "a:1:2"}, {2, MEMBER_VOTER, "b:1:2"}};
    membership_step_next(now, 1, target, 2, 1, &facts, &step);
    assert_int_equal(step.action, TRANSITION_CHANGE);
    assert_int_equal(step.count, 1);
    assert_string_equal(step.members[0].address, "a:1:2");
    assert_int_equal(step.members[0].role, MEMBER_VOTER);
}

/* A change that is given up leaves no observer behind that was not there before it; a voter it made stays. */
static void test_withdrawn_change(void **state)
{
    unsigned listed = 1u << 1 | 1u << 2;
    struct configuration_member now[] = {{1, MEMBER_VOTER, "a:1:2"},
                                         {2, MEMBER_OBSERVER, "b:1:2"},
                                         {3, MEMBER_OBSERVER, "c:1:2"},
                                         {4, MEMBER_VOTER, "d:1:2"}};
    struct configuration_member ret[MEMBERS_MAX];
    assert_int_equal(membership_step_withdraw(now, 4, bit, &listed, ret), 3);
    assert_int_equal(ret[0].id, 1);
    assert_int_equal(ret[1].id, 2);
    assert_int_equal(ret[2].id, 4);
}

/* A member that is leaving does not delay the other steps. */
static void test_others_do_not_wait_for_the_leaving(void **state)
{
    struct known known = {.caught_up = 0};
    struct membership_facts facts = {.caught_up = caught_up, .may_go = may_go, .ctx = &known};
    struct membership_step step;
    struct configuration_member now[] = {{1, MEMBER_VOTER, "a:1:2"}, {2, MEMBER_OBSERVER, "b:1:2"}};
    struct configuration_member target[] = {{1, MEMBER_VOTER, "a:1:2"}, {3, MEMBER_VOTER, "c:1:2"}};
    membership_step_next(now, 2, target, 2, 1, &facts, &step);
    assert_int_equal(step.action, TRANSITION_CHANGE);
    assert_int_equal(step.id, 3);
    assert_int_equal(step.count, 3);
    known.may_go = 1u << 2;
    membership_step_next(now, 2, target, 2, 1, &facts, &step);
    assert_int_equal(step.id, 2);
    assert_int_equal(step.count, 1);
}

static const struct configuration_member three[] = {
    {1, MEMBER_VOTER, "a:1:2"}, {2, MEMBER_VOTER, "b:1:2"}, {3, MEMBER_VOTER, "c:1:2"}};

static void hear(struct bootstrap *f, uint64_t id, enum peer_age age)
{
    struct peer_identity who = {.id = id, .age = age};
    memset(who.cluster, age == PEER_FRESH || age == PEER_IMPORTING ? 0 : (int)id,
           sizeof who.cluster);
    if (age == PEER_FOUNDED) {
        bootstrap_cluster(three, 3, who.cluster);
    }
    bootstrap_hello(f, &who);
}

static void test_founding(void **state)
{
    struct bootstrap f;
    bootstrap_init(&f, 1, three, 3);
    assert_int_equal(bootstrap_decide(&f, 0), FOUNDING_WAIT); /* alone */
    assert_int_equal(bootstrap_decide(&f, 100000), FOUNDING_WAIT);
    hear(&f, 2, PEER_FRESH);
    assert_int_equal(bootstrap_decide(&f, 100000), FOUNDING_WAIT); /* the third may have data */
    assert_int_equal(bootstrap_decide(&f, 100999), FOUNDING_WAIT);
    assert_int_equal(bootstrap_decide(&f, 101000), FOUNDING_FOUND);

    bootstrap_init(&f, 1, three, 3);
    hear(&f, 2, PEER_FOUNDED);
    hear(&f, 3, PEER_FRESH);
    assert_int_equal(bootstrap_decide(&f, 0), FOUNDING_FOUND);
}

/* A new server that lists one member more than an ensemble without any entry yet: it joins, and founds none of its own. */
static void test_a_young_ensemble_is_joined(void **state)
{
    static const struct configuration_member four[] = {{1, MEMBER_VOTER, "a:1:2"},
                                                       {2, MEMBER_VOTER, "b:1:2"},
                                                       {3, MEMBER_VOTER, "c:1:2"},
                                                       {4, MEMBER_VOTER, "d:1:2"}};
    struct bootstrap f;
    bootstrap_init(&f, 4, four, 4);
    for (uint64_t id = 1; id <= 3; id++) {
        struct peer_identity who = {.id = id, .age = PEER_FOUNDED};
        bootstrap_cluster(three, 3, who.cluster);
        bootstrap_hello(&f, &who);
        assert_int_equal(bootstrap_decide(&f, 0), FOUNDING_JOIN);
        assert_memory_equal(f.cluster, who.cluster, sizeof who.cluster);
    }
}

/* Whose disk was wiped joins; so does who is of no ensemble yet, as soon as somebody has data. */
static void test_joining(void **state)
{
    struct bootstrap f;
    bootstrap_init(&f, 1, three, 3);
    hear(&f, 2, PEER_FRESH);
    hear(&f, 3, PEER_GROWN);
    assert_int_equal(bootstrap_decide(&f, 0), FOUNDING_JOIN);
    assert_int_equal(f.cluster[0], 3);

    bootstrap_init(&f, 9, three, 3);
    hear(&f, 1, PEER_FRESH);
    hear(&f, 2, PEER_FRESH);
    hear(&f, 3, PEER_FRESH);
    assert_int_equal(bootstrap_decide(&f, 100000), FOUNDING_WAIT);
    hear(&f, 1, PEER_GROWN);
    assert_int_equal(bootstrap_decide(&f, 100000), FOUNDING_JOIN);
}

/* Who lost its data is neither new nor has it any: nothing is founded with it, nothing joined. */
static void test_lost_is_not_fresh(void **state)
{
    struct bootstrap f;
    bootstrap_init(&f, 1, three, 3);
    hear(&f, 2, PEER_LOST);
    assert_int_equal(bootstrap_decide(&f, 0), FOUNDING_WAIT);
    assert_int_equal(bootstrap_decide(&f, 100000), FOUNDING_WAIT);
    hear(&f, 3, PEER_GROWN);
    assert_int_equal(bootstrap_decide(&f, 100000), FOUNDING_JOIN);
    assert_int_equal(f.cluster[0], 3);

    bootstrap_init(&f, 1, three, 3);
    hear(&f, 2, PEER_FRESH);
    hear(&f, 2, PEER_LOST); /* it found out */
    hear(&f, 3, PEER_LOST);
    assert_int_equal(bootstrap_decide(&f, 0), FOUNDING_WAIT);
    assert_int_equal(bootstrap_decide(&f, 100000), FOUNDING_WAIT);
}

/* A member may begin with data of Apache's: two new ones found nothing without it. */
static void test_nothing_is_founded_beside_an_import(void **state)
{
    struct bootstrap f;
    bootstrap_init(&f, 1, three, 3);
    hear(&f, 2, PEER_FRESH);
    hear(&f, 3, PEER_IMPORTING);
    assert_int_equal(bootstrap_decide(&f, 0), FOUNDING_WAIT);
    assert_int_equal(bootstrap_decide(&f, 100000), FOUNDING_WAIT);
    hear(&f, 3, PEER_GROWN);
    assert_int_equal(bootstrap_decide(&f, 100000), FOUNDING_JOIN);
}

/* Whose data are damaged belongs to an ensemble: two who lost their folders do not found another beside it, until it
 * turns out to be empty, or to have data. */
static void test_nothing_is_founded_beside_a_loss(void **state)
{
    struct bootstrap f;
    bootstrap_init(&f, 1, three, 3);
    hear(&f, 2, PEER_FRESH);
    assert_int_equal(bootstrap_decide(&f, 0), FOUNDING_WAIT);
    hear(&f, 3, PEER_LOST);
    assert_int_equal(bootstrap_decide(&f, 1), FOUNDING_WAIT);
    assert_int_equal(bootstrap_decide(&f, 100000), FOUNDING_WAIT);
    hear(&f, 3, PEER_FRESH); /* its folder was emptied */
    assert_int_equal(bootstrap_decide(&f, 100000), FOUNDING_FOUND);
    hear(&f, 3, PEER_LOST);
    hear(&f, 3, PEER_GROWN); /* or what was missing was put back */
    assert_int_equal(bootstrap_decide(&f, 100000), FOUNDING_JOIN);

    bootstrap_init(&f, 1, three, 3);
    hear(&f, 2, PEER_FRESH);
    hear(&f, 3, PEER_FRESH);
    hear(&f, 9, PEER_LOST); /* not configured here */
    assert_int_equal(bootstrap_decide(&f, 100000), FOUNDING_WAIT);
}

static const char no_folder[] = "/no/such/folder"; /* no members are kept there */

static void heal_hear(struct repair *h, uint64_t id, enum peer_age age)
{
    struct peer_identity who = {.id = id, .age = age};
    memset(who.cluster, age == PEER_FRESH ? 0 : 7, sizeof who.cluster);
    repair_hello(h, &who);
}

/* Damaged data are moved aside only when a majority of the voters, without this server, has its data and is there. */
static void test_healing_waits_for_a_majority(void **state)
{
    static const struct damage_look unknown = {.fresh = false};
    struct repair h;
    unsigned linked = 1u << 2 | 1u << 3;
    repair_init(&h, 1, true, no_folder, three, 3);
    assert_true(repair_is_possible(&h));
    repair_want(&h, &unknown);
    assert_false(repair_may_begin(&h, bit, &linked));
    heal_hear(&h, 2, PEER_GROWN);
    assert_false(repair_may_begin(&h, bit, &linked)); /* the third may have none */
    heal_hear(&h, 3, PEER_LOST);
    assert_false(repair_may_begin(&h, bit, &linked));
    heal_hear(&h, 3, PEER_FOUNDED);
    assert_false(repair_may_begin(&h, bit, &linked));
    heal_hear(&h, 9, PEER_GROWN); /* a stranger */
    assert_false(repair_may_begin(&h, bit, &linked));
    heal_hear(&h, 3, PEER_GROWN);
    assert_true(repair_may_begin(&h, bit, &linked));
    assert_int_equal(h.cluster[0], 7);
    linked = 1u << 2;
    assert_false(repair_may_begin(&h, bit, &linked));
    linked |= 1u << 3;
    heal_hear(&h, 2, PEER_LOST); /* it lost its data meanwhile */
    assert_false(repair_may_begin(&h, bit, &linked));
}

/* Two of three in trouble: one stepped aside, the other damaged. What either holds may be all there is. */
static void test_healing_waits_for_who_stepped_aside(void **state)
{
    static const struct damage_look unknown = {.fresh = false};
    struct repair h;
    unsigned linked = 1u << 2 | 1u << 3;
    repair_init(&h, 1, true, no_folder, three, 3);
    repair_want(&h, &unknown);
    heal_hear(&h, 2, PEER_GROWN);
    heal_hear(&h, 3, PEER_GROWN);
    assert_true(repair_may_begin(&h, bit, &linked));
    heal_hear(&h, 3, repair_age_aside(PEER_GROWN));
    assert_false(repair_may_begin(&h, bit, &linked));
    heal_hear(&h, 3, PEER_GROWN); /* it came back */
    assert_true(repair_may_begin(&h, bit, &linked));

    struct bootstrap f;
    bootstrap_init(&f, 1, three, 3);
    hear(&f, 2, PEER_FRESH);
    hear(&f, 3, repair_age_aside(PEER_FOUNDED)); /* it has none yet */
    assert_int_equal(bootstrap_decide(&f, 0), FOUNDING_FOUND);
    bootstrap_init(&f, 1, three, 3);
    hear(&f, 2, PEER_FRESH);
    hear(&f, 3, repair_age_aside(PEER_GROWN));
    assert_int_equal(bootstrap_decide(&f, 100000), FOUNDING_WAIT);
}

static void test_healing_is_not_possible_everywhere(void **state)
{
    static const struct configuration_member watched[] = {
        {1, MEMBER_OBSERVER, "a:1:2"}, {2, MEMBER_VOTER, "b:1:2"}, {3, MEMBER_VOTER, "c:1:2"}};
    struct repair h;
    repair_init(&h, 1, false, no_folder, three, 3);
    assert_false(repair_is_possible(&h)); /* switched off */
    repair_init(&h, 1, true, no_folder, three, 2);
    assert_false(repair_is_possible(&h)); /* the other has no majority */
    repair_init(&h, 1, true, no_folder, three, 1);
    assert_false(repair_is_possible(&h));
    repair_init(&h, 1, true, no_folder, watched, 3);
    assert_true(repair_is_possible(&h)); /* an observer is not missed */
    repair_init(&h, 2, true, no_folder, watched, 3);
    assert_false(repair_is_possible(&h));
    repair_init(&h, 0, false, no_folder, NULL, 0); /* standalone */
    assert_false(repair_is_possible(&h));
}

/* Damage after a reconfig: the files list members that have left, or lack some that joined. The members of the log's
 * configuration count; the folder keeps them, so that a start knows them, too. */
static void test_healing_counts_the_members_of_the_log(void **state)
{
    static const struct configuration_member five[] = {{1, MEMBER_VOTER, "a:1:2"},
                                                       {2, MEMBER_VOTER, "b:1:2"},
                                                       {3, MEMBER_VOTER, "c:1:2"},
                                                       {4, MEMBER_VOTER, "d:1:2"},
                                                       {5, MEMBER_VOTER, "e:1:2"}};
    static const struct damage_look unknown = {.fresh = false};
    static const uint8_t cluster[PEER_CLUSTER_SIZE] = {7, 7};
    char dir[] = "/tmp/conclave-healing-XXXXXX";
    char path[sizeof dir + 16];
    unsigned linked = ~0u;
    struct repair h;
    assert_non_null(mkdtemp(dir));
    for (int again = 0; again < 3; again++) { /* in the run that applied it, and in the next ones */
        repair_init(&h, 1, true, dir, three, 3);
        if (again == 0) {
            repair_configuration(&h, cluster, 9, five, 5);
        }
        if (again == 2) {
            repair_configuration(&h, cluster, 1, three, 3); /* a start applies it again */
        }
        repair_want(&h, &unknown);
        heal_hear(&h, 2, PEER_GROWN);
        heal_hear(&h, 3, PEER_GROWN);
        assert_false(repair_may_begin(&h, bit, &linked)); /* two of five */
        heal_hear(&h, 5, PEER_GROWN);
        assert_true(repair_may_begin(&h, bit, &linked));
        repair_finish(&h);
    }
    repair_init(&h, 1, true, dir, five, 5);
    repair_configuration(&h, cluster, 12, three, 3);
    repair_finish(&h);
    repair_init(&h, 1, true, dir, five, 5);
    repair_want(&h, &unknown);
    heal_hear(&h, 2, PEER_GROWN);
    heal_hear(&h, 4, PEER_GROWN); /* was removed */
    assert_false(repair_may_begin(&h, bit, &linked));
    heal_hear(&h, 3, PEER_GROWN);
    assert_true(repair_may_begin(&h, bit, &linked)); /* two of three */
    repair_finish(&h);

    /* Members that fail the check are ignored: the configured ones count. */
    snprintf(path, sizeof path, "%s/members", dir);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 50, SEEK_SET), 0);
    assert_int_not_equal(fputc(0x55, file), EOF);
    assert_int_equal(fclose(file), 0);
    repair_init(&h, 1, true, dir, three, 3);
    assert_int_equal(h.n_members, 3);
    repair_finish(&h);
    assert_int_equal(remove(path), 0);
    assert_int_equal(remove(dir), 0);
}

static void test_cluster_of_founders(void **state)
{
    struct configuration_member turned[] = {three[2], three[0], three[1]};
    struct configuration_member other[] = {three[0], three[1], {3, MEMBER_VOTER, "d:1:2"}};
    uint8_t a[PEER_CLUSTER_SIZE];
    uint8_t b[PEER_CLUSTER_SIZE];
    bootstrap_cluster(three, 3, a);
    bootstrap_cluster(turned, 3, b);
    assert_memory_equal(a, b, sizeof a);
    bootstrap_cluster(other, 3, b);
    assert_memory_not_equal(a, b, sizeof a);
}

/* Only a server that says that it has its data is given a vote: one that still joins would not use it. */
static void test_who_joins_is_given_no_vote_yet(void **state)
{
    static struct reconfig r;
    static const struct {
        enum peer_age age;
        bool may_vote;
    } rows[] = {{PEER_LOST, false},
                {PEER_FRESH, false},
                {PEER_GROWN, true},
                {PEER_FOUNDED, true},
                {PEER_LOST, false}};
    struct peer_identity other = {.id = 3, .age = PEER_GROWN};
    assert_false(reconfig_may_vote(&r, 2)); /* never heard of */
    reconfig_hello(&r, &other);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct peer_identity who = {.id = 2, .age = rows[i].age};
        reconfig_hello(&r, &who);
        assert_int_equal(reconfig_may_vote(&r, 2), rows[i].may_vote);
    }
    assert_true(reconfig_may_vote(&r, 3));
    assert_int_equal(r.n_peers, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_are_safe),
        cmocka_unit_test(test_address_changes),
        cmocka_unit_test(test_withdrawn_change),
        cmocka_unit_test(test_others_do_not_wait_for_the_leaving),
        cmocka_unit_test(test_founding),
        cmocka_unit_test(test_a_young_ensemble_is_joined),
        cmocka_unit_test(test_joining),
        cmocka_unit_test(test_cluster_of_founders),
        cmocka_unit_test(test_lost_is_not_fresh),
        cmocka_unit_test(test_nothing_is_founded_beside_a_loss),
        cmocka_unit_test(test_nothing_is_founded_beside_an_import),
        cmocka_unit_test(test_healing_waits_for_a_majority),
        cmocka_unit_test(test_healing_waits_for_who_stepped_aside),
        cmocka_unit_test(test_healing_is_not_possible_everywhere),
        cmocka_unit_test(test_healing_counts_the_members_of_the_log),
        cmocka_unit_test(test_who_joins_is_given_no_vote_yet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
