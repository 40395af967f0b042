/* Whose folder an ensemble begins with: single decisions, and thousands of seeded runs with delays, restarts and losses. */
#include "cluster/import_start.h"

#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct configuration_member five[] = {{1, MEMBER_VOTER, "a:1:2"},
                                                   {2, MEMBER_VOTER, "b:1:2"},
                                                   {3, MEMBER_VOTER, "c:1:2"},
                                                   {4, MEMBER_VOTER, "d:1:2"},
                                                   {5, MEMBER_VOTER, "e:1:2"}};

static struct import_card good(int64_t epoch, int64_t zxid)
{
    return (struct import_card){.kind = IMPORT_GOOD,
                                .rank = {epoch, zxid, (uint64_t)(epoch * 1000 + zxid)},
                                .print = (uint64_t)zxid + 7};
}

static void begin(struct import_start *x, uint64_t id, struct import_card own)
{
    import_start_init(x, id, five, 3, &own);
}

static void tell(struct import_start *x, uint64_t from, struct import_card card)
{
    import_start_card(x, from, &card);
}

static void test_the_newest_of_all(void **state)
{
    struct import_start x;
    begin(&x, 1, good(3, 10));
    assert_int_equal(import_start_decide(&x, 0), IMPORT_WAIT); /* one folder proves nothing */
    assert_int_equal(import_start_decide(&x, 100000), IMPORT_WAIT);
    tell(&x, 2, good(3, 12));
    assert_int_equal(import_start_decide(&x, 100000), IMPORT_WAIT); /* the third may be newer */
    tell(&x, 3, good(4, 11)); /* a later epoch goes before a higher zxid */
    assert_int_equal(import_start_decide(&x, 100001), IMPORT_CHOOSE);
    assert_int_equal(x.own.choice, 3);
    assert_int_equal(x.own.chosen.zxid, 11);
    assert_int_equal(import_start_decide(&x, 100002), IMPORT_WAIT);

    begin(&x, 1, good(3, 10));
    tell(&x, 2, good(3, 10));
    assert_int_equal(import_start_decide(&x, 50), IMPORT_WAIT);
    assert_int_equal(import_start_decide(&x, 50 + IMPORT_GRACE_MS - 1), IMPORT_WAIT);
    assert_int_equal(import_start_decide(&x, 50 + IMPORT_GRACE_MS), IMPORT_CHOOSE);
    assert_int_equal(x.own.choice, 1); /* equals: the lowest id */
}

static void test_damaged_and_empty_folders_prove_nothing(void **state)
{
    struct peer_identity fresh = {.id = 2, .age = PEER_FRESH};
    struct import_start x;
    begin(&x, 1, good(3, 10));
    import_start_hello(&x, &fresh);
    tell(&x, 3, (struct import_card){.kind = IMPORT_DAMAGED});
    assert_int_equal(import_start_good(&x), 1);
    assert_int_equal(import_start_decide(&x, 100000), IMPORT_WAIT);
    tell(&x, 3, good(2, 1)); /* it was repaired */
    assert_int_equal(import_start_decide(&x, 100001), IMPORT_CHOOSE);
    assert_int_equal(x.own.choice, 1);

    begin(&x, 1, (struct import_card){.kind = IMPORT_DAMAGED});
    tell(&x, 2, good(3, 10));
    tell(&x, 3, good(3, 10));
    assert_int_equal(import_start_decide(&x, 100000), IMPORT_WAIT); /* it will join */
}

