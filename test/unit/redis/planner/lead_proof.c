/*
 * How long a leader may act by its confirmed reports: the arithmetic, and a leader on an ensemble that writes one report at a
 * time, the newest, and is as slow as the test says. Whoever takes its lead away reads what is written there.
 */
#include "redis/planner/lead_proof.h"

#include "redis/planner/down_vote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SESSION_MS = 6000, MOST_MS = 4000, REPORT_MS = 250 };

static void a_quick_ensemble_needs_the_least(void **state)
{
    struct lead_proof p;
    lead_proof_init(&p);
    assert_false(lead_proof_may_act(&p, 0));
    assert_int_equal(lead_proof_make(&p, 1, SESSION_MS, 0), REDIS_LEAD_MIN_MS);
    assert_false(lead_proof_may_act(&p, 10)); /* it is not confirmed */
    lead_proof_confirm(&p, 1, 20);
    assert_true(lead_proof_may_act(&p, 20));
    assert_true(lead_proof_may_act(&p, 999));
    assert_false(lead_proof_may_act(&p, 1000)); /* made at 0, not confirmed at 0 */
    assert_int_equal(lead_proof_make(&p, 2, SESSION_MS, 1000), REDIS_LEAD_MIN_MS);
    assert_false(lead_proof_may_act(&p, 1000));
    lead_proof_confirm(&p, 2, 1001);
    assert_true(lead_proof_may_act(&p, 1999));
}

static void the_lag_rises_at_once_and_falls_by_quarters(void **state)
{
    struct lead_proof p;
    lead_proof_init(&p);
    (void)lead_proof_make(&p, 1, SESSION_MS, 0);
    lead_proof_confirm(&p, 1, 800);
    assert_int_equal(p.lag_ms, 800);
    assert_int_equal(lead_proof_make(&p, 2, SESSION_MS, 800), 2 * 800 + 500);
    lead_proof_confirm(&p, 2, 800);
    assert_int_equal(p.lag_ms, 600);
    (void)lead_proof_make(&p, 3, SESSION_MS, 10000);
    lead_proof_confirm(&p, 3, 10200);
    assert_int_equal(p.lag_ms, 500);
    assert_int_equal(lead_proof_make(&p, 4, SESSION_MS, 20000), 2 * 500 + 500);
    lead_proof_confirm(&p, 4, 20700);
    assert_int_equal(p.lag_ms, 700);
}

static void a_report_without_an_answer_counts_with_its_age(void **state)
{
    struct lead_proof p;
    lead_proof_init(&p);
    (void)lead_proof_make(&p, 1, SESSION_MS, 0);
    assert_int_equal(lead_proof_make(&p, 2, SESSION_MS, 1200), 2 * 1200 + 500);
    assert_int_equal(p.lag_ms, 0);
}

static void the_session_bounds_it(void **state)
{
    struct lead_proof p;
    lead_proof_init(&p);
    (void)lead_proof_make(&p, 1, SESSION_MS, 0);
    assert_int_equal(lead_proof_make(&p, 2, SESSION_MS, 3000), MOST_MS);
    lead_proof_init(&p);
    (void)lead_proof_make(&p, 1, 0, 0); /* the session is not known yet */
    assert_int_equal(lead_proof_make(&p, 2, 0, 3000), REDIS_LEAD_MIN_MS);
    assert_int_equal(lead_proof_make(&p, 3, 900, 6000), REDIS_LEAD_MIN_MS);
}

/* A successor waits for what the last report says: it must not say less than an earlier one. */
static void until_never_goes_back(void **state)
{
    struct lead_proof p;
    lead_proof_init(&p);
    (void)lead_proof_make(&p, 1, SESSION_MS, 0);
    lead_proof_confirm(&p, 1, 1500);
    assert_int_equal(lead_proof_make(&p, 2, SESSION_MS, 1500), 2 * 1500 + 500); /* until 5000 */
    for (uint64_t seq = 3; seq < 20; seq++) {
        int64_t now = 1500 + (int64_t)seq;
        lead_proof_confirm(&p, seq - 1, now);
        assert_true(now + lead_proof_make(&p, seq, SESSION_MS, now) >= 5000);
    }
    assert_true(p.lag_ms < 20);
    assert_int_equal(lead_proof_make(&p, 20, SESSION_MS, 2000), 3000); /* not its own 1000 */
    lead_proof_confirm(&p, 20, 2001);
    assert_int_equal(lead_proof_make(&p, 21, SESSION_MS, 4500), REDIS_LEAD_MIN_MS);
}

static void late_and_unknown_answers_prove_nothing(void **state)
{
    struct lead_proof p;
    lead_proof_init(&p);
    lead_proof_confirm(&p, 1, 0); /* none was made */
    (void)lead_proof_make(&p, 7, SESSION_MS, 0);
    (void)lead_proof_make(&p, 8, SESSION_MS, 250);
    lead_proof_confirm(&p, 6, 300);
    lead_proof_confirm(&p, 9, 300);
    assert_false(lead_proof_may_act(&p, 300));
    lead_proof_confirm(&p, 8, 300);
    int64_t lag_ms = p.lag_ms;
    assert_true(lead_proof_may_act(&p, 1249));
    lead_proof_confirm(&p, 7, 900); /* a server that is behind */
    assert_true(lead_proof_may_act(&p, 1249));
    assert_false(lead_proof_may_act(&p, 1250));
    assert_int_equal(p.lag_ms, lag_ms);
    (void)lead_proof_make(&p, 9, SESSION_MS, 1300);
    lead_proof_confirm(&p, 9, 2300); /* its time is over */
    assert_false(lead_proof_may_act(&p, 2300));
}

static void the_oldest_of_too_many_is_forgotten(void **state)
{
    struct lead_proof p;
    lead_proof_init(&p);
    for (uint64_t seq = 1; seq <= LEAD_PROOF_REPORTS + 2; seq++) {
        (void)lead_proof_make(&p, seq, SESSION_MS, (int64_t)seq);
    }
    lead_proof_confirm(&p, 2, 100);
    assert_false(lead_proof_may_act(&p, 100));
    lead_proof_confirm(&p, 3, 100);
    assert_true(lead_proof_may_act(&p, 100));
    assert_int_equal(p.lag_ms, 97);
    lead_proof_confirm(&p, LEAD_PROOF_REPORTS + 2, 100);
    assert_int_equal(p.count, 0);
}

static void an_operator_learns_of_a_leader_that_may_not_act(void **state)
{
    struct lead_proof p;
    lead_proof_init(&p);
    (void)lead_proof_make(&p, 1, SESSION_MS, 0);
    assert_false(lead_proof_stalls(&p, 100000)); /* it does not lead */
    lead_proof_lead(&p, true, 100000);
    assert_false(lead_proof_stalls(&p, 101000));
    assert_true(lead_proof_stalls(&p, 101001));
    (void)lead_proof_make(&p, 2, SESSION_MS, 101001);
    lead_proof_confirm(&p, 2, 101002);
    assert_false(lead_proof_stalls(&p, 101002));
    int64_t until_ms = p.proved_ms;
    assert_false(lead_proof_stalls(&p, until_ms + p.lead_ms));
    for (uint64_t seq = 3; seq < 20; seq++) { /* what the next ones want does not delay it */
        (void)lead_proof_make(&p, seq, SESSION_MS, until_ms);
    }
    assert_true(lead_proof_stalls(&p, until_ms + p.lead_ms + 1));
    lead_proof_lead(&p, false, 200000);
    assert_false(lead_proof_stalls(&p, 200000));
}

/* --- a leader on a slow ensemble */

struct written {
    uint64_t seq;
    int64_t lead_ms;
};

struct slow {
    struct lead_proof proof;
    int64_t now;
    int64_t write_ms;        /* a write takes this long */
    int64_t read_ms;         /* reading it back */
    struct written newest;   /* the next write has this */
    struct written writing;  /* seq 0: none */
    struct written in_place; /* what others read */
    int64_t in_place_ms;
    int64_t written_ms; /* when the write ends */
    int64_t idle_ms;    /* without permission to act, since the beginning of the run */
    uint32_t chance;    /* 0: all takes as long as it says */
    struct redis_managers *others;
};

static int64_t slow_some(struct slow *s, int64_t ms)
{
    if (s->chance == 0) {
        return ms;
    }
    s->chance = s->chance * 1664525U + 1013904223U;
    return ms / 2 + (int64_t)((s->chance >> 8) % (uint32_t)(ms + 1));
}

/* Another manager reads the report as soon as it is there. */
static void slow_show(struct slow *s)
{
    static struct redis_report report;
    report = (struct redis_report){
        .id = "m1", .incarnation = "a", .seq = s->in_place.seq, .lead_ms = s->in_place.lead_ms};
    assert_int_equal(redis_managers_saw(s->others, &report, s->now), 0);
}