static void test_a_majority_must_choose(void **state)
{
    struct import_start x;
    begin(&x, 3, good(3, 10));
    tell(&x, 1, good(3, 9));
    tell(&x, 2, good(3, 8));
    assert_int_equal(import_start_decide(&x, 0), IMPORT_CHOOSE);
    assert_int_equal(x.own.choice, 3);
    assert_int_equal(import_start_decide(&x, 1), IMPORT_WAIT);
    struct import_card card = good(3, 9);
    card.choice = 3;
    card.chosen = (struct import_rank){3, 9, 3009}; /* of another folder than this one */
    tell(&x, 1, card);
    assert_int_equal(import_start_decide(&x, 2), IMPORT_WAIT);
    card.chosen = x.own.rank;
    tell(&x, 1, card);
    assert_int_equal(import_start_decide(&x, 3), IMPORT_FOUND);
}

/* It was killed before its own choice was durable, and the others chose it meanwhile. */
static void test_a_founder_has_a_choice_of_its_own(void **state)
{
    struct import_start x;
    begin(&x, 3, good(3, 10));
    for (uint64_t other = 1; other <= 2; other++) {
        struct import_card card = good(3, 9);
        card.choice = 3;
        card.chosen = x.own.rank;
        tell(&x, other, card);
    }
    assert_int_equal(import_start_decide(&x, 0), IMPORT_CHOOSE);
    assert_int_equal(x.own.choice, 3);
    assert_int_equal(x.own.chosen.zxid, 10);
    assert_int_equal(import_start_decide(&x, 1), IMPORT_FOUND);
}

static void test_a_choice_ends_with_the_chosen_folder(void **state)
{
    struct import_card own = good(3, 10);
    struct peer_identity fresh = {.id = 2, .age = PEER_FRESH};
    struct import_start x;
    own.choice = 2;
    own.chosen = (struct import_rank){3, 12, 3012};
    begin(&x, 1, own);
    tell(&x, 3, good(3, 10));
    assert_int_equal(import_start_decide(&x, 100000), IMPORT_WAIT); /* 2 may have begun */
    import_start_hello(&x, &fresh);
    assert_int_equal(import_start_decide(&x, 100001), IMPORT_CHOOSE);
    assert_int_equal(x.own.choice, 0);
    assert_int_equal(import_start_decide(&x, 100002), IMPORT_CHOOSE);
    assert_int_equal(x.own.choice, 1);
}

static void test_two_ensembles(void **state)
{
    struct import_start x;
    struct import_card other = good(3, 10);
    begin(&x, 1, good(3, 10));
    other.rank.digest++; /* the same transaction: Apache's snapshots may differ in small things */
    tell(&x, 2, other);
    assert_int_equal(import_start_decide(&x, 0), IMPORT_WAIT);
    other.print++;
    tell(&x, 2, other);
    assert_int_equal(import_start_decide(&x, 1), IMPORT_CONFLICT);
    assert_int_equal(x.own.conflict, 1);
    assert_int_equal(x.own.conflict_with, 2);

    struct import_start third;
    begin(&third, 3, good(3, 12));
    tell(&third, 1, x.own); /* the others end, too */
    assert_int_equal(import_start_decide(&third, 1), IMPORT_CONFLICT);
    assert_int_equal(third.own.conflict_zxid, 10);
}

static void test_cards_as_bytes(void **state)
{
    struct import_card card = good(3, 10);
    struct import_card again;
    struct buf bytes;
    card.choice = 2;
    card.chosen = (struct import_rank){1, -2, UINT64_MAX};
    card.conflict_zxid = INT64_MIN;
    buf_init(&bytes, 0);
    import_card_encode(&card, &bytes);
    assert_int_equal(import_card_decode(buf_slice(&bytes), &again), 0);
    struct buf copy;
    buf_init(&copy, 0);
    import_card_encode(&again, &copy);
    assert_int_equal(copy.len, bytes.len);
    assert_memory_equal(copy.data, bytes.data, bytes.len);
    assert_int_equal(again.conflict_zxid, INT64_MIN);
    buf_finish(&copy);
    for (size_t len = 0; len < bytes.len; len++) {
        assert_int_equal(import_card_decode(slice_make(bytes.data, len), &again), CONCLAVE_EPROTO);
    }
    bytes.data[0]++;
    assert_int_equal(import_card_decode(buf_slice(&bytes), &again), CONCLAVE_EPROTO);
    bytes.data[0]--;
    bytes.data[1] = IMPORT_BEGUN + 1;
    assert_int_equal(import_card_decode(buf_slice(&bytes), &again), CONCLAVE_EPROTO);
    buf_finish(&bytes);
}