static void slow_tick(struct slow *s)
{
    s->now += 10;
    if (s->writing.seq != 0 && s->now == s->written_ms) {
        s->in_place = s->writing;
        s->in_place_ms = s->now;
        s->writing.seq = 0;
        slow_show(s);
    }
    if (s->in_place.seq != 0 && s->now >= s->in_place_ms + s->read_ms) {
        lead_proof_confirm(&s->proof, s->in_place.seq, s->now);
    }
    if (s->now % REPORT_MS == 0) {
        uint64_t seq = s->proof.seq + 1;
        s->newest.seq = seq;
        s->newest.lead_ms = lead_proof_make(&s->proof, seq, SESSION_MS, s->now);
    }
    if (s->writing.seq == 0 && s->newest.seq > s->in_place.seq) {
        s->writing = s->newest;
        s->written_ms = s->now + (slow_some(s, s->write_ms) / 10 + 1) * 10;
    }
    if (!lead_proof_may_act(&s->proof, s->now)) {
        s->idle_ms += 10;
    }
    /* It never acts longer than a successor waits for the report that the ensemble has now, even without a margin. */
    const struct redis_manager_view *view = redis_managers_find(s->others, "m1");
    assert_true(view == NULL || s->proof.proved_ms <= view->changed_ms + view->report.lead_ms);
    assert_true(view != NULL || s->proof.proved_ms == INT64_MIN);
}

static void slow_run(struct slow *s, int64_t ms)
{
    s->idle_ms = 0;
    for (int64_t end_ms = s->now + ms; s->now < end_ms;) {
        slow_tick(s);
    }
}

static struct slow slow_open(int64_t write_ms)
{
    struct slow s = {.write_ms = write_ms, .read_ms = 20, .others = calloc(1, sizeof *s.others)};
    assert_non_null(s.others);
    lead_proof_init(&s.proof);
    return s;
}

static void E189_a_leader_on_a_slow_ensemble_may_act_all_the_time(void **state)
{
    static const int64_t takes[] = {5, 300, 700, 1000, 1500, 1800};
    for (size_t i = 0; i < sizeof takes / sizeof takes[0]; i++) {
        struct slow s = slow_open(takes[i]);
        slow_run(&s, 10000);
        slow_run(&s, 60000);
        assert_int_equal(s.idle_ms, 0);
        s.write_ms = 5;
        slow_run(&s, 10000); /* the lag is forgotten */
        assert_int_equal(s.idle_ms, 0);
        assert_int_equal(s.proof.lead_ms, REDIS_LEAD_MIN_MS);
        free(s.others);
    }
}

static void E189_an_ensemble_that_becomes_slow_stops_a_leader_for_a_few_writes(void **state)
{
    struct slow s = slow_open(5);
    slow_run(&s, 10000);
    assert_true(s.idle_ms < 500); /* until the first report */
    s.write_ms = 1500;
    slow_run(&s, 10000);
    assert_in_range(s.idle_ms, 500, 3 * 1500);
    slow_run(&s, 60000);
    assert_int_equal(s.idle_ms, 0);
    free(s.others);
}

/* At any moment, whatever the ensemble does: slow_tick checks it. */
static void E190_a_successor_waits_out_every_confirmed_report(void **state)
{
    struct slow s = slow_open(700);
    s.chance = 1;
    for (int round = 0; round < 500; round++) {
        s.write_ms = slow_some(&s, round % 7 == 0 ? 4000 : 600);
        s.read_ms = slow_some(&s, round % 5 == 0 ? 2000 : 40);
        slow_run(&s, 1000 + slow_some(&s, 3000));
    }
    free(s.others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quick_ensemble_needs_the_least),
        cmocka_unit_test(the_lag_rises_at_once_and_falls_by_quarters),
        cmocka_unit_test(a_report_without_an_answer_counts_with_its_age),
        cmocka_unit_test(the_session_bounds_it),
        cmocka_unit_test(until_never_goes_back),
        cmocka_unit_test(late_and_unknown_answers_prove_nothing),
        cmocka_unit_test(the_oldest_of_too_many_is_forgotten),
        cmocka_unit_test(an_operator_learns_of_a_leader_that_may_not_act),
        cmocka_unit_test(E189_a_leader_on_a_slow_ensemble_may_act_all_the_time),
        cmocka_unit_test(E189_an_ensemble_that_becomes_slow_stops_a_leader_for_a_few_writes),
        cmocka_unit_test(E190_a_successor_waits_out_every_confirmed_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