/* Seeded runs */

enum run_stage {
    RUN_IMPORTS, /* its folder has no data of ours yet */
    RUN_FOUNDED, /* it leads alone, until others join */
    RUN_JOINED,
};

struct run {
    uint64_t seed;
    size_t n;
    struct import_start members[5];
    struct import_card kept[5]; /* durable: the folder and the choice */
    bool damaged[5];            /* the folder cannot be read at present */
    size_t may_damage;          /* at most so many at a time */
    enum run_stage stage[5];    /* durable */
    bool gathering;             /* of the founder, in its memory */
    int64_t acknowledged;       /* the rank that a majority had at first */
    int64_t now_ms;
};

static uint64_t run_random(struct run *r, uint64_t below)
{
    r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
    return (r->seed >> 33) % below;
}

/* A member starts, as import_founding_init does it. */
static void run_start(struct run *r, size_t i)
{
    struct import_card card = r->kept[i];
    if (r->stage[i] == RUN_FOUNDED) {
        r->gathering = card.choice != 0;
    }
    if (r->damaged[i]) {
        card.kind = IMPORT_DAMAGED;
        card.rank = (struct import_rank){0};
        card.print = 0;
    }
    import_start_init(&r->members[i], i + 1, five, r->n, &card);
}

/* A minority of the folders breaks, and is repaired as it was. */
static void run_damage(struct run *r, size_t i)
{
    size_t damaged = 0;
    for (size_t k = 0; k < r->n; k++) {
        damaged += r->damaged[k];
    }
    if (r->stage[i] == RUN_IMPORTS && (r->damaged[i] || damaged < r->may_damage)) {
        r->damaged[i] = !r->damaged[i];
    }
}

static void run_choose(struct run *r, size_t i)
{
    const struct import_start *x = &r->members[i];
    if (run_random(r, 8) == 0) {
        run_start(r, i); /* killed before it was durable */
        return;
    }
    r->kept[i].choice = x->own.choice;
    r->kept[i].chosen = x->own.chosen;
}

static void run_found(struct run *r, size_t i)
{
    assert_false(r->damaged[i]);
    assert_true(r->kept[i].choice != 0); /* so that it gathers also after a restart */
    assert_true(r->kept[i].rank.zxid >= r->acknowledged);
    if (run_random(r, 8) > 0) {
        r->stage[i] = RUN_FOUNDED;
        r->gathering = true;
    }
    if (run_random(r, 4) == 0) {
        run_start(r, i);
    }
}

static void run_decide(struct run *r, size_t i)
{
    if (r->stage[i] == RUN_IMPORTS) {
        switch (import_start_decide(&r->members[i], r->now_ms)) {
        case IMPORT_CHOOSE:
            run_choose(r, i);
            break;
        case IMPORT_FOUND:
            run_found(r, i);
            break;
        default:
            break;
        }
    }
}

static size_t run_count(const struct run *r, enum run_stage stage)
{
    size_t count = 0;
    for (size_t i = 0; i < r->n; i++) {
        count += r->stage[i] == stage;
    }
    return count;
}

/* One member hears another: its card, or that there is an ensemble. */
static void run_hear(struct run *r, size_t from, size_t to)
{
    if (r->stage[to] != RUN_IMPORTS) {
        return;
    }
    if (r->stage[from] == RUN_IMPORTS) {
        import_start_card(&r->members[to], from + 1, &r->members[from].own);
        return;
    }
    r->stage[to] = RUN_JOINED;
    if (run_count(r, RUN_JOINED) + 1 >= import_start_needed(&r->members[to])) {
        r->gathering = false; /* as import_founding_members: nobody needs a choice any more */
        for (size_t i = 0; i < r->n; i++) {
            r->kept[i].choice = r->stage[i] == RUN_IMPORTS ? r->kept[i].choice : 0;
        }
    }
}

static void run_check(const struct run *r)
{
    size_t founders = run_count(r, RUN_FOUNDED);
    size_t needed = r->n / 2 + 1;
    assert_true(founders <= 1);
    assert_true(founders == 0 || r->gathering == (run_count(r, RUN_JOINED) + 1 < needed));
}

static void run_step(struct run *r)
{
    size_t i = run_random(r, r->n);
    size_t k = run_random(r, r->n);
    r->now_ms += (int64_t)run_random(r, IMPORT_GRACE_MS / 4);
    if (run_random(r, 20) == 0) {
        if (run_random(r, 2) == 0) {
            run_damage(r, i);
        }
        run_start(r, i);
    } else if (i != k && run_random(r, 3) > 0) {
        run_hear(r, i, k);
    } else {
        run_decide(r, i);
    }
    run_check(r);
}

/* The rank that a majority has at least: all that Apache can have acknowledged. */
static int64_t run_acknowledged(const struct run *r)
{
    int64_t best = 0;
    for (size_t i = 0; i < r->n; i++) {
        size_t as_new = 0;
        for (size_t k = 0; k < r->n; k++) {
            as_new += r->kept[k].rank.zxid >= r->kept[i].rank.zxid;
        }
        best = as_new > r->n / 2 && r->kept[i].rank.zxid > best ? r->kept[i].rank.zxid : best;
    }
    return best;
}

/* Returns whether an ensemble has begun that serves. */
static bool run_to_the_end(uint64_t seed, size_t n, size_t may_damage)
{
    struct run r = {.seed = seed, .n = n, .may_damage = may_damage};
    for (size_t i = 0; i < n; i++) {
        r.kept[i] = good(1, 100 + (int64_t)run_random(&r, 4));
        run_start(&r, i);
    }
    r.acknowledged = run_acknowledged(&r);
    uint64_t steps = run_random(&r, 200);
    for (uint64_t step = 0; step < steps; step++) {
        run_step(&r);
    }
    /* Then everybody hears everybody. */
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < n; k++) {
                if (i != k) {
                    run_hear(&r, i, k);
                }
            }
        }
        for (size_t i = 0; i < n; i++) {
            run_decide(&r, i);
            run_check(&r);
        }
        r.now_ms += IMPORT_GRACE_MS;
    }
    return run_count(&r, RUN_FOUNDED) == 1 && !r.gathering;
}

static void test_one_founder_with_all_that_was_acknowledged(void **state)
{
    size_t split = 0;
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        assert_true(run_to_the_end(seed, 3, 0));
        split += !run_to_the_end(seed, 5, 0);
    }
    /* Five members can split their choices three ways; the log says then which file to remove. */
    assert_true(split < 200);
}

static void test_one_founder_beside_damaged_folders(void **state)
{
    size_t split = 0;
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        split += !run_to_the_end(seed, 3, 1);
        split += !run_to_the_end(seed, 5, 2);
    }
    assert_true(split < 800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_newest_of_all),
        cmocka_unit_test(test_damaged_and_empty_folders_prove_nothing),
        cmocka_unit_test(test_a_majority_must_choose),
        cmocka_unit_test(test_a_founder_has_a_choice_of_its_own),
        cmocka_unit_test(test_a_choice_ends_with_the_chosen_folder),
        cmocka_unit_test(test_two_ensembles),
        cmocka_unit_test(test_cards_as_bytes),
        cmocka_unit_test(test_one_founder_with_all_that_was_acknowledged),
        cmocka_unit_test(test_one_founder_beside_damaged_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
